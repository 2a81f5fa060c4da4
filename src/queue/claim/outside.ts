import { setTimeout as wait } from 'node:timers/promises';
import { withoutParameters } from '../../discovery/job-name.ts';
import type { QueueSettings } from '../../settings/settings.ts';
import { toldPlainly } from '../../store/describe-failure.ts';
import { openStore } from '../../store/open.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { RunStart } from '../../store/shared/run-rows.ts';
import type { ClaimedRow } from '../../store/statements/claims.ts';
import type { NewJobRow } from '../../store/statements/jobs.ts';
import type { ChangeWatch, Store, StoreSession } from '../../store/store.ts';
import type { LogClock } from '../../system/base/clock.ts';
import { matchAny } from '../../system/base/glob.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { addTogether, shareWrites } from '../add/together.ts';
import { invalid, readLeaseMs, readPriority, requireDelayMs } from '../add/values.ts';
import type { ClaimedJob, ClaimOptions } from '../api.ts';
import { deadlineSoon, QueueError, refuse, wrongState } from '../errors.ts';
import { type Patterns, readPatterns } from '../patterns.ts';
import {
  findJob,
  JobIsBeginning,
  type JsonReader,
  type ReadRef,
  readJobId,
  readRef,
  readStoredJson,
  recordActor,
  toJob,
  type VerbSession,
} from '../read/jobs.ts';
import { isWaiting } from '../read/list.ts';
import { kickJob } from '../settle/by-caller.ts';
import { readEndedChildren } from '../settle/families.ts';
import { LEASE_GRACE_MS, type PolicyOfName } from '../settle/retry-policy.ts';
import { claimJobs, type QueueSelection, selectionOf } from './claim.ts';
import { endExpiredLeases } from './leases.ts';
import { announceWait } from './waiters.ts';

/** The parts that every claim needs. */
interface Claimer {
  readonly log: QueueLog;
  readonly state: StateFolder;
  readonly settings: QueueSettings;
  readonly policies: () => Promise<PolicyOfName>;
  readonly now: () => number;
  readonly read: JsonReader;
}

interface Wanted {
  readonly patterns: readonly string[];
  readonly count: number;
  readonly leaseMs: number | null;
  readonly minPriority?: number | undefined;
  /** Claims this job only. */
  readonly id?: number;
  /** Claims of the caller that must not expire meanwhile. */
  readonly held?: readonly ReadRef[];
}

const MOST_AT_ONCE = 1_000;

/** How long before its end the holder of a claim is warned, in milliseconds. */
export const SOON_MS = 1_000;

/** Claims jobs for a caller that is no worker of the runner; waits for the first one if `wait` is set. */
export async function claimForCaller(
  claimer: Claimer,
  patterns: Patterns,
  count: number,
  { wait, lease, minPriority, holding = [], signal }: ClaimOptions,
): Promise<ClaimedJob[]> {
  const waitMs = wait === undefined ? 0 : requireDelayMs('The wait', wait, 'wait');
  const wanted = {
    patterns: readPatterns(patterns),
    count: readCount(count),
    leaseMs: lease === undefined ? null : readLeaseMs(lease),
    minPriority: minPriority === undefined ? undefined : readPriority(minPriority, 'minPriority'),
    held: readHeld(holding),
  };
  const { log, state, now } = claimer;
  const sinceMs = now();
  const deadline = sinceMs + waitMs;
  let endWait: (() => void) | null = null;
  try {
    for (;;) {
      const sleep = log.watch();
      const { claimed, wakeAt } = await claimNow(claimer, wanted, waitMs > 0);
      if (claimed.length > 0) log.found();
      const isOver = waitMs === 0 || now() >= deadline || signal?.aborted === true;
      if (claimed.length > 0 || isOver) return claimed;
      endWait ??= announceWait(state, { patterns: wanted.patterns, sinceMs, untilMs: deadline });
      if (!(await sleep(Math.min(deadline, wakeAt ?? deadline), signal))) return [];
    }
  } finally {
    endWait?.();
  }
}

function readHeld(holding: unknown): ReadRef[] {
  if (Array.isArray(holding)) return holding.map(readRef);
  throw invalid('The list of jobs in hand', 'a list of jobs', holding, 'holding');
}

function readCount(count: unknown): number {
  const isCount = Number.isInteger(count) && Number(count) >= 1 && Number(count) <= MOST_AT_ONCE;
  if (isCount) return count as number;
  throw invalid('The number of jobs to claim', `a whole number from 1 to ${MOST_AT_ONCE}`, count);
}

/**
 * Claims one job for a caller that is no worker of the runner. A job that has failed or is not due yet is kicked.
 *
 * @throws {QueueError} if that is not possible; then nothing has changed
 */
export async function claimJobForCaller(
  claimer: Claimer,
  id: number,
  { lease }: Pick<ClaimOptions, 'lease'>,
): Promise<ClaimedJob> {
  const { log, settings, policies, now } = claimer;
  const leaseMs = lease === undefined ? null : readLeaseMs(lease);
  readJobId(id);
  await log.ask((store) => endExpiredLeases(store, now, settings, policies));
  return await log.change((session) => claimOne(session, claimer, { patterns: ['*'], count: 1, leaseMs, id }));
}

async function claimOne(
  session: VerbSession,
  claimer: Claimer,
  wanted: Wanted & { readonly id: number },
): Promise<ClaimedJob> {
  const { id } = wanted;
  const job = await findJob(session, id);
  const isDelayed = (row: JobHead): boolean => isWaiting(row.state) && row.run_at > claimer.now();
  if (isDelayed(job) || job.state === 'failed') await kickJob(session, id, claimer.now());
  else if (!isWaiting(job.state)) throw wrongState(job, 'claim');
  const [claimed] = await claimIn(session, claimer, wanted);
  if (claimed !== undefined) return claimed;
  const left = await findJob(session, id);
  // The job was added by plain SQL, and its rule gave it a time only now.
  if (isDelayed(left)) return await claimOne(session, claimer, wanted);
  throw await describeUnclaimed(session, left, claimer, wanted);
}

async function describeUnclaimed(
  session: VerbSession,
  job: JobHead,
  { settings, now }: Claimer,
  wanted: Wanted,
): Promise<QueueError> {
  if (!isWaiting(job.state)) {
    return job.reason === null ? wrongState(job, 'claim') : refuse(job, `cannot be claimed: ${job.reason}.`);
  }
  const { isWanted } = await selectionFor(session, wanted, settings, now());
  const isPaused = !isWanted(job.name);
  const why = isPaused
    ? 'its name is paused; `npx folder-runner jobs` shows which command ends that'
    : job.claim_token !== null
      ? 'the process of its earlier try has not ended yet; its worker ends it within some seconds'
      : 'as many jobs of its group run as `queue.groupLimit` allows; wait for the end of one';
  return refuse(job, `cannot be claimed: ${why}.`);
}

interface Look {
  readonly claimed: ClaimedJob[];
  /** When to look again even if nobody has changed the log; null: never. */
  readonly wakeAt: number | null;
}

async function claimNow(claimer: Claimer, wanted: Wanted, waits: boolean): Promise<Look> {
  const { log, settings, policies, now } = claimer;
  const at = now();
  const look = await log.ask(async (store) => {
    await endExpiredLeases(store, now, settings, policies);
    // A waiting caller looks often, and mostly in vain; such a look takes no lock.
    const selection = await selectionFor(store, wanted, settings, at);
    if ((await store.claims.next(selection, at)) !== null) return null;
    const soonAt = await nextDeadline(store, wanted.held ?? [], at);
    const wakeAt = waits ? await store.claims.nextWake(at, LEASE_GRACE_MS) : null;
    return { claimed: [], wakeAt: soonAt === null ? wakeAt : Math.min(soonAt, wakeAt ?? soonAt) };
  });
  if (look !== null) return look;
  // A waiting caller learns of the closing when it goes on waiting.
  if (log.isClosed()) return { claimed: [], wakeAt: null };
  const claimed = await log.change((session) => claimIn(session, claimer, wanted));
  // Another claimer was faster, or all of the jobs had to fail at once: there may be others.
  return { claimed, wakeAt: claimed.length === 0 ? at : null };
}

/**
 * When the first of these claims is about to expire, in epoch milliseconds; null: none expires.
 *
 * @throws {QueueError} if that is now
 */
async function nextDeadline(session: StoreSession, held: readonly ReadRef[], at: number): Promise<number | null> {
  const tokens = new Map(held.map(({ id, token }) => [id, token]));
  const jobs = await session.jobs.byId([...tokens.keys()]);
  const holds = ({ id, claim_token }: JobHead): boolean => claim_token === (tokens.get(id) ?? claim_token);
  const deadlines = jobs.flatMap((job) =>
    job.lease_expires_at !== null && holds(job) ? { job, soonAt: job.lease_expires_at - SOON_MS } : [],
  );
  const [first] = deadlines.sort((one, other) => one.soonAt - other.soonAt);
  if (first !== undefined && first.soonAt <= at) throw deadlineSoon(first.job);
  return first?.soonAt ?? null;
}

async function selectionFor(
  session: StoreSession,
  { patterns, minPriority, id }: Wanted,
  { groupLimit }: QueueSettings,
  at: number,
): Promise<QueueSelection> {
  const isWanted = (name: string): boolean => matchAny(patterns, name);
  const pauses = await session.pauses.inForce(at);
  return { ...selectionOf({ names: null, isWanted }, pauses, groupLimit), minPriority, id };
}

async function claimIn(session: VerbSession, { settings, now, read }: Claimer, wanted: Wanted): Promise<ClaimedJob[]> {
  const at = now();
  const rows = await claimJobs(session, {
    // Read in the transaction, so that pauses set during the wait for the log's lock count.
    selection: await selectionFor(session, wanted, settings, at),
    count: wanted.count,
    at,
    newToken: () => newToken(wanted.leaseMs),
    leaseMs: wanted.leaseMs,
    defaultLeaseMs: settings.leaseMs,
    state: 'running',
    missedCap: settings.missedCap,
  });
  await session.runs.start(rows.map((job) => ({ ...startOf(job), ...unknownProcess })));
  await recordActor(
    session,
    rows.map(({ id }) => ({ at, event: 'job-claimed', jobId: id })),
  );
  const claimed: ClaimedJob[] = [];
  for (const row of rows) claimed.push(await describeClaim(session, row, read));
  return claimed;
}

/**
 * A token that nobody can guess from other rows of the log. A slash and the requested lease follow it: a renewal of the
 * claim has the same length, and the lease disappears with the claim.
 */
function newToken(leaseMs: number | null): string {
  const random = crypto.randomUUID();
  return leaseMs === null ? random : `${random}/${leaseMs}`;
}

/** The lease that a claim was made with, in milliseconds; null: none was requested. */
export function leaseOfToken(token: string | null): number | null {
  const [, leaseMs] = /^[0-9a-f-]{36}\/(\d{1,13})$/.exec(token ?? '') ?? [];
  return leaseMs === undefined ? null : Number(leaseMs);
}

const unknownProcess = { pid: null, startTicks: null, maxRssBytes: null };

/** The facts of a job's run that are known from its beginning. */
function startOf(job: ClaimedRow): RunStart {
  return {
    jobId: job.id,
    workerId: null,
    key: null,
    script: `queue/${withoutParameters(job.name)}`,
    contentHash: null,
    attempt: job.attempts,
    scheduledFor: job.scheduled_for,
    startedAt: job.started_at as number,
    timeoutMs: null,
  };
}

/** A claim as its caller sees it, with the values of the job's family. */
async function describeClaim(session: StoreSession, job: ClaimedRow, read: JsonReader): Promise<ClaimedJob> {
  const { parent_id: parentId } = job;
  const [parent] = parentId === null ? [] : await session.jobs.wholeById([parentId]);
  return {
    ...(await toJob(session, job, read)),
    token: job.claim_token,
    attempt: job.attempts,
    parentData: readStoredJson(parent?.data ?? null, read),
    children: await readEndedChildren(session, job.id, read),
  };
}

/** The activity log as a queue uses it: for many calls at the same time, over one connection. */
export interface QueueLog {
  /** @throws {StoreUnavailable} instead of the engine's own error */
  ask<T>(work: (store: Store) => Promise<T>): Promise<T>;
  /**
   * Changes the log durably, as a whole or not at all, and wakes up callers that wait at this log. It waits for a job
   * that begins at this moment; on a full disk it gives up the reserve.
   */
  change<T>(work: (session: VerbSession) => Promise<T>): Promise<T>;
  /** The same, of jobs that nothing in the log can keep from being added: calls at the same time share a change. */
  add(rows: readonly NewJobRow[], actor?: string): Promise<number[]>;
  /** Call before looking for work; the returned sleep ends when there may be some. */
  watch(): Sleep;
  /** Call after a wake-up that found work; a consumer whose wake-ups find nothing is woken less often. */
  found(): void;
  isClosed(): boolean;
  close(): Promise<void>;
}

/**
 * Ends when the log has changed since, at that instant, or when the signal is aborted. False: the log was closed
 * meanwhile.
 */
type Sleep = (untilMs: number | null, signal: AbortSignal | undefined) => Promise<boolean>;

export async function openQueueLog(
  state: StateFolder,
  { now, clock }: { readonly now: () => number; readonly clock: LogClock },
  watchOf = (store: Store): ChangeWatch => store.watch(),
): Promise<QueueLog> {
  const store = await openStore(state, { now, clock });
  if (store.quarantined !== null) process.emitWarning(store.quarantined);
  const watch = watchOf(store);
  let isClosed = false;
  // A connection gets no notice of its own writes; null: no caller waits for any.
  let ownWrite: AbortController | null = null;
  const noteOwnWrite = (): void => {
    ownWrite?.abort('written');
    ownWrite = null;
  };
  const addShared = shareWrites(async (calls) => {
    const ids = await store.retryWhenFull(() => store.transaction((session) => addTogether(session, calls, now())));
    noteOwnWrite();
    return ids;
  });
  const underWay = new Set<Promise<unknown>>();
  const refuseClosed = (): void => {
    if (isClosed) throw new QueueError('invalid', 'This queue was closed; open it again.');
  };
  const ask: QueueLog['ask'] = async (work) => {
    refuseClosed();
    const asked = toldPlainly(state, () => work(store));
    underWay.add(asked);
    return await asked.finally(() => underWay.delete(asked));
  };
  return {
    ask,
    change: async (work) => {
      const askedAt = now();
      const result = await ask(() => store.retryWhenFull(() => changeOnceBegun(store, askedAt, work)));
      noteOwnWrite();
      return result;
    },
    add: (rows, actor) => ask(() => addShared({ rows, actor: actor ?? null })),
    watch: () => {
      refuseClosed();
      const seen = watch.look();
      ownWrite ??= new AbortController();
      const { signal: written } = ownWrite;
      return async (untilMs, signal) => {
        // `AbortSignal.any` does not do: in Node 22, a signal that outlives many waits would keep a part of each.
        const signals = signal === undefined ? [written] : [written, signal];
        await watch.changed(seen, untilMs, ...signals);
        return !isClosed;
      };
    },
    found: () => watch.found(),
    isClosed: () => isClosed,
    close: async () => {
      if (isClosed) return;
      isClosed = true;
      watch.close();
      await Promise.allSettled(underWay);
      await store.close();
    },
  };
}

/** The same log; each change is recorded with this actor. */
export function asActor(log: QueueLog, actor: string): QueueLog {
  return {
    ...log,
    add: (rows) => log.add(rows, actor),
    change: (work) =>
      log.change((session) => {
        const record: StoreSession['events']['record'] = (events) =>
          session.events.record(events.map((each) => ({ ...each, actor })));
        return work({ ...session, actor, events: { ...session.events, record } });
      }),
  };
}

/** A claimed job ends, lasts or is given back within this time, in milliseconds, unless its worker stands still. */
const LONGEST_BEGINNING_MS = 500;
const BEGINNING_LOOK_MS = 10;

async function changeOnceBegun<T>(
  store: Store,
  askedAt: number,
  work: (session: VerbSession) => Promise<T>,
): Promise<T> {
  const deadline = performance.now() + LONGEST_BEGINNING_MS;
  for (;;) {
    const takesClaimed = performance.now() >= deadline;
    try {
      return await store.transaction((session) => work({ ...session, askedAt, takesClaimed }));
    } catch (error) {
      if (!(error instanceof JobIsBeginning)) throw error;
    }
    await wait(BEGINNING_LOOK_MS);
  }
}
