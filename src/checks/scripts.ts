import { lookIntoJobs } from '../discovery/discover.ts';
import { hasOwnTimes, hasWindow, mayBeLeftOut, type Script } from '../discovery/script.ts';
import type { Stand, Wait } from '../queue/links.ts';
import { findPause } from '../queue/pauses.ts';
import { tierPeriodMs } from '../schedule/period.ts';
import type { IncidentRow } from '../store/schema.ts';
import type { RunningRow, ScriptStandRow } from '../store/statements/monitor/checks.ts';
import { findUsual, RECENT_RUNS } from '../store/statements/monitor/compare-runs.ts';
import { incidentsOf } from '../store/statements/monitor/incidents.ts';
import { usualOf } from '../store/statements/monitor/usual.ts';
import { FAILING, SUSPECT } from '../store/words.ts';
import { countOf, formatSpan } from '../system/base/format.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, printableName, shellWord } from '../system/base/values.ts';
import type { CheckFacts, HealthCheck, WatchedTier, Wrong } from './check.ts';

/** Its incidents tell: they are over once a run succeeds, somebody closes them, or the script is gone. */
const scriptFailing: HealthCheck = {
  code: FAILING,
  where: 'scripts',
  defaultThreshold: () => 1,
  run: async (facts, threshold) => {
    const open = await readOpen(FAILING, facts);
    const wrong: Wrong[] = [];
    for (const [script, incidents] of Map.groupBy(open, ({ subject }) => subject)) {
      const count = incidents.reduce((sum, { occurrences }) => sum + occurrences, 0);
      if (count >= threshold) wrong.push(await tellFailures(script, incidents, count, facts));
    }
    const scripts = await facts.scripts();
    return { wrong, ok: `${countOf(scripts.length, 'script succeeded', 'scripts succeeded')} or will be tried again` };
  },
};

async function readOpen(code: string, facts: CheckFacts): Promise<readonly IncidentRow[]> {
  return (await facts.incidents()).filter((incident) => incident.code === code);
}

async function tellFailures(
  script: string,
  incidents: readonly IncidentRow[],
  count: number,
  { store, nowMs }: CheckFacts,
): Promise<Wrong> {
  const last = incidents.reduce((one, other) => (other.last_at >= one.last_at ? other : one));
  const since = Math.min(...incidents.map(({ opened_at }) => opened_at));
  const how = last.message === null ? '' : `: ${printableName(last.message)}`;
  const times = count === 1 ? '' : `${countOf(count, 'time', 'times')} in a row, since `;
  const name = printableName(script);
  return {
    subject: script,
    // No schedule depends on a tier that only somebody calls.
    status: tierPeriodMs(script.split('/')[0] as string) === null ? 'warning' : 'critical',
    message: `${name} failed ${times}${formatSpan(nowMs - since)} ago${how}`,
    hint: `Run \`${await commandToLook(last, store)}\`.`,
  };
}

/** Shows the last run of an incident; if the log has it no more, the runs of its script. */
async function commandToLook(incident: IncidentRow, { statements }: CheckFacts['store']): Promise<string> {
  const run = await incidentsOf(statements).lastRun(incident);
  return run === null
    ? `npx folder-runner report ${shellWord(printableName(incident.subject))}`
    : `npx folder-runner show ${run.id}`;
}

/** Its settling notes what a run that succeeded has printed of a failure, and when that is over. */
const scriptSuspect: HealthCheck = {
  code: SUSPECT,
  where: 'scripts',
  defaultThreshold: () => 1,
  run: async (facts, threshold) => {
    const wrong = (await readOpen(SUSPECT, facts)).filter(({ occurrences }) => occurrences >= threshold);
    const told = await Promise.all(wrong.map((incident) => tellWarning(incident, facts)));
    return { wrong: told, ok: 'no script succeeded with a warning' };
  },
};

async function tellWarning(incident: IncidentRow, { store, nowMs }: CheckFacts): Promise<Wrong> {
  const { subject, occurrences, opened_at, message } = incident;
  const name = printableName(subject);
  const times = occurrences === 1 ? '' : `${countOf(occurrences, 'time')}, since `;
  const how = message === null ? '' : `: ${printableName(message)}`;
  return {
    subject,
    status: 'warning',
    message: `${name} succeeded with a warning ${times}${formatSpan(nowMs - opened_at)} ago${how}`,
    hint: `Run \`${await commandToLook(incident, store)}\`; if nothing has failed, \`@fail-on false\` in the script ends it.`,
  };
}

const scriptOverdue: HealthCheck = {
  code: 'script-overdue',
  where: 'scripts',
  defaultThreshold: () => 3,
  run: async (facts, threshold) => {
    const scripts = await facts.scripts();
    const tiers = new Map((await facts.tiers()).map((each) => [each.tier, each]));
    const leftOut = scripts.filter((script) => isLeftOut(script, tiers.get(script.tier), threshold, facts.nowMs));
    // A script may have a row for each machine; a machine may miss it as long as it runs on another one.
    const runs = new Set(scripts.filter((script) => !leftOut.includes(script)).map(({ name }) => name));
    const suspects = [...new Map(leftOut.map((script) => [script.name, script])).values()].filter(
      ({ name }) => !runs.has(name),
    );
    const late = suspects.length === 0 ? [] : await withoutWaiting(suspects, tiers, threshold, facts);
    const wrong = late.length === 0 ? [] : await judgeLeftOut(late, facts);
    wrong.push(...(await judgeLinked(scripts.filter(isLinked), threshold, facts)));
    return { wrong, ok: `${countOf(scripts.length, 'script has', 'scripts have')} run with their tiers` };
  },
};

/** Its tier is called as it should be, and is not held, but no try of the script begins. */
function isLeftOut(script: ScriptStandRow, tier: WatchedTier | undefined, threshold: number, nowMs: number): boolean {
  if (!tier?.periodMs || tier.expected === null || tier.expected.isOverdue || tier.calls?.held !== 0) return false;
  if (script.state === 'running' || script.state === 'claimed' || isLinked(script)) return false;
  const lastAt = script.startedAt ?? script.createdAt;
  const calledAt = tier.calls.calledAt ?? 0;
  return nowMs - lastAt > threshold * tier.periodMs + HOUR_MS && calledAt - lastAt > (threshold - 1) * tier.periodMs;
}

/**
 * One that has times of its own, or dates on which it is left out, or that only other machines have, so that nobody here knows, is not run by each pass:
 * it is left out once it was queued and nobody runs it.
 */
async function withoutWaiting(
  suspects: readonly ScriptStandRow[],
  tiers: ReadonlyMap<string, WatchedTier>,
  threshold: number,
  { root, nowMs }: CheckFacts,
): Promise<readonly ScriptStandRow[]> {
  const { discovery } = await lookIntoJobs(root);
  const scripts = discovery.tiers.flatMap((tier) => tier.scripts);
  const isOfEach = (script: Script): boolean => !hasOwnTimes(script) && !mayBeLeftOut(script);
  const names = new Set(scripts.filter(isOfEach).map(({ name }) => name));
  const windowed = new Set(scripts.filter(hasWindow).map(({ name }) => name));
  const isLong = ({ tier, name }: ScriptStandRow, sinceMs: number): boolean =>
    nowMs - sinceMs > threshold * (tiers.get(tier)?.periodMs ?? 0) + HOUR_MS + (windowed.has(name) ? DAY_MS : 0);
  const isStuck = (script: ScriptStandRow): boolean =>
    (script.state === 'queued' || script.state === 'retrying') && isLong(script, script.runAt);
  return suspects.filter(
    (script) => (names.has(script.name) && isLong(script, script.startedAt ?? script.createdAt)) || isStuck(script),
  );
}

const isLinked = ({ state, linksMet }: ScriptStandRow): boolean => state === 'queued' && linksMet === 0;

/**
 * Scripts that have waited for others for longer than these, and they themselves, take to be run again; and those whose
 * time of day comes each day without a pass.
 */
async function judgeLinked(linked: readonly ScriptStandRow[], threshold: number, facts: CheckFacts): Promise<Wrong[]> {
  const { nowMs, root, store } = facts;
  const longestMs = (names: readonly string[]): number =>
    Math.max(...names.map((name) => tierPeriodMs(name.split('/')[0] as string) ?? 0));
  const isLong = ({ runAt }: ScriptStandRow, names: readonly string[]): boolean =>
    nowMs - runAt > threshold * longestMs(names) + HOUR_MS;
  const suspects = linked.filter((script) => isLong(script, [script.name]) || nowMs - script.runAt > MISSED_MS);
  if (suspects.length === 0) return [];
  const { describeWaits, readStand, withoutFailures } = await import('../queue/links.ts');
  const { discovery } = await lookIntoJobs(root);
  const scripts = new Map(discovery.tiers.flatMap((tier) => tier.scripts.map((script) => [script.name, script])));
  const pauses = await facts.pauses();
  // As long as the other one only waits for its own time, or for others, its own checks suffice.
  const isInOrder = ({ script, cause, isLinked: isItself, isDisabled }: Wait): boolean => {
    if (isDisabled || findPause(pauses, script) !== null) return false;
    const other = scripts.get(script);
    return isItself || cause === 'used' || (cause === 'never' && other !== undefined && hasOwnTimes(other));
  };
  const wrong: Wrong[] = [];
  for (const suspect of suspects.filter(({ name }) => findPause(pauses, name) === null)) {
    const script = scripts.get(suspect.name);
    const stand = script && (await readStand(store, script, nowMs));
    if (script && stand && isMissed(suspect, stand, facts)) wrong.push(tellMissed(suspect, script, facts));
    const waits = withoutFailures(stand?.gate.waits ?? []).filter((wait) => !isInOrder(wait));
    if (waits.length === 0 || !isLong(suspect, [suspect.name, ...waits.map((each) => each.script)])) continue;
    const name = printableName(suspect.name);
    const why = describeWaits(waits, pauses, (atMs) => `${formatSpan(nowMs - atMs)} ago`);
    wrong.push({
      subject: suspect.name,
      status: 'warning',
      message: `${name} has waited for ${formatSpan(nowMs - suspect.runAt)}: it ${why}`,
      hint: `Run \`npx folder-runner why ${shellWord(name)}\`; \`npx folder-runner run ${shellWord(name)}\` does not wait.`,
    });
  }
  return wrong;
}

/** Each window opens within a day; a pass may come an hour late. */
const MISSED_MS = DAY_MS + HOUR_MS;

/** Whether nothing but its window has kept a script for more than a day, in which the window was open. */
function isMissed({ runAt }: ScriptStandRow, { gate, queuedAt }: Stand, { nowMs }: CheckFacts): boolean {
  if (queuedAt === null || gate.waits.length > 0 || gate.hold?.cause !== 'window') return false;
  return nowMs - Math.max(runAt, ...Object.values(gate.ends)) > MISSED_MS;
}

function tellMissed({ name, runAt }: ScriptStandRow, { options }: Script, { nowMs }: CheckFacts): Wrong {
  return {
    subject: name,
    status: 'warning',
    message: `${printableName(name)} has waited for ${formatSpan(nowMs - runAt)}: no pass came between ${options.between}`,
    hint: 'Make its @between longer than the time between two calls of a tier: `npx folder-runner cron` shows the calls.',
  };
}

/** A script that is gone, or paused, does not run because somebody wants it so. */
async function judgeLeftOut(suspects: readonly ScriptStandRow[], facts: CheckFacts): Promise<Wrong[]> {
  const pauses = await facts.pauses();
  const running = suspects.filter(({ name }) => findPause(pauses, name) === null);
  const left = await withoutGone(running, facts);
  return left.map(({ name, tier, startedAt, createdAt, reason }) => {
    const why = reason === null ? '' : `: ${printableName(reason)}`;
    return {
      subject: name,
      status: 'warning',
      message:
        `${printableName(name)} has not run for ${formatSpan(facts.nowMs - (startedAt ?? createdAt))}, ` +
        `although ${tier} is called${why}`,
      hint: `Run \`npx folder-runner why ${shellWord(printableName(name))}\`.`,
    };
  });
}

/** Those whose script still runs, here or on another machine. */
async function withoutGone(
  suspects: readonly ScriptStandRow[],
  { presence }: CheckFacts,
): Promise<readonly ScriptStandRow[]> {
  if (suspects.length === 0) return [];
  const { whyScriptIsGone } = await presence();
  const reasons = await Promise.all(suspects.map(({ name }) => whyScriptIsGone(name)));
  return suspects.filter((_, index) => reasons[index] === null);
}

/** A run of a moment is nothing to report, however short it usually is. */
const SHORTEST_MS = MINUTE_MS;

/** A running script that is far over its usual time: of a finished one, its comparison tells. */
const runUnusual: HealthCheck = {
  code: 'run-unusual',
  where: 'scripts',
  defaultThreshold: () => 3,
  run: async (facts, threshold) => {
    const running = await facts.running();
    const long = running.filter(({ startedAt }) => facts.nowMs - startedAt >= SHORTEST_MS);
    const wrong = long.length === 0 ? [] : await judgeDurations(long, facts, threshold);
    return { wrong, ok: `${countOf(running.length, 'run')} in progress, none far over its usual time` };
  },
};

/** A run that goes on, far over its usual time. */
interface SlowRun {
  /** `hourly/clean-tmp`, `queue/mail/welcome`. */
  readonly script: string;
  readonly runningMs: number;
  /** The median of its last successful runs. */
  readonly usualMs: number;
}

/** Those of these runs that have lasted far longer than earlier runs of their script. */
export async function findSlowRuns(
  { statements }: Pick<CheckFacts['store'], 'statements'>,
  running: readonly Pick<RunningRow, 'script' | 'startedAt'>[],
  nowMs: number,
): Promise<SlowRun[]> {
  const slow: SlowRun[] = [];
  for (const { script, startedAt } of running) {
    const runningMs = nowMs - startedAt;
    const before = await usualOf(statements).successes(script, startedAt, RECENT_RUNS);
    const durations = before.flatMap(({ durationMs }) => durationMs ?? []);
    const usualMs = findUsual('duration', runningMs, durations);
    // Some earlier runs took longer than that, which is usual, too.
    if (usualMs === null || durations.some((durationMs) => durationMs > runningMs)) continue;
    slow.push({ script, runningMs, usualMs });
  }
  return slow;
}

async function judgeDurations(long: readonly RunningRow[], facts: CheckFacts, threshold: number): Promise<Wrong[]> {
  const slow = await findSlowRuns(facts.store, long, facts.nowMs);
  const found = slow.filter(({ runningMs, usualMs }) => runningMs >= threshold * usualMs);
  return found.map(({ script, runningMs, usualMs }) => {
    const name = printableName(script);
    const ratio = runningMs / usualMs;
    const times = `${ratio < 10 ? Math.floor(ratio * 10) / 10 : Math.floor(ratio)}×`;
    const usual = usualMs < 1000 ? 'and usually takes less than a second' : `${times} its usual ${formatSpan(usualMs)}`;
    return {
      subject: script,
      status: 'warning',
      message: `${name} has been running for ${formatSpan(runningMs)}, ${usual}`,
      hint: `See \`npx folder-runner tail ${shellWord(name)}\` for its output; a \`@timeout\` ends a script that hangs.`,
    };
  });
}

export const scriptChecks: readonly HealthCheck[] = [scriptFailing, scriptSuspect, scriptOverdue, runUnusual];
