import { withoutParameters } from '../../discovery/script.ts';
import type { QueueSettings } from '../../settings/settings.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { RunStart } from '../../store/shared/run-rows.ts';
import type { ClaimedRow } from '../../store/statements/claims.ts';
import type { StoreSession } from '../../store/store.ts';
import { isWaiting } from '../../store/words.ts';
import { matchAny } from '../../system/base/glob.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import {
  checkOptions,
  invalid,
  type Patterns,
  readLeaseMs,
  readPatterns,
  readPriority,
  readWhole,
  requireDelayMs,
} from '../add/values.ts';
import type { ClaimedJob, ClaimOptions } from '../api.ts';
import { deadlineSoon, type QueueError, refuse, wrongState } from '../errors.ts';
import type { QueueLog } from '../log.ts';
import {
  findJob,
  type JsonReader,
  type ReadRef,
  readJobId,
  readRef,
  readStoredJson,
  recordActor,
  toJob,
  type VerbSession,
} from '../read/jobs.ts';
import { createArchive } from '../settle/archive.ts';
import { readEndedChildren } from '../settle/families.ts';
import { LEASE_GRACE_MS, type PolicyOfName } from '../settle/retry-policy.ts';
import { applyVerb, claimByNumber, verbs } from '../settle/verbs.ts';
import { claimJobs, type QueueSelection, selectionOf } from './claim.ts';
import { endExpiredLeases } from './leases.ts';
import { announceWait } from './waiters.ts';

/** The parts of an open queue. */
export interface QueueParts {
  readonly log: QueueLog;
  readonly state: StateFolder;
  readonly settings: QueueSettings;
  /** The retry policies of handlers, for jobs without a policy of their own. */
  readonly policies: () => Promise<PolicyOfName>;
  /** UTC epoch milliseconds. */
  readonly now: () => number;
  /** Parses data and results. */
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

const claimOptions = [
  ...['wait', 'lease', 'minPriority', 'holding', 'signal'],
] as const satisfies readonly (keyof ClaimOptions)[];

/** The conditions of a verb that begins now. */
export function contextOf({ settings, now }: QueueParts) {
  const { missedCap, leaseMs } = settings;
  return { at: now(), missedCap, leaseMs, archive: createArchive(settings.archive) };
}

const MOST_AT_ONCE = 1_000;

/** How long before its end the holder of a claim is warned, in milliseconds. */
export const SOON_MS = 1_000;

/** Claims jobs for a caller that is no worker of the runner; waits for the first one if `wait` is set. */
export async function claimForCaller(
  parts: QueueParts,
  patterns: Patterns,
  count: number,
  options: ClaimOptions = {},
): Promise<ClaimedJob[]> {
  const { wait, lease, minPriority, holding = [], signal } = checkOptions('claim', claimOptions, options);
  const waitMs = wait === undefined ? 0 : requireDelayMs('The wait', wait, 'wait');
  const wanted = {
    patterns: readPatterns(patterns),
    count: readWhole('The number of jobs to claim', 1, MOST_AT_ONCE, count),
    leaseMs: lease === undefined ? null : readLeaseMs(lease),
    minPriority: minPriority === undefined ? undefined : readPriority(minPriority, 'minPriority'),
    held: readHeld(holding),
  };
  const { log, state, now } = parts;
  const sinceMs = now();
  const deadline = sinceMs + waitMs;
  let endWait: (() => void) | null = null;
  try {
    for (;;) {
      const sleep = log.watch();
      const { claimed, wakeAt } = await claimNow(parts, wanted, waitMs > 0);
      if (claimed.length > 0) log.found();
      const isOver = waitMs === 0 || now() >= deadline || signal?.aborted === true;
      if (claimed.length > 0 || isOver) return claimed;
      endWait ??= announceWait(state, { patterns: wanted.patterns, sinceMs, untilMs: deadline });
      await sleep(Math.min(deadline, wakeAt ?? deadline), signal);
      if (log.isClosed()) return [];
    }
  } finally {
    endWait?.();
  }
}

function readHeld(holding: unknown): ReadRef[] {
  if (Array.isArray(holding)) return holding.map(readRef);
  throw invalid('The list of jobs in hand', 'a list of jobs', holding, 'holding');
}

/**
 * Claims one job for a caller that is no worker of the runner. A job that has failed or is not due yet is kicked.
 *
 * @throws {QueueError} if that is not possible; then nothing has changed
 */
export async function claimJobForCaller(
  parts: QueueParts,
  id: number,
  options: Pick<ClaimOptions, 'lease'> = {},
): Promise<ClaimedJob> {
  const { log, settings, policies, now } = parts;
  const { lease } = checkOptions(claimByNumber.name, claimByNumber.options, options);
  const leaseMs = lease === undefined ? null : readLeaseMs(lease);
  readJobId(id);
  await log.ask((store) => endExpiredLeases(store, now, settings, policies));
  return await log.change((session) => claimOne(session, parts, { patterns: ['*'], count: 1, leaseMs, id }));
}

async function claimOne(
  session: VerbSession,
  parts: QueueParts,
  wanted: Wanted & { readonly id: number },
): Promise<ClaimedJob> {
  const { id } = wanted;
  const job = await findJob(session, id);
  const isDelayed = (row: JobHead): boolean => isWaiting(row.state) && row.run_at > parts.now();
  if (isDelayed(job) || job.state === 'failed') {
    await applyVerb(session, verbs.kick, id, {}, contextOf(parts));
  } else if (!isWaiting(job.state)) throw wrongState(job, claimByNumber);
  const [claimed] = await claimIn(session, parts, wanted);
  if (claimed !== undefined) return claimed;
  const left = await findJob(session, id);
  // The job was added by plain SQL, and its rule gave it a time only now.
  if (isDelayed(left)) return await claimOne(session, parts, wanted);
  throw await describeUnclaimed(session, left, parts, wanted);
}

async function describeUnclaimed(
  session: VerbSession,
  job: JobHead,
  { settings, now }: QueueParts,
  wanted: Wanted,
): Promise<QueueError> {
  if (!isWaiting(job.state)) {
    return job.reason === null ? wrongState(job, claimByNumber) : refuse(job, `cannot be claimed: ${job.reason}.`);
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

async function claimNow(parts: QueueParts, wanted: Wanted, waits: boolean): Promise<Look> {
  const { log, settings, policies, now } = parts;
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
  const claimed = await log.change((session) => claimIn(session, parts, wanted));
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
  return { ...selectionOf(isWanted, pauses, groupLimit), minPriority, id };
}

async function claimIn(
  session: VerbSession,
  { settings, now, read }: QueueParts,
  wanted: Wanted,
): Promise<ClaimedJob[]> {
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
