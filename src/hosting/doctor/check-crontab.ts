import type { Tier } from '../../discovery/script.ts';
import { countOf, listOf } from './amounts.ts';
import type { CrontabLine } from './crontab-line.ts';
import { type Check, type Finding, note, ok, problem, warning } from './finding.ts';
import { INSTALL, judgeLine } from './judge-line.ts';
import { wasCalledLately } from './last-calls.ts';
import type { DoctorPlace } from './place.ts';

export const checkCrontab: Check = {
  name: 'crontab',
  run: async (place) => {
    const { failure, damage, lines, lost } = place.crontab();
    if (failure !== null) return [await describeUnreadable(place, failure)];
    return [
      ...describeDamage(damage),
      ...lost.map(describeLost),
      ...(await findUncalled(place, lines)),
      ...(await judgeLines(place, lines)),
      ...findTwins(lines),
    ];
  },
};

/** A panel may keep its crontab where this account cannot see it. */
async function describeUnreadable(place: DoctorPlace, failure: string): Promise<Finding> {
  // What it says beyond that is for somebody who wanted to change the crontab.
  const found = failure.replace(/(?:, so cron cannot|\. Your crontab).*/, '');
  if (await wasCalledLately(place)) return ok(`${found}; something calls the tiers all the same`);
  return note(
    found,
    "Paste the lines of `runner cron --print` into the cron page of your host's panel.",
  );
}

function describeDamage(damage: string | null): Finding[] {
  if (damage === null) return [];
  const found = damage.replace(/, so nothing was changed.*/, '');
  return [
    problem(found, 'Delete the rest of it with `crontab -e`, then run `runner cron --install`.'),
  ];
}

function describeLost({ number, namedRoot }: CrontabLine): Finding {
  return warning(
    `line ${number} calls the root ${namedRoot}, which has no jobs folder`,
    'Take it out with `crontab -e`; if the root was moved here, run `runner cron --install`.',
  );
}

/** Each tier with a period and scripts needs a line of its own, or one that calls `runner due`. */
async function findUncalled(place: DoctorPlace, lines: readonly CrontabLine[]): Promise<Finding[]> {
  const called = new Set(lines.map(({ call }) => call));
  if (called.has('due')) return [];
  const { tiers, handlers } = await place.discovery();
  const uncalled = tiers.filter((tier) => needsCall(tier) && !called.has(tier.name));
  if (uncalled.length > 0) return [await describeUncalled(place, uncalled)];
  if (lines.length > 0) return [];
  if (handlers.length > 0) return [describeUnserved(handlers.length)];
  return [ok('no line, as no tier with a period has scripts')];
}

/** Only a note: whoever works it off may be called by other means. */
function describeUnserved(handlers: number): Finding {
  return note(
    `no line works off the queue (${countOf(handlers, 'handler')})`,
    'Run `runner cron --install --work`, which writes one.',
  );
}

function needsCall({ periodMs, scripts }: Tier): boolean {
  return periodMs !== null && scripts.length > 0;
}

async function describeUncalled(place: DoctorPlace, tiers: readonly Tier[]): Promise<Finding> {
  const names = tiers.map(({ name, scripts }) => `${name} (${countOf(scripts.length, 'script')})`);
  const found = `no line calls ${listOf(names)}`;
  if (await wasCalledLately(place, tiers)) {
    return note(`${found}, but something calls them all the same`);
  }
  return problem(found, INSTALL);
}

/** One after another: hosts count processes. */
async function judgeLines(place: DoctorPlace, lines: readonly CrontabLine[]): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const line of lines) findings.push(...(await judgeLine(place, line)));
  return findings;
}

/** Of workers of the queue there may be several. */
function findTwins(all: readonly CrontabLine[]): Finding[] {
  const lines = all.filter(({ call }) => call !== 'work');
  return [...new Set(lines.map(({ call }) => call))].flatMap((call) => {
    const twins = lines.filter((line) => line.call === call).map(({ number }) => number);
    if (call === null || twins.length === 1) return [];
    const found = `${call} is called by the lines ${twins.join(', ')}`;
    return [warning(found, 'Take all but one out with `crontab -e`.')];
  });
}
