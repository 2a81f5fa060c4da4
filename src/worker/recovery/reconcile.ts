import { unlinkSync } from 'node:fs';
import { discover } from '../../discovery/discover.ts';
import type { Discovery } from '../../discovery/script.ts';
import { endUnmeasured, toFinishedRun } from '../../execution/result/result.ts';
import { ifPossible, removeRunFiles, runFilesOf } from '../../execution/run-files.ts';
import { listDeadNotes, readNotes } from '../../execution/secret-notes.ts';
import { findSecrets, maskSecrets } from '../../execution/secrets.ts';
import { GRACE_MS } from '../../execution/watch/terminate.ts';
import { endExpiredLeases } from '../../queue/claim/leases.ts';
import { createPolicies, type PolicyOfName, policyOf, type RetryPolicy } from '../../queue/settle/retry-policy.ts';
import { defaultTimeoutMs } from '../../schedule/period.ts';
import type { Runner } from '../../settings/settings.ts';
import type { JobHead } from '../../store/contract/jobs.ts';
import type { Store } from '../../store/contract/store.ts';
import { removeSecondName } from '../../store/sqlite/file.ts';
import { UsageError } from '../../system/base/errors.ts';
import { removeEmptyFallback, trustedFallbacksOf } from '../../system/place/fallback.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { checkLiveness, type ProcessIdentity, readStartTicks } from '../../system/process/identity.ts';
import { describeSilence, isElsewhere, LEASE_MS } from '../lock/lease.ts';
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
import { isSpooled } from './needed.ts';
import { type LostSpooledRun, replaySpool } from './replay-spool.ts';
import { sweepRunFiles } from './sweep.ts';

/** What reconciling needs to know of the runner. */
type Reconciler = Pick<Runner, 'root' | 'state' | 'settings'>;

/** A run that outlived its runner: its script is not to be started a second time. */
export interface Orphan {
  readonly script: string;
  /** Null: it began without the log. */
  readonly jobId: number | null;
  readonly pid: number | null;
  /** On another host: whether it runs on cannot be seen from here. */
  readonly isElsewhere: boolean;
  /** "pid 4711 on web3" */
  readonly runner: string;
}

interface Reconciled {
  readonly orphans: readonly Orphan[];
  /** What somebody should know, one sentence each. */
  readonly notes: readonly string[];
}

/**
 * Makes the log tell the truth about what died: what was recorded without it is replayed, workers whose
 * process is gone have crashed, and each run that lost its runner ends by what is known of it. A run that
 * outlived its runner is left alone until its time limit.
 *
 * @param at UTC epoch milliseconds
 */
export async function reconcile(reconciler: Reconciler, store: Store, at: number): Promise<Reconciled> {
  const { state, root, settings } = reconciler;
  const { missedCap } = settings.queue;
  // First: whoever dies from now on leaves runs that are not found below.
  const folders = [state, ...trustedFallbacksOf(root)];
  const secretNotes = folders.flatMap(listDeadNotes);
  const policies = createPolicies(root, settings);
  const policyOf = createPolicyBook(reconciler, policies);
  // First: what ended without the log would be taken for dead by what follows.
  const replayed = await replaySpool(store, folders, {
    ...{ workerId: null, at, state, missedCap, policyOf },
    endLostRun: async (lost) => (await endRun(reconciler, describeSpooled(lost), at))?.run ?? null,
  });
  for (const lost of replayed.ended) removeRunFiles(runFilesOf(lost.state, lost.run.spoolId));
  await markDeadWorkers(store, state, at);
  const notes = [...replayed.notes];
  const rescue = { at, missedCap, policyOf, onRefused: (note: string) => void notes.push(note) };
  const lost = await findLostRuns(store, state, at);
  const rescued = await rescueRuns(store, lost, rescue, async (run) =>
    isElsewhere(run.claim.worker)
      ? endElsewhere(run.claim, at)
      : await endRun(reconciler, describeLost(run, state), at),
  );
  await recordOrphans(store, reconciler, rescued.alive, at);
  if (store.fleet !== null) await keepOrphans(store, rescued.alive);
  // Last: by now the log knows whose handler works on, and how others have ended.
  await endExpiredLeases(store, () => at, settings.queue, policies);
  await sweepRunFiles(store, reconciler);
  // Only once all runs are in the log: by the notes is found what is to be masked in what they have printed.
  const isAllTold = rescued.ended.length === lost.length && !isSpooled(reconciler);
  for (const note of isAllTold ? secretNotes : []) ifPossible(() => unlinkSync(note));
  removeSecondName(state);
  await clearDeadLocks(store, state, at);
  for (const fallback of folders.slice(1)) removeEmptyFallback(fallback);
  return {
    orphans: [...replayed.alive.map(toSpooledOrphan), ...rescued.alive.map(toOrphan)],
    notes,
  };
}

/** Another machine's run ends with that machine, as far as anybody can know. */
function endElsewhere({ worker, run }: LostRun['claim'], at: number): LostEnd {
  const output = { text: '', bytes: null, droppedBytes: null, file: null, fileBytes: null };
  const reason = describeSilence(worker);
  const end = endUnmeasured({ outcome: 'crashed', finishedAt: at, durationMs: null, reason, output });
  return { run: toFinishedRun({ ...end, ...lastSeenMemory(run?.maxRssBytes ?? null) }), result: null, decision: null };
}

/** Their runner has died, and no other machine sees that they go on: it leaves them alone as long as we do. */
async function keepOrphans(store: Store, alive: readonly LostRun[]): Promise<void> {
  for (const { claim, start } of alive) {
    const untilMs = start.startedAt + (start.timeoutMs ?? timeoutOf(start.script)) + GRACE_MS + LEASE_MS;
    await store.workers.extendLease(claim.worker.id, untilMs);
  }
}

/** What tells one lost run from another, wherever it began. */
type Lost = Pick<
  LostRunRequest,
  'key' | 'state' | 'startedAt' | 'process' | 'runner' | 'timeoutMs' | 'lastSeenRssBytes'
>;

function describeLost({ claim: { token, run, worker }, start }: LostRun, state: StateFolder): Lost {
  return {
    key: token,
    state,
    startedAt: start.startedAt,
    process: processOf({ run, worker }),
    runner: describeRunner(worker.pid, worker.host),
    timeoutMs: start.timeoutMs ?? timeoutOf(start.script),
    lastSeenRssBytes: run?.maxRssBytes ?? null,
  };
}

function processOf({ run, worker }: Pick<LostRun['claim'], 'run' | 'worker'>): Lost['process'] {
  const { host, boot_id: bootId } = worker;
  return { host, bootId, pid: run?.pid ?? null, startTicks: run?.startTicks ?? null };
}

function describeSpooled({ run, worker, state }: LostSpooledRun): Lost {
  const { pid, host, bootId } = worker;
  return {
    key: run.spoolId,
    state,
    startedAt: run.startedAt,
    process: { host, bootId, pid: null, startTicks: null },
    runner: describeRunner(pid, host),
    timeoutMs: run.timeoutMs ?? timeoutOf(run.script),
    lastSeenRssBytes: null,
  };
}

function describeRunner(pid: number, host: string): string {
  return `pid ${pid} on ${host}`;
}

function timeoutOf(script: string): number {
  return defaultTimeoutMs(script.split('/', 1)[0] as string);
}

async function endRun({ root, settings }: Reconciler, lost: Lost, now: number): Promise<LostEnd | null> {
  const end = await endLostRun({
    ...lost,
    root,
    graceMs: GRACE_MS,
    maxOutputBytes: settings.maxOutputBytes,
    // Its runner may have had other variables than this process.
    masker: maskSecrets(findSecrets(settings), readNotes(lost.state)),
    now,
  });
  if (end === null) return null;
  return { run: toFinishedRun(end), result: end.result ?? null, decision: end.ask ?? null };
}

function toOrphan({ claim: { job, run, worker }, start }: LostRun): Orphan {
  const { host, boot_id: bootId, pid } = worker;
  const isElsewhere = isOnAnotherHost({ host, bootId, pid, startTicks: null });
  const runner = describeRunner(pid, host);
  return { script: start.script, jobId: job.id, pid: run?.pid ?? null, isElsewhere, runner };
}

function toSpooledOrphan({ run, worker }: LostSpooledRun): Orphan {
  const runner = describeRunner(worker.pid, worker.host);
  return {
    script: run.script,
    jobId: null,
    pid: null,
    isElsewhere: isOnAnotherHost(worker),
    runner,
  };
}

function isOnAnotherHost(process: ProcessIdentity): boolean {
  return checkLiveness(process) === 'on-another-host';
}

/**
 * Writes down runs that outlived their worker, where that had no time to: whoever looks at a job's lease sees
 * by its process that its handler works on.
 */
async function recordOrphans(
  store: Store,
  { root, state }: Reconciler,
  alive: readonly LostRun[],
  at: number,
): Promise<void> {
  for (const lost of alive) {
    const { run, token } = lost.claim;
    const found = identifyLost({ root, state, key: token, process: processOf(lost.claim) });
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
 * What scripts and handlers say of further tries, as their files are now. Each tier is read once, and only if it
 * is asked for; of a script or a tier that is gone, or is only on other machines, nothing is known.
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
