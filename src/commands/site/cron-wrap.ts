import { applyWrap, planWrap, type WrappedLine } from '../../hosting/crontab/import/wrap.ts';
import { readCrontab } from '../../hosting/crontab/program.ts';
import { placeScript } from '../../hosting/crontab/script.ts';
import { formatJson } from '../../report/json.ts';
import { countOf } from '../../system/base/format.ts';
import { printableLine } from '../../system/base/text.ts';
import { userEnvironment } from '../../system/process/programs.ts';
import type { CommandContext } from '../shared/context.ts';
import type { Given } from '../table.ts';

/** `runner cron --import --wrap`: gives the commands of the user's lines to `runner exec`. */
export function wrapLines(context: CommandContext, root: string, { dryRun = false, json }: Given<'cron'>): void {
  const { env, stdout, distFolder, version } = context;
  const crontab = readCrontab(env);
  const script = placeScript(root, env, crontab).path;
  const plan = planWrap(crontab, { root, script, user: userEnvironment(env).USER ?? '' });
  const changed = plan.lines.filter(({ isThere }) => !isThere);
  if (!dryRun && changed.length > 0) applyWrap({ root, own: { distFolder, version }, env, plan });
  if (json) {
    stdout.write(formatJson({ lines: plan.lines.map(toJson) }));
    return;
  }
  stdout.write(plan.lines.map((line) => `${describeLine(line, dryRun)}\n`).join('\n'));
  stdout.write(describeEnd(changed.length, dryRun));
}

function fromLatin1(text: string): string {
  return Buffer.from(text, 'latin1').toString();
}

function toJson({ line, before, after, name, reason }: WrappedLine) {
  return { line, name, before: fromLatin1(before), after: after === null ? null : fromLatin1(after), reason };
}

function describeLine({ line, before, after, name, reason, isThere }: WrappedLine, isDiff: boolean): string {
  const shown = printableLine(fromLatin1(before));
  if (after !== null && isThere) return `line ${line}: ${shown}\n  → ${name}, as before`;
  if (after === null) return `line ${line}: ${shown}\n  left as it is\n    ${printableLine(fromLatin1(reason ?? ''))}`;
  return isDiff ? `- ${shown}\n+ ${printableLine(fromLatin1(after))}` : `line ${line}: ${shown}\n  → ${name}`;
}

function describeEnd(count: number, dryRun: boolean): string {
  if (count === 0) return '\nThere is nothing more to wrap, so nothing was changed.\n';
  const lines = countOf(count, 'line');
  if (dryRun) return `\n${lines} would be wrapped. Nothing was changed: leave out --dry-run to do it.\n`;
  return (
    `\nDone: ${lines} of your crontab ${count === 1 ? 'runs' : 'run'} as before, and the log has each run: ` +
    '`npx folder-runner report --tier exec`.\n`npx folder-runner cron --import exec/<name>` shows the script that a line ' +
    'could become; `npx folder-runner cron --undo` goes back.\n'
  );
}
