import { unlinkSync } from 'node:fs';
import { discover } from '../../discovery/discover.ts';
import type { Discovery } from '../../discovery/script.ts';
import { endUnmeasured, type RunEnd, toFinishedRun, unreadOutput } from '../../execution/result/result.ts';
import { ifPossible, removeRunFiles, runFilesOf } from '../../execution/run-files.ts';
import { listDeadNotes, readNotes } from '../../execution/secret-notes.ts';
import { findSecrets, maskSecrets } from '../../execution/secrets.ts';
import { GRACE_MS } from '../../execution/watch/watch.ts';
import { endExpiredLeases } from '../../queue/claim/leases.ts';
import { createPolicies, type PolicyOfName, policyOf, type RetryPolicy } from '../../queue/settle/retry-policy.ts';
import { defaultTimeoutMs } from '../../schedule/period.ts';
import type { Runner } from '../../settings/settings.ts';
import type { JobHead } from '../../store/shared/job-columns.ts';
import type { Store } from '../../store/store.ts';
import { UsageError } from '../../system/base/errors.ts';
import { removeEmptyFallback, trustedFallbacksOf } from '../../system/place/fallback.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { checkLiveness, type ProcessIdentity, readStartTicks } from '../../system/process/identity.ts';
import {
  clearDeadLocks,
  endLostRun,
  findLostRuns,
  identifyLost,
  type LostEnd,
  type LostRun,
  type LostRunRequest,
  lastSeenMemory,
  markDeadWorkers,
  rescueRuns,
} from './dead-workers.ts';
import { type LostSpooledRun, replaySpool } from './replay-spool.ts';
import { sweepRunFiles } from './sweep.ts';
import { describeSilence, isElsewhere, isSpooled, LEASE_MS } from './tier-lock.ts';

/** The parts of the runner that reconciling needs. */
type Reconciler = Pick<Runner, 'root' | 'state' | 'settings'>;

/** A run that outlived its runner; its script must not be started a second time. */
export interface Orphan {
  readonly script: string;
  /** Null: it began without the log. */
  readonly jobId: number | null;
  readonly pid: number | null;
  /** Whether it is on another host; then it cannot be seen from here whether it still runs. */
  readonly isElsewhere: boolean;
  /** "pid 4711 on web3" */
  readonly runner: string;
}

interface Reconciled {
  readonly orphans: readonly Orphan[];
  /** Notes for a person, one sentence each. */
  readonly notes: readonly string[];
}

/**
 * Corrects the log after crashes: it replays records made without the log, marks workers whose process is gone as
 * crashed, and ends each run that lost its runner by its known facts. A run that outlived its runner is left alone
 * until its time limit.
 *
 * @param at UTC epoch milliseconds
 */
export async function reconcile(reconciler: Reconciler, store: Store, at: number): Promise<Reconciled> {
  const { state, root, settings } = reconciler;
  const { missedCap } = settings.queue;
  // List the notes first: a process that dies from now on leaves runs that are not found below.
  const folders = [state, ...trustedFallbacksOf(root)];
  const secretNotes = folders.flatMap(listDeadNotes);
  const policies = createPolicies(root, settings);
  const policyOf = createPolicyBook(reconciler, policies);
  // Replay first: the following steps would consider runs dead that ended without the log.
  const replayed = await replaySpool(store, folders, {
    ...{ workerId: null, at, state, missedCap },
    endLostRun: (lost) => endRun(reconciler, describeSpooled(lost), at),
  });
  for (const lost of replayed.ended) removeRunFiles(runFilesOf(lost.state, lost.run.spoolId));
  await markDeadWorkers(store, state, at);
  const notes = [...replayed.notes];
  const rescue = { at, missedCap, policyOf, onRefused: (note: string) => void notes.push(note) };
  const lost = await findLostRuns(store, state, at);
  const rescued = await rescueRuns(store, lost, rescue, async (run) =>
    isElsewhere(run.claim.worker)
      ? endElsewhere(run.claim, at)
      : await endRun(reconciler, { ...describeLost(run, state), stoppedBy: await whoStops(store, run) }, at),
  );
  await recordOrphans(store, reconciler, rescued.alive, at);
  if (store.fleet !== null) await keepOrphans(store, rescued.alive);
  // Leases come last: by now the log knows which handlers still work, and how others have ended.
  await endExpiredLeases(store, () => at, settings.queue, policies);
  await sweepRunFiles(store, reconciler);
  // Only after all runs are in the log: the notes are needed to mask secrets in their output.
  const isAllTold = rescued.ended.length === lost.length && !isSpooled(reconciler);
  for (const note of isAllTold ? secretNotes : []) ifPossible(() => unlinkSync(note));
  await clearDeadLocks(store, state, at);
  for (const fallback of folders.slice(1)) removeEmptyFallback(fallback);
  return {
    orphans: [...replayed.alive.map(describeSpooled), ...rescued.alive.map((run) => describeLost(run, state))].map(
      toOrphan,
    ),
    notes,
  };
}

/** As far as is known, another machine's run ends with that machine. */
function endElsewhere({ worker, run }: LostRun['claim'], at: number): LostEnd {
  const reason = describeSilence(worker);
  const end = endUnmeasured({ outcome: 'crashed', finishedAt: at, durationMs: null, reason, output: unreadOutput });
  return toLostEnd({ ...end, ...lastSeenMemory(run?.maxRssBytes ?? null) });
}

/**
 * Their runner has died, and other machines do not see that they go on: the lease makes them wait as long as this
 * machine does.
 */
async function keepOrphans(store: Store, alive: readonly LostRun[]): Promise<void> {
  for (const { claim, start } of alive) {
    const untilMs = start.startedAt + (start.timeoutMs ?? timeoutOf(start.script)) + GRACE_MS + LEASE_MS;
    await store.workers.extendLease(claim.worker.id, untilMs);
  }
}

/** The person who wants the end of a run that goes on without its runner; null: nobody does. */
async function whoStops({ events }: Store, { claim: { run } }: LostRun): Promise<string | null> {
  return run === null ? null : await events.whoStops({ runId: run.id, jobId: run.jobId });
}

/** The facts about a lost run, wherever it began. */
interface Lost
  extends Pick<LostRunRequest, 'key' | 'state' | 'startedAt' | 'process' | 'runner' | 'timeoutMs' | 'lastSeenRssBytes'>,
    Pick<Orphan, 'script' | 'jobId'> {}

function describeLost({ claim: { job, token, run, worker }, start }: LostRun, state: StateFolder): Lost {
  const { host, boot_id: bootId } = worker;
  return {
    ...describeStart(start),
    ...{ key: token, state, jobId: job.id, runner: describeRunner(worker.pid, host) },
    process: { host, bootId, pid: run?.pid ?? null, startTicks: run?.startTicks ?? null },
    lastSeenRssBytes: run?.maxRssBytes ?? null,
  };
}

function describeSpooled({ run, worker: { pid, host, bootId }, state }: LostSpooledRun): Lost {
  return {
    ...describeStart(run.start),
    ...{ key: run.spoolId, state, jobId: null, runner: describeRunner(pid, host) },
    process: { host, bootId, pid: null, startTicks: null },
    lastSeenRssBytes: null,
  };
}

function describeStart({ script, startedAt, timeoutMs }: LostSpooledRun['run']['start']) {
  return { script, startedAt, timeoutMs: timeoutMs ?? timeoutOf(script) };
}

function describeRunner(pid: number, host: string): string {
  return `pid ${pid} on ${host}`;
}

function timeoutOf(script: string): number {
  return defaultTimeoutMs(script.split('/', 1)[0] as string);
}

async function endRun(
  { root, settings }: Reconciler,
  lost: Lost & Pick<LostRunRequest, 'stoppedBy'>,
  now: number,
): Promise<LostEnd | null> {
  const end = await endLostRun({
    ...lost,
    root,
    graceMs: GRACE_MS,
    maxOutputBytes: settings.maxOutputBytes,
    // Its runner may have had other variables than this process.
    masker: maskSecrets(findSecrets(settings), readNotes(lost.state)),
    now,
  });
  return end && toLostEnd(end);
}

function toLostEnd(end: RunEnd): LostEnd {
  return { end: toFinishedRun(end), result: end.result ?? null, decision: end.ask ?? null };
}

function toOrphan({ script, jobId, process, runner }: Lost): Orphan {
  const { pid } = process;
  return { script, jobId, pid, runner, isElsewhere: isOnAnotherHost({ ...process, pid: pid ?? 0 }) };
}

function isOnAnotherHost(process: ProcessIdentity): boolean {
  return checkLiveness(process) === 'on-another-host';
}

/**
 * Records the processes of runs that outlived their worker, if it had no time to do so: a later check of a job's lease
 * then sees that its handler still works.
 */
async function recordOrphans(
  store: Store,
  { root, state }: Reconciler,
  alive: readonly LostRun[],
  at: number,
): Promise<void> {
  for (const lost of alive) {
    const { run } = lost.claim;
    const found = identifyLost({ root, ...describeLost(lost, state) });
    if (found === null || isOnAnotherHost(found) || (run !== null && found.pid === run.pid)) continue;
    const startTicks = readStartTicks(found.pid);
    const seen = { pid: found.pid, startTicks, maxRssBytes: run?.maxRssBytes ?? null };
    if (run !== null) await store.runs.progress({ runId: run.id, jobId: run.jobId }, seen);
    else await recordBeginning(store, lost, seen, at);
  }
}

async function recordBeginning(
  store: Store,
  { claim: { job, token }, start }: LostRun,
  seen: { pid: number; startTicks: number | null; maxRssBytes: number | null },
  at: number,
): Promise<void> {
  await store.transaction(async (session) => {
    if ((await session.claims.held([{ id: job.id, token }])).length === 0) return;
    const { startedAt: started_at, attempt: attempts } = start;
    const set = { state: 'running' as const, started_at, attempts, reason: null };
    await session.jobs.change([{ id: job.id, set }], at);
    await session.runs.start([{ ...start, ...seen }]);
  });
}

/**
 * The retry policies of scripts and handlers, from their present files. Each tier is read once, and only on demand. A
 * script or a tier that is gone, or is only on other machines, has the default policy.
 */
function createPolicyBook(
  { root, settings }: Pick<Runner, 'root' | 'settings'>,
  policies: () => Promise<PolicyOfName>,
): (job: JobHead) => Promise<RetryPolicy> {
  const tiers = new Map<string, Promise<Pick<Discovery, 'tiers'>>>();
  const findScript = async (name: string, tier: string) => {
    const found = tiers.get(tier) ?? discover(root, settings, { tier }).catch(asNoTier);
    tiers.set(tier, found);
    const { tiers: known } = await found;
    return known.flatMap(({ scripts, elsewhere = [] }) => [...scripts, ...elsewhere]).find((one) => one.name === name);
  };
  return async ({ name, tier }) =>
    tier === null ? (await policies())(name) : policyOf((await findScript(name, tier))?.options);
}

function asNoTier(error: unknown): Pick<Discovery, 'tiers'> {
  if (error instanceof UsageError) return { tiers: [] };
  throw error;
}
