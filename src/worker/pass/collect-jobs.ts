import { hasOwnTimes, mayHaveToWait, type Script } from '../../discovery/script.ts';
import { deferScripts, hostOf, isDue, newJobOf } from '../../queue/add/scripts.ts';
import { findPause } from '../../queue/pauses.ts';
import { cancelWaiting } from '../../queue/settle/change-by-event.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import { machinesOf } from '../../store/statements/registers.ts';
import type { ScriptJobRow } from '../../store/statements/script-jobs.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import type { WorkerKind } from '../../store/words.ts';
import { clockOffsetMs } from '../../system/base/clock.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import { DAY_MS, MINUTE_MS } from '../../system/base/values.ts';
import { machineName } from '../../system/process/identity.ts';
import type { StopRequest, StoreInvocation, TierRequest } from '../invocation/invocation.ts';
import { isLimited } from '../loop/limits.ts';
import { type PassJob, tokenOf } from '../loop/recorder.ts';
import type { Orphan } from '../recovery/reconcile.ts';
import { MACHINE_KEPT_MS } from './prune-log.ts';
import type { Slots } from './slots.ts';

/** The pass that collects its jobs, and the facts it needs. */
export interface Collector {
  readonly call: StoreInvocation;
  /**
   * The session of the transaction that takes the slot, so that all rows are of one moment. If several machines share
   * the log, it is the store: a job belongs to a machine once that has claimed it, and nothing is locked before.
   */
  readonly session: StoreSession;
  readonly workerId: number;
  readonly request: TierRequest;
  readonly scheduledFor: number | null;
  /** Null: no script of the tier has its own times, or dates on which it is left out. */
  readonly slots: Slots | null;
  readonly at: number;
  readonly pauses: readonly Pause[];
  /** Runs that outlived their runner. */
  readonly orphans: readonly Orphan[];
}

/**
 * The jobs that a pass runs: first those that an earlier pass left open, then one for each script without an open job.
 * So no script ever runs twice at once, and deferred jobs come first. If several machines share the log, these are all
 * open jobs of the tier, whichever machine has queued them.
 */
export async function collectJobs(collector: Collector): Promise<readonly PassJob[]> {
  const { call, session, request } = collector;
  if (isShared(call)) await noteMachine(call, request);
  const own = await queueScripts(collector);
  const open = await session.scriptJobs.open(request.tier.name);
  const ours = await freeUnheld(
    collector,
    open.filter((job) => isForHere(collector, job)),
  );
  await tellRunning(collector, ours);
  await cancelGone(collector, [...ours, ...open.filter((job) => !isForHere(collector, job))]);
  const due = ours.filter((job) => mayRun(collector, job));
  const all = inOrder(collector, due, own).flatMap((job) => toPassJob(collector, job, own.get(job.id)));
  const jobs = await linkJobs(collector, all, due);
  return isShared(call) || (isLimited(call) && !isExecName(request.tier.name))
    ? jobs
    : await claimFirst(collector, jobs);
}

/** The code for scripts that may have to wait is loaded only if there are any. */
async function linkJobs(
  { call: { store, trigger, events }, session, request, at }: Collector,
  jobs: readonly PassJob[],
  rows: readonly ScriptJobRow[],
): Promise<readonly PassJob[]> {
  if (!jobs.some(({ script }) => mayHaveToWait(script))) return jobs;
  const { linkJobs: link } = await import('./links.ts');
  const tell = trigger === 'manual' ? (text: string) => void events.emit('deferred', text) : null;
  return await link(jobs, { store, session, rows, isByHand: request.kind === 'script', at, tell });
}

/** The first job starts at once, so that it is claimed in the transaction that queues it. */
async function claimFirst({ session, workerId, at }: Collector, jobs: readonly PassJob[]): Promise<readonly PassJob[]> {
  const first = jobs.find(({ waits }) => !waits);
  if (first === undefined) return jobs;
  const claim = { id: first.id as number, token: tokenOf(workerId, 1) };
  const [claimed] = await session.scriptJobs.claim([{ ...claim, state: 'claimed', at }]);
  return claimed === undefined ? jobs : jobs.map((job) => (job === first ? { ...first, claim } : job));
}

const isShared = ({ store }: Pick<StoreInvocation, 'store'>): boolean => store.fleet !== null;

/** Writes in the transaction of the slot, or in one of its own. */
async function write<T>(
  { call: { store }, session }: Pick<Collector, 'call' | 'session'>,
  work: (session: StoreSession) => Promise<T>,
): Promise<T> {
  return session === store ? await store.transaction(work, 'soon') : await work(session);
}

/** A script to be queued. */
interface Wanted {
  readonly script: Script;
  readonly scheduledFor: number | null;
  /** Why its time is not made up for; null: it runs. */
  readonly missed: string | null;
}

/**
 * Queues the scripts of a pass that have no open job. If several machines share the log, a script is queued once for
 * each slot, whichever machine is first, and again if a person starts it.
 *
 * @returns the slots of the jobs that this machine has queued, by their numbers
 */
export async function queueScripts(
  collector: Omit<Collector, 'workerId'>,
): Promise<ReadonlyMap<number, Pick<Wanted, 'scheduledFor'>>> {
  const { call, session, request, at, orphans } = collector;
  const scheduledFor = collector.scheduledFor ?? (isShared(call) ? minuteOf(at) : null);
  const rows = request.scripts.length === 0 ? [] : await session.scriptJobs.ofTier(request.tier.name);
  const open = rows.filter((job) => isOpenHere(job) && (!isShared(call) || isHeld(job)));
  const taken = new Set([...open.map(({ name }) => name), ...orphans.map(({ script }) => script)]);
  const isFree = ({ name }: Script): boolean => {
    if (taken.has(name)) return false;
    // Two files of one name are both refused, and reported once.
    taken.add(name);
    return true;
  };
  const wanted = request.scripts
    .filter(isFree)
    .flatMap((script) => chooseSlot({ ...collector, scheduledFor }, script))
    .filter((each) => isNew(rows, each.script, isAgain(collector, each) ? null : each.scheduledFor));
  if (wanted.length === 0) return new Map();
  const jobs = wanted.map((each) => {
    const job = newJobOf(each, at);
    if (!isAgain(collector, each)) return job;
    // A start by hand leaves the slot to the machines that cron calls.
    return { ...job, isAgain: true, ...(isShared(call) && { scheduledFor: null }) };
  });
  return await write(collector, async (session) => {
    const ids = await session.scriptJobs.enqueueOnce(jobs);
    const queued = new Map(ids.flatMap((id, index) => (id === null ? [] : [[id, wanted[index] as Wanted]])));
    for (const [id, { missed }] of queued) {
      // The row keeps the missed time, so that it is recorded once.
      if (missed !== null) await cancelWaiting(session, [{ id }], { at, reason: missed });
    }
    return queued;
  });
}

/** Whether a script is queued whatever slot it was queued for before. */
function isAgain({ call, request }: Pick<Collector, 'call' | 'request'>, { script }: Wanted): boolean {
  if (!isShared(call) || request.kind === 'script') return true;
  return call.trigger === 'manual' && request.isDue !== true && !hasOwnTimes(script);
}

/** Whether a job of this machine has not ended, also one of before its script became one for each machine. */
function isOpenHere({ finished_at, host }: ScriptJobRow): boolean {
  return finished_at === null && (host === null || host === machineName());
}

/** Whether a script may be queued for this slot, as far as these rows show; the log decides. */
export function isNew(rows: readonly ScriptJobRow[], script: Script, slot: number | null): boolean {
  const row = rows.find(({ name, host }) => name === script.name && host === hostOf(script));
  if (row === undefined) return true;
  if (row.finished_at === null) return false;
  const last = row.scheduled_for ?? Number.NEGATIVE_INFINITY;
  return slot === null || last < slot || last > slot + DAY_MS;
}

/** A tier without a period is called at the same minute everywhere, on each machine's own clock. */
function minuteOf(at: number): number {
  const ownMs = at - clockOffsetMs();
  return ownMs - (ownMs % MINUTE_MS);
}

/**
 * The time for which to queue a script; empty: do not queue it. A script started by hand is always queued, without a
 * time of its schedule. A script with its own times is queued during a pause, too, and waits for the end of the pause.
 */
function chooseSlot(
  { request, slots, scheduledFor, pauses }: Pick<Collector, 'request' | 'slots' | 'scheduledFor' | 'pauses'>,
  script: Script,
): readonly Wanted[] {
  if (hasOwnTimes(script)) {
    if (request.kind === 'script') return [{ script, scheduledFor: null, missed: null }];
    const slot = slots?.get(script.name) ?? null;
    return slot === null ? [] : [{ script, ...slot }];
  }
  const isPaused = request.kind !== 'script' && findPause(pauses, script.name) !== null;
  return isPaused || slots?.get(script.name) === null ? [] : [{ script, scheduledFor, missed: null }];
}

/** A script started by hand runs alone, whatever else waits. A script for every host has one row per host. */
function isForHere({ call, request }: Collector, job: ScriptJobRow): boolean {
  if (request.kind === 'script' && !request.scripts.some(({ name }) => name === job.name)) return false;
  if (!isShared(call)) return job.host === null || job.host === machineName();
  const script = scriptOfJob(request, job);
  return script !== undefined && job.host === hostOf(script);
}

/**
 * Frees jobs that no working worker holds. They are not running, even if their rows say so: another program has
 * written the row, or the log has refused the end of the run. If several machines share the log, their leases show it.
 */
async function freeUnheld(
  { call, session, at, orphans }: Collector,
  open: readonly ScriptJobRow[],
): Promise<readonly ScriptJobRow[]> {
  if (isShared(call) || !open.some(isHeld)) return open;
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

/**
 * Reports scripts that still run and are not started a second time. The worker that finds one ended records its end.
 * Jobs that run on other machines are reported only to a person who asks for a script by name.
 */
async function tellRunning(collector: Collector, open: readonly ScriptJobRow[]): Promise<void> {
  const { call, session, workerId, at, orphans, request } = collector;
  const held = open.filter(isHeld);
  const elsewhere = await findElsewhere(collector, held);
  const here = held.filter(({ id }) => !elsewhere.has(id)).map(({ id, name }) => ({ id, name }));
  const unlogged = orphans
    .filter(({ script, jobId }) => jobId === null && request.scripts.some(({ name }) => name === script))
    .map(({ script: name }) => ({ id: null, name }));
  for (const { id, name } of [...here, ...unlogged]) {
    const orphan = orphans.find(({ script }) => script === name);
    const detail = describeRunning(name, orphan);
    await session.events.record([{ at, event: 'run-orphaned', workerId, jobId: id, detail }]);
    call.events.emit('deferred', detail);
  }
  if (request.kind !== 'script') return;
  for (const { id, name } of held) {
    const where = elsewhere.get(id);
    if (where !== undefined) call.events.emit('deferred', `${name} is still running${where}`);
  }
}

/** The places of jobs that run on other machines: " on web3 (pid 4711)". */
async function findElsewhere(
  { call, session, orphans }: Collector,
  held: readonly ScriptJobRow[],
): Promise<ReadonlyMap<number, string>> {
  if (!isShared(call) || held.length === 0) return new Map();
  const workers = new Map((await session.claims.ofWorkers()).map(({ job, worker }) => [job.id, worker]));
  return new Map(
    held.flatMap(({ id, name }) => {
      const worker = workers.get(id);
      const isHere = worker?.host === machineName() || orphans.some(({ script }) => script === name);
      return isHere ? [] : [[id, worker === undefined ? '' : ` on ${worker.host} (pid ${worker.pid})`]];
    }),
  );
}

function describeRunning(name: string, orphan: Orphan | undefined): string {
  if (orphan === undefined) return `${name} is still running in another worker`;
  const { pid, runner, isElsewhere } = orphan;
  if (isElsewhere) {
    return `${name} may still be running, left by a runner that gives no sign of life (${runner})`;
  }
  return `${name} is still running (pid ${pid ?? 'unknown'}), left by a runner that died (${runner})`;
}

/**
 * Cancels jobs of scripts that no machine has any more. In a shared log it also cancels the jobs of scripts that have
 * changed between one machine and every machine, and jobs whose machine is gone.
 */
async function cancelGone(collector: Collector, open: readonly ScriptJobRow[]): Promise<void> {
  const { call, request, at } = collector;
  if (request.kind === 'script') return;
  const known = [...request.tier.scripts, ...(request.tier.elsewhere ?? [])];
  // On one machine a pause and the wait for a try are kept: the file may come back.
  const isWaiting = (job: ScriptJobRow): boolean => (isShared(call) ? !isHeld(job) : mayRun(collector, job));
  const missing = open.filter((job) => isWaiting(job) && !known.some(({ name }) => name === job.name));
  if (isShared(call)) {
    const changed = open.filter((job) => !isHeld(job) && isOfOtherKind(request.tier.scripts, job));
    await cancel(collector, changed, 'its script now runs on other machines');
    await cancel(collector, await findStranded(call.store, open, at), 'its machine is gone');
  }
  const copies =
    isShared(call) && missing.length > 0
      ? await (await openMachines(call.store)).copies({ names: missing.map(({ name }) => name) })
      : [];
  const gone = missing.filter(({ name }) => !copies.some((copy) => copy.name === name));
  await cancel(collector, gone, 'its script no longer exists');
}

/**
 * Jobs for a single machine that the log has forgotten. A machine that is still unknown to the log has queued its jobs
 * only lately, so only old jobs count.
 */
async function findStranded(store: Store, open: readonly ScriptJobRow[], at: number): Promise<readonly ScriptJobRow[]> {
  const waiting = open.filter(
    (job) => !isHeld(job) && job.host !== null && job.host !== machineName() && job.run_at < at - MACHINE_KEPT_MS,
  );
  if (waiting.length === 0) return [];
  const machines = await openMachines(store);
  const known = new Set((await machines.list()).map(({ host }) => host));
  return waiting.filter(({ host }) => !known.has(host as string));
}

function isOfOtherKind(scripts: readonly Script[], { name, host }: ScriptJobRow): boolean {
  const script = scripts.find((each) => each.name === name);
  if (script === undefined) return false;
  return host === null ? hostOf(script) !== null : host === machineName() && hostOf(script) === null;
}

async function cancel(collector: Collector, jobs: readonly ScriptJobRow[], reason: string): Promise<void> {
  if (jobs.length === 0) return;
  const { call, at } = collector;
  await write(collector, async (session) => {
    // Another machine may have begun one since.
    const open = isShared(call) ? await session.scriptJobs.open() : jobs;
    const waiting = new Set(open.filter((job) => !isHeld(job)).map(({ id }) => id));
    const left = jobs.filter(({ id }) => waiting.has(id));
    await cancelWaiting(session, left, { at, reason });
  });
}

/** Puts jobs that an earlier slot has left first, then this slot's jobs in the order of their files. */
function inOrder(
  { call, request, scheduledFor, slots }: Collector,
  jobs: readonly ScriptJobRow[],
  own: ReadonlyMap<number, unknown>,
): readonly ScriptJobRow[] {
  const places = new Map(request.tier.scripts.map(({ name }, index) => [name, index]));
  const slotOf = ({ name }: ScriptJobRow) => slots?.get(name)?.scheduledFor ?? scheduledFor;
  const isQueuedElsewhere = (job: ScriptJobRow): boolean =>
    isShared(call) && job.state === 'queued' && job.scheduled_for === slotOf(job);
  const placeOf = (job: ScriptJobRow): number =>
    own.has(job.id) || isQueuedElsewhere(job) ? (places.get(job.name) ?? 0) : -1;
  return jobs.toSorted((one, other) => placeOf(one) - placeOf(other));
}

/** @param own its slot, if this machine has just queued it */
function toPassJob(
  { call, request }: Collector,
  job: ScriptJobRow,
  own: Pick<Wanted, 'scheduledFor'> | undefined,
): PassJob[] {
  const script = scriptOfJob(request, job);
  if (script === undefined) return [];
  const { id, attempts, scheduled_for } = job;
  const scheduledFor = own === undefined ? scheduled_for : own.scheduledFor;
  // Another machine may run it first.
  const seen = isShared(call) ? { seen: { attempts, scheduled_for } } : {};
  return [{ id, script, attempt: attempts + 1, scheduledFor, ...seen }];
}

/** Only a shared log knows machines. */
async function openMachines({ statements }: Store) {
  return machinesOf(statements);
}

/** Informs the other machines of this one, and of its scripts of a tier. */
async function noteMachine({ store, runner }: StoreInvocation, { tier }: TierRequest): Promise<void> {
  const host = machineName();
  const machines = await openMachines(store);
  await machines.note({
    ...{ host, seenAt: runner.now(), clockOffsetMs: clockOffsetMs(), runnerVersion: runner.version },
  });
  // A crontab line belongs to its machine.
  if (isExecName(tier.name)) return;
  const copies = new Map([...tier.scripts, ...(tier.elsewhere ?? [])].map((script) => [script.name, toCopy(script)]));
  await machines.noteCopies(host, tier.name, [...copies.values()]);
}

function toCopy({ name, contentHash, options }: Script) {
  return { name, contentHash, hostPattern: options.host?.join(' ') ?? null };
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
  // A person who interrupts this pass does not mean jobs that an earlier pass has left, or that another machine has
  // begun, or that wait for others.
  const isCancelled = stop.rest === 'cancel' && kind !== 'backlog';
  const jobs = rest.flatMap(({ id, waits }) => (id === null || (isCancelled && waits) ? [] : { id }));
  if (jobs.length === 0) return;
  const why = { workerId, at, reason: stop.reason ?? 'its pass was aborted' };
  await store.transaction(async (session) => {
    const open = new Set((await session.scriptJobs.open(tier)).filter((job) => !isHeld(job)).map(({ id }) => id));
    const left = jobs.filter(({ id }) => open.has(id));
    await (isCancelled ? cancelWaiting(session, left, why) : deferScripts(session, left, why));
  });
}
