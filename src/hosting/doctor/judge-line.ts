import { resolve } from 'node:path';
import { tierPeriodMs } from '../../discovery/tier-period.ts';
import type { CrontabLine } from './crontab-line.ts';
import { type Finding, note, ok, problem, warning } from './finding.ts';
import type { DoctorPlace } from './place.ts';
import { tryLine } from './try-line.ts';

export const INSTALL = 'Run `runner cron --install`, which writes the lines anew.';

/** What is to be said about one line that calls this root. */
export async function judgeLine(place: DoctorPlace, line: CrontabLine): Promise<Finding[]> {
  const what = `line ${line.number}, ${line.call ?? 'without a tier'}`;
  const flaws = flawsOf(line).map((flaw) => problem(`${what}: ${flaw}`, cureOf(line)));
  if (flaws.length > 0) return flaws;
  if (!line.isCertain) {
    return [
      note(`${what}: not tried, as it holds variables of the shell`, 'Write full paths into it.'),
    ];
  }
  const trial = await tryLine(line);
  if (!trial.works) {
    const found = `${what}: does not work in cron’s bare environment: ${trial.reason}`;
    return [problem(found, cureOf(line))];
  }
  return [
    ...(await judgeTier(place, line, what)),
    judgeCommand(place, line, `${what}: works in cron’s bare environment`, trial.version),
  ];
}

function flawsOf({ call, flaws }: CrontabLine): readonly string[] {
  return call === null ? [...flaws, 'it names no tier'] : flaws;
}

/** What nobody marked, `runner cron --install` leaves alone. */
function cureOf({ number, isMarked }: CrontabLine): string {
  if (isMarked) return INSTALL;
  return `Correct line ${number} with \`crontab -e\`, or delete it and run \`runner cron --install\`.`;
}

/** A tier's folder that was renamed or removed: cron mails the refusal each time. */
async function judgeTier(
  { discovery }: DoctorPlace,
  line: CrontabLine,
  what: string,
): Promise<Finding[]> {
  const call = line.call ?? '';
  const { tiers } = await discovery();
  if (tierPeriodMs(call) === null || tiers.some(({ name }) => name === call)) return [];
  return [warning(`${what}: there is no folder jobs/${call}, so each call fails`, cureOf(line))];
}

function judgeCommand(
  { commandPath, version }: DoctorPlace,
  line: CrontabLine,
  works: string,
  calledVersion: string,
): Finding {
  const path = line.words.find((word) => word.endsWith('/bin.cjs'));
  if (calledVersion === version || path === undefined || resolve(path) === commandPath) {
    return ok(works);
  }
  return note(
    `${works}, with version ${calledVersion} at ${path}; this is ${version}`,
    cureOf(line),
  );
}
