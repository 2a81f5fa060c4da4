import { resolve } from 'node:path';
import type { CrontabLine } from './crontab-line.ts';
import { type Finding, note, ok, problem } from './finding.ts';
import { judgeFrequency } from './judge-frequency.ts';
import { findFlaws } from './line-flaws.ts';
import type { DoctorPlace } from './place.ts';
import { tryLine } from './try-line.ts';

export const INSTALL = 'Run `runner cron --install`, which writes the lines anew.';

/** What is to be said about one line that calls this root. */
export async function judgeLine(place: DoctorPlace, line: CrontabLine): Promise<Finding[]> {
  const what = `line ${line.number}, ${line.call ?? 'without a tier'}`;
  const cure = cureOf(line);
  const flaws = await findFlaws(place, line);
  if (flaws.length > 0) return flaws.map((flaw) => problem(`${what}: ${flaw}`, cure));
  const frequency = judgeFrequency(line, (await place.discovery()).tiers);
  return [
    ...(frequency === null ? [] : [note(`${what}: ${frequency}`, cure)]),
    await judgeTrial(place, line, what),
  ];
}

async function judgeTrial(place: DoctorPlace, line: CrontabLine, what: string): Promise<Finding> {
  if (!line.isCertain) {
    const found = `${what}: not tried, as it holds variables of the shell`;
    return note(found, 'Write full paths into it.');
  }
  const trial = await tryLine(line);
  if (trial.works) {
    return judgeCommand(place, line, `${what}: works in cron’s bare environment`, trial.version);
  }
  const found = `${what}: does not work in cron’s bare environment: ${trial.reason}`;
  return problem(found, cureOf(line));
}

/** What nobody marked, `runner cron --install` leaves alone. */
function cureOf({ number, isMarked, call }: CrontabLine): string {
  if (!isMarked) {
    return `Correct line ${number} with \`crontab -e\`, or delete it and run \`runner cron --install\`.`;
  }
  return call === 'due' ? INSTALL.replace('--install', '--install --due') : INSTALL;
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
