import type { StateFolder } from '../../place/state-folder.ts';
import type { QueueSettings } from '../../settings/settings.ts';
import { toldPlainly } from '../../store/describe-failure.ts';
import { watchLog } from '../../store/sqlite/change-feed.ts';
import { openStore } from '../../store/sqlite/open.ts';
import { matchAny } from '../../store/sqlite/queries.ts';
import type { Database } from '../../store/store.ts';
import { invalid, readLeaseMs, requireDelayMs } from '../add/values.ts';
import type { ClaimedJob, ClaimOptions, JsonValue } from '../api.ts';
import { QueueError } from '../errors.ts';
import { type Patterns, readPatterns } from '../patterns.ts';
import { selectPausedPatterns } from '../pauses.ts';
import { type JsonReader, readStoredJson, toJob } from '../read/jobs.ts';
import { readEndedChildren } from '../settle/families.ts';
import { chooseJob } from './choose.ts';
import { type ClaimedRow, claimJobs, type QueueSelection } from './claim.ts';
import { endExpiredLeases } from './leases.ts';
import { selectNextWake } from './waiting.ts';

/** What a claim is made with, whoever asks for it. */
interface Claimer {
  readonly log: QueueLog;
  readonly settings: QueueSettings;
  readonly now: () => number;
  readonly read: JsonReader;
}

interface Wanted {
  readonly patterns: readonly string[];
  readonly count: number;
  readonly leaseMs: number | undefined;
  readonly waits: boolean;
}

const MOST_AT_ONCE = 1_000;

/** Takes jobs for somebody who is no worker of the runner; waits for the first one, if asked to. */
export async function claimForCaller(
  claimer: Claimer,
  patterns: Patterns,
  count: number,
  { wait, lease, signal }: ClaimOptions,
): Promise<ClaimedJob[]> {
  const waitMs = wait === undefined ? 0 : requireDelayMs('The wait', wait);
  const wanted = {
    patterns: readPatterns(patterns),
    count: readCount(count),
    leaseMs: lease === undefined ? undefined : readLeaseMs(lease),
    waits: waitMs > 0,
  };
  const { log, now } = claimer;
  const deadline = now() + waitMs;
  for (;;) {
    const sleep = log.watch();
    const { claimed, wakeAt } = await log.ask((db) => claimNow(claimer, db, wanted));
    if (claimed.length > 0) log.found();
    const isOver = waitMs === 0 || now() >= deadline || signal?.aborted === true;
    if (claimed.length > 0 || isOver) return claimed;
    if (!(await sleep(Math.min(deadline, wakeAt ?? deadline), signal))) return [];
  }
}

function readCount(count: unknown): number {
  const isCount = Number.isInteger(count) && Number(count) >= 1 && Number(count) <= MOST_AT_ONCE;
  if (isCount) return count as number;
  throw invalid('How many are claimed', `a whole number from 1 to ${MOST_AT_ONCE}`, count);
}

interface Look {
  readonly claimed: ClaimedJob[];
  /** When it is worth another look, though nobody has changed the log; null: never. */
  readonly wakeAt: number | null;
}

async function claimNow(claimer: Claimer, db: Database, wanted: Wanted): Promise<Look> {
  const { settings, now, read } = claimer;
  await endExpiredLeases(db, now, settings);
  const at = now();
  const { groupLimit } = settings;
  const select = (asked: Database) => selectionOf(asked, wanted.patterns, { at, groupLimit });
  // Who waits looks often, and mostly in vain: that takes no lock.
  if ((await chooseJob(db, await select(db), at)) === null) {
    return { claimed: [], wakeAt: wanted.waits ? await selectNextWake(db, at) : null };
  }
  const claiming = {
    workerId: null,
    at,
    defaultLeaseMs: settings.leaseMs,
    handlerOf: () => null,
    ...(wanted.leaseMs !== undefined && { leaseMs: wanted.leaseMs }),
  };
  const rows = await claimJobs(db, select, claiming, wanted.count);
  // Somebody else was sooner, or all were fused: there may be others.
  if (rows.length === 0) return { claimed: [], wakeAt: at };
  const claimed = await Promise.all(rows.map((row) => tellClaim(db, row, read)));
  return { claimed, wakeAt: null };
}

async function selectionOf(
  db: Database,
  patterns: readonly string[],
  { at, groupLimit }: { readonly at: number; readonly groupLimit: number | null },
): Promise<QueueSelection> {
  const { paused, fused } = await selectPausedPatterns(db, at);
  return {
    groupLimit,
    isWanted: (name) => matchAny(patterns, name) && !matchAny(paused, name),
    isFused: (name) => matchAny(fused, name),
  };
}

/** A claim as it is told to who asked for it, with what belongs to the job's family. */
async function tellClaim(
  db: Database,
  { job, claim }: ClaimedRow,
  read: JsonReader,
): Promise<ClaimedJob> {
  return {
    ...toJob(job, read),
    token: claim.token,
    attempt: claim.attempt,
    parentData: job.parent_id === null ? null : await readData(db, job.parent_id, read),
    children: await readEndedChildren(db, job.id, read),
  };
}

async function readData(db: Database, id: number, read: JsonReader): Promise<JsonValue> {
  const row = await db.selectFrom('jobs').select('data').where('id', '=', id).executeTakeFirst();
  return readStoredJson(row?.data ?? null, read);
}

/** The activity log as a queue uses it: for many calls at the same time, over one connection. */
export interface QueueLog {
  /** @throws {StoreUnavailable} instead of SQLite's own words */
  ask<T>(work: (db: Database) => Promise<T>): Promise<T>;
  /** The same, and wakes up who waits at this log; on a full disk the reserve is given up. */
  change<T>(work: (db: Database) => Promise<T>): Promise<T>;
  /** To be called before looking for work; sleeps then until there may be some. */
  watch(): Sleep;
  /** To be called when there was: who is woken in vain all the time is woken less. */
  found(): void;
  close(): Promise<void>;
}

/**
 * Ends when anybody has changed the log since, at that instant, or when the signal tells to stop. False:
 * the log was closed meanwhile.
 */
type Sleep = (untilMs: number | null, signal: AbortSignal | undefined) => Promise<boolean>;

export async function openQueueLog(state: StateFolder, now: () => number): Promise<QueueLog> {
  const store = await openStore(state, { now });
  if (store.setAside !== null) process.emitWarning(store.setAside);
  const watch = watchLog(state, store);
  let isClosed = false;
  // A connection is not told of its own writes.
  let ownWrite = new AbortController();
  const underWay = new Set<Promise<unknown>>();
  const refuseClosed = (): void => {
    if (isClosed) throw new QueueError('invalid', 'This queue was closed; open it again.');
  };
  const ask: QueueLog['ask'] = async (work) => {
    refuseClosed();
    const asked = toldPlainly(state, () => work(store.db));
    underWay.add(asked);
    return await asked.finally(() => underWay.delete(asked));
  };
  return {
    ask,
    change: async (work) => {
      const result = await ask((db) => store.retryWhenFull(() => work(db)));
      // Without a reason Node makes an error with a stack for each change: 20 µs.
      ownWrite.abort('written');
      ownWrite = new AbortController();
      return result;
    },
    watch: () => {
      refuseClosed();
      const seen = watch.look();
      const { signal: written } = ownWrite;
      return async (untilMs, signal) => {
        // Not by AbortSignal.any: a signal that outlives many waits would keep something of each, in Node 22.
        const signals = signal === undefined ? [written] : [written, signal];
        await watch.changed(seen, untilMs, ...signals);
        return !isClosed;
      };
    },
    found: () => watch.found(),
    close: async () => {
      if (isClosed) return;
      isClosed = true;
      watch.close();
      await Promise.allSettled(underWay);
      await store.close();
    },
  };
}
