import prettyMilliseconds from 'pretty-ms';
import { runVariableNames } from '../../child/contract.ts';
import { hasOwnTimes, mayBeLeftOut, mayHaveToWait, type Script } from '../../discovery/script.ts';
import { runFilesOf } from '../../execution/run-files.ts';
import { findSecrets, isSecretName, maskSecrets } from '../../execution/secrets.ts';
import { buildEnvironment, commandOf } from '../../execution/start/process.ts';
import type { Gate } from '../../queue/links.ts';
import { findPause } from '../../queue/pauses.ts';
import { countCrashedPasses, decideDue, readLastPass, readSeen } from '../../schedule/due.ts';
import { defaultTimeoutMs, nextPeriodStart, slotOf } from '../../schedule/period.ts';
import { nextTimeAfter } from '../../schedule/repeat/calendar.ts';
import { leftOutUntil, ruleOf } from '../../schedule/script-times.ts';
import { givenTo, type Runner } from '../../settings/settings.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import type { ScriptJobRow } from '../../store/statements/script-jobs.ts';
import type { Store } from '../../store/store.ts';
import { clockOffsetMs } from '../../system/base/clock.ts';
import { findLockHolder } from '../../system/lock/lock-file.ts';
import { machineName } from '../../system/process/identity.ts';
import type { TierRequest } from '../invocation/invocation.ts';
import { waitForRoom } from '../loop/limits.ts';
import { askUsualDuration } from '../loop/script-executor.ts';
import { describeHeld } from '../recovery/tier-lock.ts';
import { isHeld, mayRun, scriptOfJob } from './collect-jobs.ts';
import { readSlots } from './slots.ts';

/** The effect of a pass on a script. */
export type Fate = 'runs' | 'refused' | 'deferred' | 'waits' | 'paused' | 'running' | 'gone';

/** Why something would not run now. */
export interface WhyNot {
  readonly reason: string;
  /** A message puts "until" before this time; null: it does not wait for a known time. */
  readonly untilMs: number | null;
}

export interface PlannedRun {
  readonly script: string;
  readonly fate: Fate;
  /** Null: it would run. */
  readonly why: WhyNot | null;
  readonly attempt: number;
  readonly timeoutMs: number;
  /** The median duration of its last successful runs in milliseconds; null: unknown. */
  readonly usualDurationMs: number | null;
  readonly command: readonly string[];
  /** Secret values are replaced by their names; null: the value is known only in a run. */
  readonly environment: Readonly<Record<string, string | null>>;
}

/** The plan of a pass that would begin now. */
export interface PassPlan {
  readonly tier: string;
  /** Why the whole pass would be skipped; null: it would not. */
  readonly skipped: WhyNot | null;
  /** In the order of the pass. */
  readonly runs: readonly PlannedRun[];
}

export interface Planning {
  readonly runner: Runner;
  /** Null: no log. */
  readonly store: Store | null;
  readonly args: readonly string[];
  /** Null: no limit. */
  readonly budgetMs: number | null;
}

/** Plans a pass. It changes nothing and takes no lock. */
export async function planPass(planning: Planning, request: TierRequest): Promise<PassPlan> {
  const { runner, store } = planning;
  const at = runner.now();
  const pauses = (await store?.pauses.inForce(at)) ?? [];
  const open = (await store?.scriptJobs.open(request.tier.name)) ?? [];
  const here = open.filter(({ host }) => host === null || host === machineName());
  const waits = await findWaiting(planning, request, pauses, at);
  const fates = [...judgeOpen(request, here, pauses, at), ...judgeOthers(request, here, pauses, waits)];
  const linked = request.kind === 'script' ? fates : await foreseeLinks(planning, fates, here, pauses);
  const runs: PlannedRun[] = [];
  for (const fate of linked) runs.push(await describeRun(planning, request, fate));
  const skipped = await findWhySkipped(planning, request, pauses, at);
  return { tier: request.tier.name, skipped, runs: await deferWhatLacksRoom(planning, runs) };
}

interface Judged {
  readonly name: string;
  readonly script: Script | undefined;
  readonly fate: Fate;
  readonly why: WhyNot | null;
  readonly attempt: number;
}

/** Jobs that an earlier pass left open come first. */
function judgeOpen(
  request: TierRequest,
  open: readonly ScriptJobRow[],
  pauses: readonly Pause[],
  at: number,
): readonly Judged[] {
  const isWanted = ({ name }: ScriptJobRow) =>
    request.kind !== 'script' || request.scripts.some((script) => script.name === name);
  return open.filter(isWanted).map((job): Judged => {
    const { name } = job;
    const script = scriptOfJob(request, job);
    const known = { name, script, attempt: job.attempts + 1 };
    if (isHeld(job)) return { ...known, fate: 'running', why: because('another worker has it') };
    if (script === undefined) return { ...known, fate: 'gone', why: because('its script no longer exists') };
    if (mayRun({ request, at, pauses, orphans: [] }, job)) return { ...known, ...judgeScript(script) };
    const pause = findPause(pauses, name);
    return pause === null
      ? { ...known, fate: 'waits', why: { reason: `waits for try ${known.attempt}`, untilMs: job.run_at } }
      : { ...known, fate: 'paused', why: whyPaused(pause) };
  });
}

/**
 * Scripts that wait for others run behind those of the same pass, or not at all: without failures, as foreseen here.
 * Those whose time of day has not come do not run.
 */
async function foreseeLinks(
  { store, runner }: Planning,
  fates: readonly Judged[],
  open: readonly ScriptJobRow[],
  pauses: readonly Pause[],
): Promise<readonly Judged[]> {
  if (!fates.some(({ script }) => script !== undefined && mayHaveToWait(script))) return fates;
  const { describeGate, findTimeHold, foreseeOrder, mayWait, readStand } = await import('../../queue/links.ts');
  const gates = new Map<string, Pick<Gate, 'waits' | 'hold'>>();
  const nowMs = runner.now() - clockOffsetMs();
  for (const { name, script, fate } of fates) {
    if (fate !== 'runs' || script === undefined) continue;
    const job = open.find((each) => each.name === name);
    if (store === null) gates.set(name, { waits: [], hold: await findTimeHold(script, nowMs) });
    const stand = store && (await readStand(store, script, nowMs));
    // The others do not keep one any more that they have let run.
    const isFree = job !== undefined && !mayWait(job, script) && stand?.queuedAt === null;
    if (stand !== null && !isFree) gates.set(name, stand.gate);
  }
  const running = fates.filter(({ fate }) => fate === 'runs');
  const order = foreseeOrder(
    running.flatMap(({ script }) => script ?? []),
    gates,
  );
  const isIn = ({ name, fate }: Judged): boolean => fate !== 'runs' || order.includes(name);
  const left = fates.map((each): Judged => {
    const gate = gates.get(each.name);
    if (isIn(each) || gate === undefined) return each;
    return { ...each, fate: 'waits', why: because(describeGate(gate, each.script?.options ?? {}, pauses)) };
  });
  const placeOf = ({ name }: Judged): number => (order.includes(name) ? order.indexOf(name) : order.length);
  return left.toSorted((one, other) => placeOf(one) - placeOf(other));
}

/** Why scripts that have their own times, or are left out on this date, do not run now, by name. */
async function findWaiting(
  { runner, store }: Planning,
  { kind, tier, scripts }: TierRequest,
  pauses: readonly Pause[],
  at: number,
): Promise<ReadonlyMap<string, WhyNot>> {
  const waits = new Map<string, WhyNot>();
  if (kind !== 'tier' || !scripts.some((script) => hasOwnTimes(script) || mayBeLeftOut(script))) return waits;
  for (const { name, options } of scripts.filter(mayBeLeftOut)) {
    const untilMs = await leftOutUntil(options, at - clockOffsetMs());
    if (untilMs !== null) waits.set(name, { reason: 'left out by its @except', untilMs });
  }
  if (store === null || !scripts.some(hasOwnTimes)) return waits;
  const slots = await readSlots({ store, runner }, { tier, scripts, pauses, at });
  for (const { name, options } of scripts) {
    const slot = slots.get(name);
    if (slot === undefined || waits.has(name)) continue;
    if (slot !== null && slot.missed !== null) waits.set(name, because(slot.missed));
    if (slot !== null) continue;
    const rule = ruleOf(options);
    const next = rule === null ? null : await nextTimeAfter(rule, at);
    waits.set(name, rule === null ? because('waits for the next boot') : { reason: 'waits', untilMs: next });
  }
  return waits;
}

function judgeOthers(
  request: TierRequest,
  open: readonly ScriptJobRow[],
  pauses: readonly Pause[],
  waits: ReadonlyMap<string, WhyNot>,
): readonly Judged[] {
  const taken = new Set(open.map(({ name }) => name));
  return request.scripts.flatMap((script): readonly Judged[] => {
    const { name } = script;
    if (taken.has(name)) return [];
    // Two files of one name are both refused, and reported once.
    taken.add(name);
    const pause = request.kind === 'script' ? null : findPause(pauses, name);
    const why = waits.get(name);
    const isRefused = script.refusals.length > 0;
    const judged = pause === null ? judgeScript(script) : ({ fate: 'paused', why: whyPaused(pause) } as const);
    const waiting = why !== undefined && !isRefused ? ({ fate: 'waits', why } as const) : {};
    return [{ name, script, attempt: 1, ...judged, ...waiting }];
  });
}

function judgeScript({ refusals }: Script): Pick<Judged, 'fate' | 'why'> {
  if (refusals.length === 0) return { fate: 'runs', why: null };
  return { fate: 'refused', why: because(`refused: ${refusals.join(' ')}`) };
}

function because(reason: string): WhyNot {
  return { reason, untilMs: null };
}

function whyPaused({ until }: Pause): WhyNot {
  return until === null ? because('paused until it is resumed') : { reason: 'paused', untilMs: until };
}

/** Why no script of the tier would run at all; null: they would. */
async function findWhySkipped(
  { runner, store }: Planning,
  request: TierRequest,
  pauses: readonly Pause[],
  at: number,
): Promise<WhyNot | null> {
  const { name } = request.tier;
  const pause = request.kind === 'script' ? null : findPause(pauses, name);
  if (pause !== null) return whyPaused(pause);
  const notDue = request.isDue && store !== null ? await findWhyNotDue(runner, store, name, at) : null;
  if (notDue !== null) return notDue;
  const holder = findLockHolder(runner.state.locks, name);
  return holder === null ? null : because(describeHeld(name, holder, 'is'));
}

async function findWhyNotDue(runner: Runner, store: Store, tier: string, at: number): Promise<WhyNot | null> {
  const aheadMs = clockOffsetMs();
  const start = slotOf(tier, at - aheadMs, aheadMs);
  if (start === null) return because('it has no period, so it is never due');
  const last = await readLastPass(store, tier);
  const seenAt = last === null ? await readSeen(store, tier, at) : at;
  const crashes = await countCrashedPasses(store, tier, start);
  const catchUp = runner.settings.tiers[tier]?.catchUp ?? 'once';
  const decision = decideDue({ start, at, last, seenAt, crashes, catchUp });
  if (decision === 'due') return null;
  if (decision === 'missed') return because("it was missed by more than an hour, and its tier's catchUp is 'skip'");
  return { reason: 'not due', untilMs: nextPeriodStart(tier, at) };
}

async function describeRun(planning: Planning, request: TierRequest, judged: Judged): Promise<PlannedRun> {
  const { store } = planning;
  const { name, script, fate, why, attempt } = judged;
  return {
    ...{ script: name, fate, why, attempt },
    timeoutMs: script?.options.timeoutMs ?? defaultTimeoutMs(request.tier.name),
    usualDurationMs: store && (await askUsualDuration(store, name)),
    command:
      script === undefined ? [] : commandOf({ script, args: planning.args, probePath: planning.runner.probePath }),
    environment: script === undefined ? {} : describeEnvironment(planning, script, attempt),
  };
}

/** Variables whose values only a run has. */
const ofRun = [
  'RUNNER_RUN',
  'RUNNER_COUNTS',
  'RUNNER_TMPDIR',
  ...runVariableNames.filter((name) => /_(?:FOR|MS|SUCCESS|CRASHED)$/.test(name)),
];

function describeEnvironment({ runner }: Planning, script: Script, attempt: number): PlannedRun['environment'] {
  const { root, state, settings, environment: own } = runner;
  const times = { scheduledFor: runner.now(), latenessMs: 0, lastSuccess: null };
  const request = {
    ...{ ...times, key: '', attempt, previouslyCrashed: false },
    ...{ root, script, environment: own, variables: settings.env, given: givenTo(settings.given, script.tier) },
  };
  const variables = buildEnvironment(request, runFilesOf(state, ''));
  const masker = maskSecrets(findSecrets(settings, own));
  const show = (name: string, value: string): string | null => {
    if (ofRun.includes(name)) return null;
    return isSecretName(name, settings) ? `[${name}]` : masker.text(value);
  };
  return Object.fromEntries(
    Object.entries(variables).flatMap(([name, value]) => (value === undefined ? [] : [[name, show(name, value)]])),
  );
}

/** Defers runs by the present limits of the machine, and by the budget if each script takes its usual time. */
async function deferWhatLacksRoom(
  { runner, budgetMs }: Planning,
  runs: readonly PlannedRun[],
): Promise<readonly PlannedRun[]> {
  const lack = await waitForRoom(runner.settings.limits, new AbortController().signal, { leftMs: 0 });
  if (lack !== null) return runs.map((run) => (run.fate === 'runs' ? defer(run, lack) : run));
  return budgetMs === null ? runs : deferBeyond(budgetMs, runs);
}

/** The first script always starts; after one that has too little time, none does. */
function deferBeyond(budgetMs: number, runs: readonly PlannedRun[]): readonly PlannedRun[] {
  let leftMs = budgetMs;
  let isBegun = false;
  let reason: string | null = null;
  return runs.map((run) => {
    if (run.fate !== 'runs') return run;
    const usualMs = run.usualDurationMs ?? 0;
    if (isBegun && usualMs > leftMs) {
      const left = prettyMilliseconds(Math.max(0, Math.round(leftMs)));
      reason ??= `${run.script} usually takes ${prettyMilliseconds(Math.round(usualMs))}, and only about ${left} of the budget would be left`;
    }
    isBegun = true;
    leftMs -= usualMs;
    return reason === null ? run : defer(run, reason);
  });
}

function defer(run: PlannedRun, reason: string): PlannedRun {
  return { ...run, fate: 'deferred', why: because(`deferred: ${reason}`) };
}
