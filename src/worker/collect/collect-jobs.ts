import { hasOwnTimes, type Script } from '../../discovery/script.ts';
import { deferScripts, enqueueScripts, isDue, type QueuedJob } from '../../queue/add/scripts.ts';
import { findPause } from '../../queue/pauses.ts';
import { cancelWaiting } from '../../queue/settle/families.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import type { ScriptJobRow } from '../../store/statements/script-jobs.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import type { WorkerKind } from '../../store/words.ts';
import type { WorkerEvents } from '../invocation/events.ts';
import type { TierRequest } from '../invocation/invocation.ts';
import type { StopRequest } from '../invocation/stop.ts';
import type { PassJob } from '../record/recorder.ts';
import type { Orphan } from '../recovery/reconcile.ts';
import type { Slots } from './slots.ts';

/** The pass that collects its jobs, and the facts it needs. */
export interface Collector {
  /** The session of a transaction, so that all rows are of one moment. */
  readonly session: StoreSession;
  readonly events: WorkerEvents;
  readonly workerId: number;
  readonly request: TierRequest;
  readonly scheduledFor: number | null;
  /** Null: no script of the tier has its own times. */
  readonly slots: Slots | null;
  readonly at: number;
  readonly pauses: readonly Pause[];
  /** The open jobs of the tier, in the order in which they will run. */
  readonly openJobs: readonly ScriptJobRow[];
  /** Runs that outlived their runner. */
  readonly orphans: readonly Orphan[];
}

/**
 * The jobs that a pass runs: first those that an earlier pass left open, then one for each script without an open job.
 * So no script ever runs twice at once, and deferred jobs come first.
 */
export async function collectJobs(collector: Collector): Promise<readonly PassJob[]> {
  const open = await freeUnheld(collector, chooseOpenJobs(collector));
  const due = open.filter((job) => mayRun(collector, job));
  const left = due.flatMap((job) => toPassJob(collector.request, job) ?? []);
  await recordRunning(collector, open);
  await cancelGone(collector, due);
  return [...left, ...(await addJobs(collector, open))];
}

/** A script started by hand runs alone, whatever else waits. */
function chooseOpenJobs({ openJobs, request }: Collector): readonly ScriptJobRow[] {
  if (request.kind !== 'script') return openJobs;
  const wanted = new Set(request.scripts.map(({ name }) => name));
  return openJobs.filter(({ name }) => wanted.has(name));
}

/**
 * Frees jobs that no working worker holds. They are not running, even if their rows say so: another program has
 * written the row, or the log has refused the end of the run.
 */
async function freeUnheld(
  { session, at, orphans }: Collector,
  open: readonly ScriptJobRow[],
): Promise<readonly ScriptJobRow[]> {
  if (!open.some(isHeld)) return open;
  const running = new Set(orphans.map(({ script }) => script));
  const claims = await session.claims.ofWorkers();
  const held = new Set(
    claims.flatMap(({ job, worker }) => (worker.state === 'running' || running.has(job.name) ? [job.id] : [])),
  );
  const unheld = open.filter((job) => isHeld(job) && !held.has(job.id));
  const free = ({ state }: ScriptJobRow) =>
    ({ state: state === 'retrying' ? state : 'queued', claim_token: null }) as const;
  await session.jobs.change(
    unheld.map((job) => ({ id: job.id, set: free(job) })),
    at,
  );
  return open.map((job) => (unheld.includes(job) ? { ...job, ...free(job) } : job));
}

/** A script started by hand waits neither for the time of its next try nor for the end of a pause. */
export function mayRun(
  { request, at, pauses, orphans }: Pick<Collector, 'request' | 'at' | 'pauses' | 'orphans'>,
  job: ScriptJobRow,
): boolean {
  if (isHeld(job) || orphans.some(({ script }) => script === job.name)) return false;
  if (request.kind === 'script') return true;
  return isDue(job, scriptOfJob(request, job), at) && findPause(pauses, job.name) === null;
}

export function isHeld({ state, claim_token }: ScriptJobRow): boolean {
  return state === 'running' || state === 'claimed' || claim_token !== null;
}

export function scriptOfJob({ tier }: TierRequest, { name }: ScriptJobRow): Script | undefined {
  return tier.scripts.find((script) => script.name === name);
}

function toPassJob(request: TierRequest, job: ScriptJobRow): PassJob | null {
  const script = scriptOfJob(request, job);
  return script === undefined
    ? null
    : { id: job.id, script, scheduledFor: job.scheduled_for, attempt: job.attempts + 1 };
}

/**
 * Reports scripts that still run and are not started a second time. The worker that finds one ended records its end.
 */
export async function recordRunning(
  { session, events, workerId, at, orphans, request }: Collector,
  open: readonly ScriptJobRow[],
): Promise<void> {
  const held = open.filter(isHeld).map(({ id, name }) => ({ id, name }));
  const unlogged = orphans
    .filter(({ script, jobId }) => jobId === null && isOf(request, script))
    .map(({ script: name }) => ({ id: null, name }));
  for (const { id, name } of [...held, ...unlogged]) {
    const orphan = orphans.find(({ script }) => script === name);
    const detail = describeRunning(name, orphan);
    await session.events.record([{ at, event: 'run-orphaned', workerId, jobId: id, detail }]);
    events.emit('deferred', detail);
  }
}

function isOf({ scripts }: TierRequest, name: string): boolean {
  return scripts.some((script) => script.name === name);
}

function describeRunning(name: string, orphan: Orphan | undefined): string {
  if (orphan === undefined) return `${name} is still running in another worker`;
  const { pid, runner, isElsewhere } = orphan;
  if (isElsewhere) {
    return `${name} may still be running, left by a runner that gives no sign of life (${runner})`;
  }
  return `${name} is still running (pid ${pid ?? 'unknown'}), left by a runner that died (${runner})`;
}

async function cancelGone({ session, request, at }: Collector, due: readonly ScriptJobRow[]): Promise<void> {
  const elsewhere = new Set(request.tier.elsewhere?.map(({ name }) => name));
  const gone = due.filter((job) => toPassJob(request, job) === null && !elsewhere.has(job.name));
  await cancelWaiting(session, gone, { at, reason: 'its script no longer exists' });
}

async function addJobs(collector: Collector, open: readonly ScriptJobRow[]): Promise<readonly PassJob[]> {
  const { session, request, orphans, at } = collector;
  const taken = new Set([...open.map(({ name }) => name), ...orphans.map(({ script }) => script)]);
  const isWanted = ({ name }: Script): boolean => {
    if (taken.has(name)) return false;
    // Two files of one name are both refused, and reported once.
    taken.add(name);
    return true;
  };
  const wanted = request.scripts.filter(isWanted).flatMap((script) => chooseSlot(collector, script));
  const queued = await enqueueScripts(session, wanted, at);
  await cancelMissed(
    session,
    queued.map(({ id }, index) => ({ id, missed: wanted[index]?.missed ?? null })),
    at,
  );
  const waits = ({ script, missed }: Wanted): boolean =>
    missed !== null || (request.kind !== 'script' && findPause(collector.pauses, script.name) !== null);
  return queued.filter((_, index) => !waits(wanted[index] as Wanted)).map((job) => ({ ...job, attempt: 1 }));
}

/** A script to be queued. */
export interface Wanted extends Omit<QueuedJob, 'id'> {
  /** Why its time is not made up for; null: it runs. */
  readonly missed: string | null;
}

/**
 * The time for which to queue a script; empty: do not queue it. A script started by hand is always queued, without a
 * time of its schedule. A script with its own times is queued during a pause, too, and waits for the end of the pause.
 */
export function chooseSlot(
  { request, slots, scheduledFor, pauses }: Pick<Collector, 'request' | 'slots' | 'scheduledFor' | 'pauses'>,
  script: Script,
): readonly Wanted[] {
  if (hasOwnTimes(script)) {
    if (request.kind === 'script') return [{ script, scheduledFor: null, missed: null }];
    const slot = slots?.get(script.name) ?? null;
    return slot === null ? [] : [{ script, ...slot }];
  }
  const isPaused = request.kind !== 'script' && findPause(pauses, script.name) !== null;
  return isPaused ? [] : [{ script, scheduledFor, missed: null }];
}

/** Records a missed time once, as cancelled: the row keeps the time. Call it in a transaction. */
export async function cancelMissed(
  session: StoreSession,
  jobs: readonly { readonly id: number | null; readonly missed: string | null }[],
  at: number,
): Promise<void> {
  for (const { id, missed } of jobs) {
    if (id !== null && missed !== null) await cancelWaiting(session, [{ id }], { at, reason: missed });
  }
}

interface Leaving {
  readonly tier: string;
  readonly workerId: number;
  readonly at: number;
  readonly stop: StopRequest;
  readonly kind: WorkerKind;
}

/** Leaves or cancels the jobs that a pass did not start. The next pass of any tier runs the ones that are left. */
export async function leaveRest(
  store: Store,
  rest: readonly PassJob[],
  { tier, workerId, at, stop, kind }: Leaving,
): Promise<void> {
  const jobs = rest.flatMap(({ id }) => (id === null ? [] : { id }));
  if (jobs.length === 0) return;
  const why = { workerId, at, reason: stop.reason ?? 'its pass was aborted' };
  // A person who interrupts this pass does not mean jobs that an earlier pass has left, or that another machine has
  // begun.
  const isCancelled = stop.rest === 'cancel' && kind !== 'backlog';
  await store.transaction(async (session) => {
    const open = new Set((await session.scriptJobs.open(tier)).filter((job) => !isHeld(job)).map(({ id }) => id));
    const left = jobs.filter(({ id }) => open.has(id));
    await (isCancelled ? cancelWaiting(session, left, why) : deferScripts(session, left, why));
  });
}
