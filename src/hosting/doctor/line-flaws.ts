import { readCronGapMs } from './cron-time.ts';
import type { CrontabLine } from './crontab-line.ts';
import type { DoctorPlace } from './place.ts';

/** What keeps a line from doing what it is there for, as far as reading tells. */
export async function findFlaws(place: DoctorPlace, line: CrontabLine): Promise<readonly string[]> {
  const flaws = [...line.flaws, ...flawsOfTime(line)];
  // With a flaw the words may not be those that are meant.
  return flaws.length > 0 ? flaws : await flawsOfCall(place, line);
}

function flawsOfTime({ time }: CrontabLine): string[] {
  const reading = readCronGapMs(time);
  return 'value' in reading ? [] : [`cron knows no time "${time}": expected ${reading.expected}`];
}

async function flawsOfCall(
  { root, findWrongUse }: DoctorPlace,
  { call, args, isCertain }: CrontabLine,
): Promise<string[]> {
  if (call === null) return ['it names no tier'];
  const wrongUse = isCertain ? await findWrongUse(root, args) : null;
  return wrongUse === null ? [] : [`the command refuses it: ${wrongUse}`];
}
