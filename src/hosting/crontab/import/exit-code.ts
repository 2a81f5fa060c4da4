import { basename } from 'node:path';
import { programsOf, type ShellCommand, type Step } from './command.ts';

/** What ends with a code other than 0 although nothing is wrong: cron has never looked at it. */
export function noteExitCode({ steps }: ShellCommand): readonly string[] {
  const list = lastList(steps);
  const last = list.at(-1);
  if (last === undefined || last.operator === '&') return [];
  if (list.some((step) => step !== last && step.operator === '&&' && TEST.test(nameOf(step)))) {
    return [
      'It ends with code 1 when its test says no, and that counts as a failure here: ' +
        'write `if …; then …; fi` in the script.',
    ];
  }
  return GREP.test(nameOf(last))
    ? [
        'It ends with code 1 when grep finds nothing, and that counts as a failure here: ' +
          'write `|| [ $? -eq 1 ]` behind it in the script.',
      ]
    : [];
}

const GREP = /^[efz]?grep$/;
const TEST = /^(?:\[|\[\[|test|expr|pgrep|pidof|[efz]?grep)$/;

/** The steps that decide about the code of the whole line. */
function lastList(steps: readonly Step[]): readonly Step[] {
  const before = steps.findLastIndex(
    ({ operator }, index) => index < steps.length - 1 && !/^(?:&&|\|&?)$/.test(operator),
  );
  return steps.slice(before + 1);
}

function nameOf(step: Step): string {
  return basename(programsOf(step)[0]?.name ?? '');
}
