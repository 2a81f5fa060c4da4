import { isOfEachPass, type Tier } from '../../../discovery/script.ts';
import type { Site } from '../../../discovery/site.ts';
import { findPause, WHOLE_QUEUE } from '../../../queue/pauses.ts';
import type { Pause } from '../../../store/statements/pauses.ts';
import { record, shown, type Values } from '../../../system/base/record.ts';
import { HOUR_MS, MINUTE_MS } from '../../../system/base/values.ts';
import { lateCodes, nextReasons } from '../../../system/base/wait-words.ts';
import { linkRecord } from '../chain.ts';
import { selectWaiting, type TierHolder, type TierState } from '../tier.ts';
import { readHealth } from '../verdict.ts';
import { listInOrder } from './in-order.ts';
import { readNextTimes } from './next-times.ts';
import { type ComingJobs, readComingJobs } from './upcoming-jobs.ts';

const kindField = shown.words(['tier', 'script', 'job'], 'NextKind');

/** Something that will run, perhaps several times within a step. */
export const itemRecord = record('NextItem', {
  at: shown.instant.about('When it begins; a time in the past has come'),
  kind: kindField,
  name: shown.text.like('mail/welcome').about('The tier, the script, or the name of the jobs without parameters'),
  /**
   * `call`: the tier is called. `queued`: a pass at work comes to it. `due`: the time of a job has come. `after`: by the
   * usual durations of the scripts that it waits for, those have ended by then. `window`: its `@between` begins.
   */
  reason: shown.words(nextReasons, 'NextReason'),
  count: shown.integer.about('How many jobs, or how many times'),
  job: shown.integer.orNull.about('The number of the job; null: it is none, or there are several'),
  rule: shown.text.like('daily at 10:00').orNull.about('The schedule, or the rule by which it repeats; null: none'),
  due: shown.instant.orNull.about('The time of the schedule, or of the next try, for which a pass runs it; null: none'),
  isPaused: shown.flag.about('A pause that is still in force then keeps it from running'),
  links: shown.list(shown.one(linkRecord)).about('The scripts that it waits for'),
  usualMs: shown.number.orNull.about('How long all of it usually takes; null: unknown'),
  end: shown.instant.orNull.about('When it is expected to end; null: unknown'),
});

/** Something that comes, before it is known how long it takes. */
export interface Coming extends Omit<Values<typeof itemRecord>, 'usualMs' | 'endMs'> {
  /** When the last one of several begins. */
  readonly lastMs: number;
}

/** Something whose time has come, and that nobody runs. */
export const lateRecord = record('LateItem', {
  kind: kindField,
  name: shown.text.like('mail/welcome'),
  /**
   * `not-called`: cron should have called the tier. `no-line`: no crontab line calls it. `waits`: for a pass of its
   * tier. `no-call`: no call is expected that would run it. `no-handler` and `no-worker`: jobs of the queue.
   */
  code: shown.words(lateCodes, 'LateCode'),
  since: shown.instant.orNull.about('Null: unknown'),
  count: shown.integer.orNull.about('How many jobs; null: it is none'),
  expected: shown.instant.orNull.about('When a pass is expected to run it; null: nobody knows'),
});

export type LateItem = Values<typeof lateRecord>;

/** The findings of one source. */
interface Found {
  readonly items: readonly Coming[];
  readonly late: readonly LateItem[];
  /** All that comes before that is among the items. */
  readonly completeMs: number;
}

/** How far to look, and what is known of all tiers. */
export interface Ahead {
  readonly site: Site;
  readonly untilMs: number;
  /** The tiers that are asked about, and their scripts. */
  readonly tiers: readonly Tier[];
  /** The states of all tiers: a call of any tier also runs jobs that another one left. */
  readonly states: readonly TierState[];
  readonly holders: readonly TierHolder[];
  readonly pauses: readonly Pause[];
}

/** Beyond a day, nobody reads minutes. */
const MINUTES_UP_TO_MS = 25 * HOUR_MS;

/** Times of the same thing within one such step are one item. */
function stepOf({ site: { nowMs }, untilMs }: Ahead): number {
  return untilMs - nowMs > MINUTES_UP_TO_MS ? 15 * MINUTE_MS : MINUTE_MS;
}

/** The passes of the tiers. Nothing comes of a tier whose calls run no script. */
export function findPasses(ahead: Ahead): Found {
  const tiers = ahead.tiers.flatMap((tier) => {
    const state = ahead.states.find((each) => each.tier === tier.name);
    return state === undefined ? [] : [{ ...tier, state }];
  });
  const isAtWork = ({ scripts }: Tier): boolean => scripts.some(isOfEachPass);
  const open = ({ state }: (typeof tiers)[number]) => passesOf(ahead, state);
  const { timesOf, completeMs } = listInOrder(tiers.filter(isAtWork), ahead.untilMs, open);
  const found = tiers.map((tier) => ({
    items: inSteps(ahead, { kind: 'tier', name: tier.name, reason: 'call' }, timesOf.get(tier) ?? []),
    late: lateTier(ahead, tier.state),
  }));
  return { ...merge(ahead, found), completeMs };
}

/** A call that is late by little is expected at any moment; one that is overdue is not. */
function* passesOf({ site: { nowMs } }: Ahead, { expected, passAfter }: TierState): Generator<Run, undefined> {
  let atMs = expected?.isOverdue ? passAfter(nowMs) : (expected?.atMs ?? null);
  while (atMs !== null) {
    yield { atMs, dueMs: null };
    atMs = passAfter(Math.max(atMs, nowMs));
  }
}

function lateTier({ site }: Ahead, { tier: name, expected, isUncalled, pause, passAfter }: TierState): LateItem[] {
  const late = { kind: 'tier', name, count: null } as const;
  if (isUncalled) return [{ ...late, code: 'no-line', sinceMs: null, expectedMs: null }];
  if (expected?.isOverdue !== true || pause !== null) return [];
  return [{ ...late, code: 'not-called', sinceMs: expected.atMs, expectedMs: passAfter(site.nowMs) }];
}

/** Scripts that have times of their own: each time is due with the first call of the tier after it. */
export async function findScheduled(ahead: Ahead): Promise<Found> {
  const { site, states, tiers } = ahead;
  const times = await readNextTimes(site, tiers, states);
  const opened = await Array.fromAsync(times, async ({ schedule: rule, atMs, ...time }) => {
    const state = states.find(({ tier }) => tier === time.tier);
    if (rule === null || atMs === null || state === undefined) return [];
    return [{ ...time, rule, atMs, runs: await openRuns(ahead, state, { ...time, firstMs: atMs }) }];
  });
  const scripts = opened.flat();
  const { timesOf, completeMs } = listInOrder(scripts, ahead.untilMs, ({ runs }) => runs);
  const found = scripts.map((script) => {
    const { script: name, rule } = script;
    const items = inSteps(ahead, { kind: 'script', name, reason: 'schedule', rule }, timesOf.get(script) ?? []);
    return { items, late: lateScript(ahead, script) };
  });
  return { ...merge(ahead, found), completeMs };
}

function lateScript(
  ahead: Ahead,
  { script: name, atMs, passMs }: { readonly script: string; readonly atMs: number; readonly passMs: number | null },
): LateItem[] {
  const { nowMs } = ahead.site;
  if (atMs > nowMs) return [];
  const code = isPaused(ahead, name, nowMs) ? 'paused' : passMs === null ? 'no-call' : 'waits';
  return [{ kind: 'script', name, code, sinceMs: atMs, count: null, expectedMs: passMs }];
}

interface Rule {
  readonly script: string;
  readonly firstMs: number;
}

async function openRuns(ahead: Ahead, state: TierState, { script: name, firstMs }: Rule) {
  const { openTimes } = await import('../../../schedule/repeat/calendar.ts');
  const { ruleOf } = await import('../../../schedule/script-times.ts');
  const script = ahead.tiers.flatMap(({ scripts }) => scripts).find((each) => each.name === name);
  const rule = script === undefined ? null : ruleOf(script.options);
  return runsOf(ahead, state, firstMs, rule === null ? () => null : await openTimes(rule));
}

/** A pass runs a script once, however many of its times have come since the last one. */
function* runsOf(
  { site: { nowMs } }: Ahead,
  { callAfter }: TierState,
  firstMs: number,
  next: (afterMs: number) => number | null,
): Generator<Run, undefined> {
  let dueMs: number | null = firstMs;
  while (dueMs !== null) {
    const atMs = callAfter(Math.max(dueMs, nowMs));
    if (atMs === null) return;
    yield { atMs, dueMs };
    dueMs = next(atMs);
  }
}

/**
 * Jobs of scripts that have not ended: a pass comes to them, or the next call of any tier does. Those that wait for
 * others, or for their window, come besides.
 */
export async function findOpenScripts(ahead: Ahead): Promise<Found> {
  const { site, states, tiers, holders } = ahead;
  const isWanted = ({ tier }: { readonly tier: string }): boolean => tiers.some(({ name }) => name === tier);
  const waiting = (await selectWaiting((await site.view()).db, holders)).filter(
    (job) => isWanted(job) && job.state !== 'linked',
  );
  const found = waiting.map(({ script: name, state, runAtMs: dueMs }) => {
    const isAtWork = state === 'queued' || state === 'claimed';
    const fromMs = Math.max(dueMs, site.nowMs);
    const calls = states.flatMap(({ callAfter }) => callAfter(fromMs) ?? []);
    const atMs = isAtWork ? site.nowMs : calls.length === 0 ? null : Math.min(...calls);
    const reason = isAtWork ? 'queued' : state === 'retrying' ? 'retry' : 'deferred';
    if (atMs !== null) return { items: inSteps(ahead, { kind: 'script', name, reason }, [{ atMs, dueMs }]), late: [] };
    const late = { kind: 'script', name, code: 'no-call', sinceMs: dueMs, count: null, expectedMs: null } as const;
    return { items: [], late: dueMs > site.nowMs ? [] : [late] };
  });
  return merge(ahead, found);
}

/** Jobs of the queue. */
export async function findJobs(ahead: Ahead, handlers: readonly string[]): Promise<Found> {
  const { site, untilMs } = ahead;
  const { store, nowMs } = site;
  if (store === null) return merge(ahead, []);
  const { jobs, completeMs } = await readComingJobs(store, { nowMs, untilMs, stepMs: stepOf(ahead) });
  const isDue = ({ atMs }: ComingJobs): boolean => atMs <= nowMs;
  const isWorked = !jobs.some(isDue) || (await hasWorker(site));
  const found = jobs.map((group) => {
    const { name, atMs, lastMs, count, id: job, repeat: rule } = group;
    const code = isDue(group) ? lateCode(ahead, name, { handlers, isWorked }) : null;
    if (code !== null) {
      return { items: [], late: [{ kind: 'job', name, code, sinceMs: atMs, count, expectedMs: null } as const] };
    }
    const item = { kind: 'job', name, reason: reasonOf(group, nowMs), job, rule } as const;
    return { items: [{ ...filled(ahead, item, atMs), lastMs, count }], late: [] };
  });
  return { ...merge(ahead, found), completeMs };
}

function lateCode(
  ahead: Ahead,
  name: string,
  { handlers, isWorked }: { readonly handlers: readonly string[]; readonly isWorked: boolean },
): LateItem['code'] | null {
  if (isPaused(ahead, `${WHOLE_QUEUE}/${name}`, ahead.site.nowMs)) return 'paused';
  if (!handlers.includes(name)) return 'no-handler';
  return isWorked ? null : 'no-worker';
}

function reasonOf({ atMs, isRetried, repeat }: ComingJobs, nowMs: number): Coming['reason'] {
  if (isRetried) return 'retry';
  if (repeat !== null) return 'repeat';
  return atMs <= nowMs ? 'due' : 'delay';
}

/** Whether a worker processes the queue, by the health check; true if wrong settings, which stand elsewhere, stop it. */
async function hasWorker(site: Site): Promise<boolean> {
  if ((await site.jobs()).settingsProblem !== null) return true;
  return (await readHealth(site, ['no-worker'])).status !== 'critical';
}

type Named = Pick<Coming, 'kind' | 'name' | 'reason'> & Partial<Pick<Coming, 'job' | 'rule'>>;

/** The name of its runs, or of its tier. */
export function subjectOf({ kind, name }: Pick<Coming, 'kind' | 'name'>): string {
  return kind === 'job' ? `${WHOLE_QUEUE}/${name}` : name;
}

export function filled(ahead: Ahead, item: Named, atMs: number): Coming {
  return {
    ...{ job: null, rule: null, dueMs: null, links: [], ...item },
    ...{ atMs, lastMs: atMs, count: 1, isPaused: isPaused(ahead, subjectOf(item), Math.max(atMs, ahead.site.nowMs)) },
  };
}

/** Whether a pause that is then still in force keeps a script, a tier or jobs of a name from running. */
export function isPaused({ pauses }: Ahead, name: string, atMs: number): boolean {
  const inForce = pauses.filter(({ kind, until }) => kind === 'pause' && (until === null || until > atMs));
  return findPause(inForce, name) !== null;
}

interface Run {
  readonly atMs: number;
  readonly dueMs: number | null;
}

function inSteps(ahead: Ahead, item: Named, runs: readonly Run[]): Coming[] {
  const stepMs = stepOf(ahead);
  const steps = Map.groupBy(runs, ({ atMs }) => Math.floor(atMs / stepMs));
  return [...steps.values()].map((ofStep) => {
    const [first] = ofStep as [Run];
    const lastMs = (ofStep.at(-1) as Run).atMs;
    return { ...filled(ahead, item, first.atMs), dueMs: first.dueMs, lastMs, count: ofStep.length };
  });
}

function merge({ untilMs }: Ahead, found: readonly Pick<Found, 'items' | 'late'>[]): Found {
  return {
    items: found.flatMap(({ items }) => items),
    late: found.flatMap(({ late }) => late),
    completeMs: untilMs,
  };
}
