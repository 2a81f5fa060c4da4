import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Tier } from '../../discovery/script.ts';
import { readChosenTiers } from '../../hosting/crontab/block.ts';
import { readOldLine } from '../../hosting/crontab/own-line.ts';
import { AS_INSTALLED, planCrontab } from '../../hosting/crontab/plan.ts';
import { critical, type Found, note, ok, warning } from '../../monitor/finding.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import { UsageError } from '../../system/base/errors.ts';
import { countOf, formatSpan } from '../../system/base/format.ts';
import { shellWord } from '../../system/base/values.ts';
import { hostZone } from '../../system/base/zone.ts';
import { findUnshared } from '../../system/place/root.ts';
import { type WatchedTier, watchTier } from '../check.ts';
import type { CrontabCall, CrontabReading } from './crontab-calls.ts';
import { listProcesses } from './probes.ts';
import { type DoctorPlace, type HostCheck, listOf, unknownWithoutLog } from './site.ts';
import { tryCommand } from './try-command.ts';

const daemons = new Set(['cron', 'crond', 'fcron', 'anacron', 'supercronic', 'systemd-cron']);

/** Only notes: a host can call cron from outside what this account sees. */
export const checkCron: HostCheck = {
  code: 'cron',
  run: () => {
    const running = listProcesses().find(({ program }) => daemons.has(program));
    if (running !== undefined) return [ok(`${running.program} runs (pid ${running.pid})`)];
    if (!existsSync('/proc/1/stat')) return [ok('unknown: processes of others are not visible')];
    return [
      note(
        'no cron daemon runs among the processes that can be seen',
        'Ask the host whether cron runs; without it call the tiers by hand or by other means.',
      ),
    ];
  },
};

export const checkCrontab: HostCheck = {
  code: 'crontab',
  run: async (place) => {
    const reading = await place.crontab();
    if (reading.failure !== null) return [await describeUnreadable(place, reading.failure)];
    return [
      ...describeDamage(reading),
      ...reading.lost.map(describeLost),
      ...warnOfUnshared(place),
      ...(await findUncalled(place, reading)),
      ...compareBlock(place, reading),
      ...noteZone(reading.calls),
      ...(await judgeCalls(place, reading)),
      ...findTwins(reading.calls),
    ];
  },
};

/** A panel may keep its crontab where this account cannot see it. */
async function describeUnreadable(place: DoctorPlace, failure: string): Promise<Found> {
  if (await wasCalledLately(place)) return ok(`${failure}; something calls the tiers`);
  return note(failure, "Paste the lines of `npx folder-runner cron --print` into the cron page of your host's panel.");
}

function describeDamage({ damage }: CrontabReading): Found[] {
  if (damage === null) return [];
  return [critical(damage, 'Delete the rest of it with `crontab -e`, then run `npx folder-runner cron --install`.')];
}

function describeLost({ number, namedRoot }: CrontabCall): Found {
  return warning(
    `line ${number} calls the root ${namedRoot}, which has no jobs folder`,
    `Remove it with \`crontab -e\`, or \`npx folder-runner cron --remove --root ${shellWord(namedRoot ?? '')}\`; ` +
      'if the root was moved here, run `npx folder-runner cron --install`.',
  );
}

function warnOfUnshared({ root, env }: DoctorPlace): Found[] {
  const unshared = isOnServer(env) ? null : findUnshared(root);
  return unshared === null ? [] : [warning(unshared.fault, unshared.cure)];
}

/** Each tier with a period and scripts needs a line of its own, or one that calls `runner due`. */
async function findUncalled(place: DoctorPlace, { calls, crontab }: CrontabReading): Promise<Found[]> {
  const called = new Set(calls.map(({ name }) => name));
  if (called.has('due')) return [];
  const { handlers } = await place.discovery();
  const uncalled = (await tiersToCall(place)).filter(({ name }) => !called.has(name));
  if (uncalled.length > 0) return [await describeUncalled(place, uncalled, readChosenTiers(crontab, place.root))];
  if (calls.length > 0) return [];
  if (handlers.length > 0) return [describeUnserved(handlers.length)];
  return [ok('no line, as no tier with a period has scripts')];
}

async function tiersToCall({ discovery }: DoctorPlace): Promise<Tier[]> {
  const { tiers } = await discovery();
  return tiers.filter(({ periodMs, scripts }) => periodMs !== null && scripts.length > 0);
}

/** Only a note: whoever works it off may be called by other means. */
function describeUnserved(handlers: number): Found {
  return note(
    `no line processes the queue (${countOf(handlers, 'handler')})`,
    'Run `npx folder-runner cron --install --work`, which writes one.',
  );
}

async function describeUncalled(
  place: DoctorPlace,
  tiers: readonly Tier[],
  chosenTiers: string | undefined,
): Promise<Found> {
  const names = tiers.map(({ name, scripts }) => `${name} (${countOf(scripts.length, 'script')})`);
  const found = `no line calls ${listOf(names)}`;
  if (await wasCalledLately(place, tiers)) {
    return note(`${found} now, but they ran recently without a terminal`);
  }
  if (chosenTiers === undefined) return critical(found, INSTALL);
  return critical(
    `${found}, as --tiers ${chosenTiers} was chosen`,
    'Run `npx folder-runner cron --install --tiers all`, which writes a line for each tier.',
  );
}

const INSTALL = 'Run `npx folder-runner cron --install` to write them.';

/** Only a note: whether the lines work, each of them shows when it is tried. */
function compareBlock(place: DoctorPlace, reading: CrontabReading): Found[] {
  const planned = tryPlan(place, reading);
  const ofBlock = reading.calls.filter(({ text }) => reading.block.includes(text) && !planned.includes(text));
  if (planned.length === 0) return [];
  const [old, others] = [true, false].map((isOld) =>
    ofBlock.filter(({ text }) => (readOldLine(text) !== null) === isOld),
  );
  return [
    ...describeOthers(old, 'was written by an earlier version', 'were written by an earlier version'),
    ...describeOthers(others, 'is not what `npx folder-runner cron` would write now'),
  ];
}

/** A `TZ` above a line is for its command, and the runner takes its zone from no caller. */
function noteZone(calls: readonly CrontabCall[]): Found[] {
  const own = hostZone();
  const call = calls.find(({ commandZone }) => commandZone !== null && commandZone !== own);
  if (call === undefined) return [];
  return [
    note(
      `TZ=${call.commandZone} stands above line ${call.number} and changes no time: all times are in ${own}`,
      'Remove it; `timezone` in the settings chooses another zone.',
    ),
  ];
}

function describeOthers(calls: readonly CrontabCall[] = [], what: string, plural = what): Found[] {
  if (calls.length === 0) return [];
  const numbers = calls.map(({ number }) => number).join(', ');
  return [note(`line ${numbers} of the marked block ${calls.length === 1 ? what : plural}`, INSTALL)];
}

/** None where they cannot be written, such as for a tier that is gone: that is said of its line. */
function tryPlan({ root, env, commandPath }: DoctorPlace, { crontab, damage }: CrontabReading): readonly string[] {
  if (damage !== null) return [];
  try {
    return planCrontab(root, AS_INSTALLED, crontab, env, commandPath).content.lines;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return [];
  }
}

/** One after another: hosts count processes. */
async function judgeCalls(place: DoctorPlace, reading: CrontabReading): Promise<Found[]> {
  const findings: Found[] = [];
  for (const call of reading.calls) {
    // `runner cron --install` leaves lines outside its own block alone.
    const cure = reading.block.includes(call.text)
      ? INSTALL
      : `Correct line ${call.number} with \`crontab -e\`, or delete it and run \`npx folder-runner cron --install\`.`;
    findings.push(...(await judgeCall(place, call, cure)));
  }
  return findings;
}

async function judgeCall(place: DoctorPlace, call: CrontabCall, cure: string): Promise<Found[]> {
  const what = `line ${call.number}, ${call.name ?? 'without a tier'}`;
  const flaws = await findFlaws(place, call);
  if (flaws.length > 0) return flaws.map((flaw) => critical(`${what}: ${flaw}`, cure));
  if (call.command === null) {
    return [note(`${what}: not tried, because it contains shell commands`, 'Write full paths into it.')];
  }
  const trial = await tryCommand(call.command);
  if (trial.works === null) return [note(`${what}: not tried, because ${trial.reason}`)];
  if (!trial.works) {
    return [critical(`${what}: does not work in cron’s bare environment: ${trial.reason}`, cure)];
  }
  const works = `${what}: works in cron’s bare environment`;
  const path = call.command.trial?.find((word) => word.endsWith('/bin.cjs'));
  const isOwn = path !== undefined && resolve(path) === place.commandPath;
  if (trial.version === place.version || isOwn) return [ok(works)];
  const found = `${works}, with version ${trial.version}${path === undefined ? '' : ` at ${path}`}; this is ${place.version}`;
  return [note(found, cure)];
}

/** Faults that keep a line from doing its job, as far as reading the line shows. */
async function findFlaws(
  { root, findWrongUse }: DoctorPlace,
  { flaws, name, command }: CrontabCall,
): Promise<readonly string[]> {
  // With a flaw the words may not be those that are meant.
  if (flaws.length > 0) return flaws;
  if (command === null) return [];
  if (name === null) return ['it has no tier'];
  const wrongUse = await findWrongUse(root, command.args);
  return wrongUse === null ? [] : [`the command refuses it: ${wrongUse}`];
}

/** A tier must be called by one line only; several lines may start queue workers. */
function findTwins(calls: readonly CrontabCall[]): Found[] {
  return [...new Set(calls.map(({ name }) => name))].flatMap((name) => {
    const twins = calls.filter((call) => call.name === name).map(({ number }) => number);
    if (name === null || name === 'work' || twins.length === 1) return [];
    const found = `${name} is called by the lines ${twins.join(', ')}`;
    return [warning(found, 'Remove all but one with `crontab -e`.')];
  });
}

export const checkCalls: HostCheck = {
  code: 'calls',
  run: async (place) => {
    const calls = await findLastCalls(place);
    if (calls.length === 0) return [ok('no tier with a period has scripts')];
    if (await place.isLogUnread()) return [unknownWithoutLog];
    const never = calls.filter(({ expected }) => expected === null).map(({ tier }) => tier);
    const { block, calls: lines } = await place.crontab();
    const own = lines.filter(({ text }) => !block.includes(text)).map(({ name }) => name);
    return [
      ...calls.flatMap((call) => describeLastCall(call, place.nowMs, own)),
      ...(never.length === 0 ? [] : [describeNever(never)]),
    ];
  },
};

async function findLastCalls(place: DoctorPlace, of?: readonly Tier[]): Promise<WatchedTier[]> {
  const calls = (await place.log()).facts?.calls ?? [];
  const tiers = of ?? (await tiersToCall(place));
  // The lines themselves are tried beside this: here the last call alone counts.
  const facts = { crontab: async () => null, nowMs: place.nowMs };
  return await Promise.all(
    tiers.map(({ name }) => watchTier(name, calls.find(({ tier }) => tier === name) ?? null, facts)),
  );
}

/** Whether something calls these tiers, in whatever way. */
async function wasCalledLately(place: DoctorPlace, tiers?: readonly Tier[]): Promise<boolean> {
  const calls = await findLastCalls(place, tiers);
  return calls.length > 0 && calls.every((each) => each.expected !== null && !isMissed(each, place.nowMs));
}

/** A line whose times were edited may call its tier less often than the tier's name says, and is right so. */
const TOLERATED_PERIODS = 2;

function isMissed({ periodMs, calls, expected }: WatchedTier, nowMs: number): boolean {
  const agoMs = nowMs - (calls?.calledAt ?? nowMs);
  return expected?.isOverdue === true && agoMs > TOLERATED_PERIODS * (periodMs ?? 0);
}

/** @param own what lines call that somebody wrote by hand, at times that may be meant */
function describeLastCall(watched: WatchedTier, nowMs: number, own: readonly (string | null)[]): Found[] {
  const { tier, periodMs, calls, expected } = watched;
  if (expected === null) return [];
  const ago = formatSpan(Math.max(0, nowMs - (calls?.calledAt ?? nowMs)));
  if (!isMissed(watched, nowMs)) return [ok(`${tier} was called ${ago} ago`)];
  const found = `${tier} was last called ${ago} ago, and should be every ${formatSpan(periodMs ?? 0)}`;
  if (own.includes(tier) || own.includes('due')) {
    return [note(found, 'If its crontab line has other times than you want, correct them.')];
  }
  return [critical(found, 'If its crontab line works, ask the host whether cron runs for you, or was switched off.')];
}

function describeNever(tiers: readonly string[]): Found {
  return note(`cron has not called yet: ${listOf(tiers)}`, 'Look again when the time of its crontab line has come.');
}
