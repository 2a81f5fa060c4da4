import { quantile } from 'simple-statistics';
import { handlerNames } from '../../discovery/discover.ts';
import { withoutParameters } from '../../discovery/script.ts';
import type { Site } from '../../discovery/site.ts';
import { type PaceRun, paceOf } from '../../store/statements/monitor/pace.ts';
import { field, record, shown, type Values } from '../../system/base/record.ts';
import { HOUR_MS, MINUTE_MS } from '../../system/base/values.ts';
import { selectNewestStart, selectWorkersAtWork } from './tier.ts';

const verdicts = ['keeps-up', 'behind', 'no-worker', 'no-handler'] as const;

const figures = {
  added: shown.integer.about('Jobs added since then'),
  ended: shown.integer.about('Jobs that finished or failed for good since then'),
  waitP50Ms: shown.number.orNull.about('Half of the jobs started within this time after they were due'),
  waitP95Ms: shown.number.orNull.about('95% of the jobs did'),
  due: shown.integer.about('Jobs that are due now'),
  oldestDue: shown.instant.orNull.about('When the oldest of them became due'),
  behindPerHour: shown.integer.about('By how many jobs more are added than end in an hour; 0: as many end'),
  workers: shown.integer.orNull.about(
    'Workers that would clear what is due soon; null: no more are needed, or nobody knows',
  ),
  clearMs: shown.number.orNull.about('Time until nothing is due, at this pace or with these workers; null: not known'),
  verdict: shown.words(verdicts),
};

/** How fast jobs of a name are added and processed. */
const paceRecord = record('JobPace', { name: shown.text.like('mail/welcome').about('Without parameters'), ...figures });

/** The same of all names together. */
export const totalPaceRecord = record('QueuePaceTotal', figures);

/** Whether the workers keep up with the queue: `runner jobs --pace --json`. */
export const queuePaceRecord = record('QueuePace', {
  since: shown.instant.about('The last hour, or less of it if it had more than 5,000 jobs'),
  until: shown.instant,
  all: shown.one(totalPaceRecord).about('All names that have a handler here, or are processed'),
  names: shown.list(field.one(paceRecord)),
});

export type QueuePace = Values<typeof queuePaceRecord>;
export type JobPace = Values<typeof paceRecord>;
export type TotalPace = Values<typeof totalPaceRecord>;

/** Jobs that are due for less than that are about to be taken: a pass may come once a minute. */
const FRESH_MS = MINUTE_MS;

/** A queue that is clear by then keeps up. */
const SOON_MS = 15 * MINUTE_MS;

/** The figures of the jobs of one name, or of several. */
interface Flow {
  readonly added: number;
  readonly due: number;
  readonly oldestDueMs: number | null;
  readonly runs: readonly PaceRun[];
  readonly hasHandler: boolean;
}

interface Means {
  readonly nowMs: number;
  readonly windowMs: number;
  /** How many jobs a worker runs at the same time. */
  readonly atOnce: number;
  readonly mostWorkers: number;
  /** Whether anybody has looked for jobs. */
  readonly isCalled: boolean;
}

export async function readQueuePace(site: Site): Promise<QueuePace> {
  const { store, nowMs } = site;
  const { discovery, settings } = await site.jobs();
  const handlers = new Set(handlerNames(discovery));
  const ask = store === null ? null : paceOf(store.statements);
  const sinceMs = Math.min(nowMs - MINUTE_MS, (await ask?.since(nowMs - HOUR_MS)) ?? nowMs - HOUR_MS);
  const added = (await ask?.added(sinceMs)) ?? [];
  const runs = (await ask?.runs(sinceMs)) ?? [];
  const flows = new Map<string, Flow>();
  const note = (name: string, facts: (flow: Flow) => Partial<Flow>): void => {
    const none = { added: 0, due: 0, oldestDueMs: null, runs: [], hasHandler: handlers.has(name) };
    const flow = flows.get(name) ?? none;
    flows.set(name, { ...flow, ...facts(flow) });
  };
  for (const { name, jobs } of added) note(name, () => ({ added: jobs }));
  for (const [name, ofName] of Map.groupBy(runs, (run) => run.name)) note(name, () => ({ runs: ofName }));
  for (const { name, jobs, oldest } of await site.due())
    note(withoutParameters(name), (flow) => ({
      due: flow.due + jobs,
      oldestDueMs: Math.min(flow.oldestDueMs ?? oldest, oldest),
    }));
  const { db } = await site.view();
  const atWork = await selectWorkersAtWork(db);
  const workers = atWork.filter(({ kind }) => kind === 'queue').length;
  const atOnce = Math.max(1, averageAtOnce(runs, nowMs) / Math.max(1, workers));
  const calledMs = await selectNewestStart(db);
  const isCalled = runs.length > 0 || atWork.length > 0 || (calledMs !== null && calledMs >= sinceMs);
  const means = { nowMs, windowMs: nowMs - sinceMs, atOnce, mostWorkers: settings.workers.max, isCalled };
  const names = [...flows].map(([name, flow]) => ({ name, ...judgePace(flow, means) })).toSorted(byNeed);
  const processed = [...flows.values()].filter((flow) => flow.hasHandler || countEnded(flow.runs) > 0);
  const all = judgePace(addUp(processed), means);
  const isForNobody = all.due === 0 && names.some(({ verdict, due }) => verdict === 'no-handler' && due > 0);
  return { sinceMs, untilMs: nowMs, all: isForNobody ? { ...all, verdict: 'no-handler' } : all, names };
}

/**
 * The pace of a queue whose workers do not keep up, for views that say nothing of one that is well.
 *
 * @param due number of jobs; without any, nothing is asked
 * @returns null if they keep up, or all that is due has no handler: these views list such names
 */
export async function readStrain(site: Site, due: number): Promise<TotalPace | null> {
  if (due === 0) return null;
  const { all } = await readQueuePace(site);
  return all.verdict === 'behind' || all.verdict === 'no-worker' ? all : null;
}

function byNeed(one: JobPace, other: JobPace): number {
  return other.due - one.due || (one.name < other.name ? -1 : 1);
}

function addUp(flows: readonly Flow[]): Flow {
  const oldest = flows.flatMap(({ oldestDueMs }) => oldestDueMs ?? []);
  return {
    added: flows.reduce((sum, flow) => sum + flow.added, 0),
    due: flows.reduce((sum, flow) => sum + flow.due, 0),
    oldestDueMs: oldest.length === 0 ? null : Math.min(...oldest),
    runs: flows.flatMap((flow) => flow.runs),
    hasHandler: true,
  };
}

/** The number of tries that ended their job. */
function countEnded(runs: readonly PaceRun[]): number {
  return runs.filter(({ outcome, leftJob }) => leftJob === 'failed' || (outcome === 'succeeded' && leftJob === null))
    .length;
}

/** How jobs come and go, and what would clear those that are due. */
function judgePace(flow: Flow, means: Means): Omit<JobPace, 'name'> {
  const { added, due, oldestDueMs, runs, hasHandler } = flow;
  const ended = countEnded(runs);
  const waits = runs.flatMap((run) => run.lateMs ?? []);
  const wait = (share: number): number | null => (waits.length === 0 ? null : quantile(waits, share));
  const facts = { added, ended, waitP50Ms: wait(0.5), waitP95Ms: wait(0.95), due, oldestDueMs };
  const behind = Math.max(0, Math.round(((added - ended) * HOUR_MS) / means.windowMs));
  const none = { behindPerHour: behind, workers: null, clearMs: null };
  if (!hasHandler && ended === 0) return { ...facts, ...none, verdict: 'no-handler' };
  if (oldestDueMs === null || means.nowMs - oldestDueMs < FRESH_MS)
    return { ...facts, ...none, behindPerHour: 0, verdict: 'keeps-up' };
  if (!means.isCalled) return { ...facts, ...none, verdict: 'no-worker' };
  const clearMs = clearIn(due, (ended - added) / means.windowMs);
  if (clearMs !== null && clearMs <= SOON_MS) return { ...facts, ...none, clearMs, verdict: 'keeps-up' };
  return { ...facts, behindPerHour: behind, ...findWorkers(flow, means), verdict: 'behind' };
}

/** @param perMs by how many jobs there are fewer each millisecond; null: never */
function clearIn(due: number, perMs: number): number | null {
  return perMs <= 0 ? null : due / perMs;
}

/** The fewest workers that clear soon what is due, or as many as may be; null: even these do not, or nobody knows. */
function findWorkers({ added, due, runs }: Flow, { windowMs, atOnce, mostWorkers }: Means) {
  const durations = runs.flatMap(({ startedAt, finishedAt }) =>
    finishedAt === null ? [] : Math.max(1, finishedAt - startedAt),
  );
  if (durations.length === 0) return { workers: null, clearMs: null };
  // A job may take several tries: all of them keep a worker busy.
  const jobMs = durations.reduce((sum, duration) => sum + duration, 0) / Math.max(1, countEnded(runs));
  for (let workers = 1; workers <= mostWorkers; workers += 1) {
    const clearMs = clearIn(due, (workers * atOnce) / jobMs - added / windowMs);
    if (clearMs !== null && (clearMs <= SOON_MS || workers === mostWorkers)) return { workers, clearMs };
  }
  return { workers: null, clearMs: null };
}

/** How many runs went on at the same time, on average while any did. */
function averageAtOnce(runs: readonly PaceRun[], nowMs: number): number {
  let [busyMs, anyMs, until] = [0, 0, 0];
  for (const { startedAt, finishedAt } of runs.toSorted((one, other) => one.startedAt - other.startedAt)) {
    const end = Math.max(startedAt, finishedAt ?? nowMs);
    busyMs += end - startedAt;
    anyMs += Math.max(0, end - Math.max(until, startedAt));
    until = Math.max(until, end);
  }
  return anyMs === 0 ? 1 : busyMs / anyMs;
}
