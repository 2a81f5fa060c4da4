import { hasOwnTimes, type Script } from '../../discovery/script.ts';
import { hostOf, newJobOf } from '../../queue/add/scripts.ts';
import { cancelWaiting } from '../../queue/settle/families.ts';
import { machinesOf } from '../../store/statements/registers.ts';
import type { NewScriptJob, ScriptJobRow } from '../../store/statements/script-jobs.ts';
import { clockOffsetMs } from '../../system/base/clock.ts';
import { machineName } from '../../system/process/identity.ts';
import {
  type Collector,
  cancelMissed,
  chooseSlot,
  isHeld,
  mayRun,
  recordRunning,
  scriptOfJob,
  type Wanted,
} from '../collect/collect-jobs.ts';
import { MACHINE_KEPT_MS } from '../housekeeping/prune-log.ts';
import type { StoreInvocation, TierRequest } from '../invocation/invocation.ts';
import type { PassJob } from '../record/recorder.ts';

/** The pass that collects its jobs, if several machines share the log. */
export type SharedCollector = Omit<Collector, 'session' | 'openJobs' | 'events'>;

/**
 * The jobs that a pass may run of a tier that other machines run, too: all open ones, whichever machine has queued
 * them. A job belongs to this machine once it has claimed it; nothing is locked before.
 */
export async function collectShared(call: StoreInvocation, collector: SharedCollector): Promise<readonly PassJob[]> {
  const { store, events } = call;
  const { request } = collector;
  await noteMachine(call, request);
  const own = new Set(await queueScripts(call, collector));
  const open = await store.scriptJobs.open(request.tier.name);
  const ours = open.filter((job) => isForHere(collector, job));
  await tellRunning(call, collector, ours);
  await cancelGone(call, collector, open);
  const full = { ...collector, events, session: store, openJobs: ours };
  const due = ours.filter((job) => mayRun(full, job));
  return inOrder(collector, due).flatMap((job) => toPassJob(collector, job, own.has(job.id)));
}

/**
 * Queues a pass's scripts once for each slot, whichever machine is first. Scripts started by hand are queued again.
 *
 * @returns the numbers of the jobs that this machine has queued
 */
export async function queueScripts(
  { store, trigger }: StoreInvocation,
  collector: Omit<SharedCollector, 'workerId'>,
): Promise<readonly number[]> {
  const { request, at, orphans } = collector;
  const scheduledFor = collector.scheduledFor ?? minuteOf(at);
  const chosen = request.scripts
    .filter(({ name }) => !orphans.some(({ script }) => script === name))
    .flatMap((script) => chooseSlot({ ...collector, scheduledFor }, script));
  const scripts = new Map(chosen.map((each) => [each.script.name, each]));
  if (scripts.size === 0) return [];
  const mayAgain = request.kind === 'script' || (trigger === 'manual' && request.isDue !== true);
  const isAgain = ({ script }: Wanted): boolean => request.kind === 'script' || (mayAgain && !hasOwnTimes(script));
  const rows = await store.scriptJobs.ofTier(request.tier.name);
  const wanted = [...scripts.values()].filter((each) =>
    isNew(rows, each.script, isAgain(each) ? null : each.scheduledFor),
  );
  if (wanted.length === 0) return [];
  const jobs = wanted.map((each): NewScriptJob => {
    const job = newJobOf(each, at);
    return isAgain(each) ? { ...job, scheduledFor: null, isAgain: true } : job;
  });
  const ids = await store.transaction(async (session) => {
    const queued = await session.scriptJobs.enqueueOnce(jobs);
    const missed = queued.map((id, index) => ({ id, missed: wanted[index]?.missed ?? null }));
    await cancelMissed(session, missed, at);
    return queued;
  }, 'soon');
  return ids.filter((id) => id !== null);
}

/** Whether a script may be queued for this slot, as far as these rows show; the log decides. */
export function isNew(rows: readonly ScriptJobRow[], script: Script, slot: number | null): boolean {
  const row = rows.find(({ name, host }) => name === script.name && host === hostOf(script));
  if (row === undefined) return true;
  if (row.finished_at === null) return false;
  const last = row.scheduled_for ?? Number.NEGATIVE_INFINITY;
  return slot === null || last < slot || last > slot + DAY_MS;
}

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** A tier without a period is called at the same minute everywhere, on each machine's own clock. */
function minuteOf(at: number): number {
  const ownMs = at - clockOffsetMs();
  return ownMs - (ownMs % MINUTE_MS);
}

function isForHere({ request }: SharedCollector, job: ScriptJobRow): boolean {
  if (request.kind === 'script' && !request.scripts.some(({ name }) => name === job.name)) return false;
  const script = scriptOfJob(request, job);
  return script !== undefined && job.host === hostOf(script);
}

/** Jobs that run on other machines are reported only to a person who asks for a script by name. */
async function tellRunning(
  call: StoreInvocation,
  collector: SharedCollector,
  open: readonly ScriptJobRow[],
): Promise<void> {
  const { request, orphans } = collector;
  const held = open.filter(isHeld);
  if (held.length === 0 && orphans.length === 0) return;
  const claims = held.length === 0 ? [] : await call.store.claims.ofWorkers();
  const hosts = new Map(claims.map(({ job, worker }) => [job.id, worker]));
  const isOrphan = ({ name }: ScriptJobRow) => orphans.some(({ script }) => script === name);
  const elsewhere = held.filter((job) => !isOrphan(job) && hosts.get(job.id)?.host !== machineName());
  const { events, store } = call;
  const here = held.filter((job) => !elsewhere.includes(job));
  await recordRunning({ ...collector, session: store, events, openJobs: here }, here);
  if (request.kind !== 'script') return;
  for (const { id, name } of elsewhere) {
    const worker = hosts.get(id);
    const where = worker === undefined ? '' : ` on ${worker.host} (pid ${worker.pid})`;
    events.emit('deferred', `${name} is still running${where}`);
  }
}

/**
 * Cancels jobs of scripts that no machine has any more, that are now for every machine or no longer so, or whose
 * machine is gone.
 */
async function cancelGone(
  { store }: StoreInvocation,
  { request, at }: SharedCollector,
  open: readonly ScriptJobRow[],
): Promise<void> {
  if (request.kind === 'script') return;
  const changed = open.filter((job) => !isHeld(job) && isOfOtherKind(request.tier.scripts, job));
  await cancel(store, changed, { at, reason: 'its script now runs on other machines' });
  await cancel(store, await findStranded(store, open, at), { at, reason: 'its machine is gone' });
  const known = [...request.tier.scripts, ...(request.tier.elsewhere ?? [])];
  const missing = open.filter((job) => !isHeld(job) && !known.some(({ name }) => name === job.name));
  if (missing.length === 0) return;
  const copies = await machinesOf(store.statements).copies({ names: missing.map(({ name }) => name) });
  const gone = missing.filter(({ name }) => !copies.some((copy) => copy.name === name));
  await cancel(store, gone, { at, reason: 'its script no longer exists' });
}

/**
 * Jobs for a single machine that the log has forgotten. A machine that is still unknown to the log has queued its jobs
 * only lately, so only old jobs count.
 */
async function findStranded(
  { statements }: StoreInvocation['store'],
  open: readonly ScriptJobRow[],
  at: number,
): Promise<readonly ScriptJobRow[]> {
  const waiting = open.filter(
    (job) => !isHeld(job) && job.host !== null && job.host !== machineName() && job.run_at < at - MACHINE_KEPT_MS,
  );
  if (waiting.length === 0) return [];
  const known = new Set((await machinesOf(statements).list()).map(({ host }) => host));
  return waiting.filter(({ host }) => !known.has(host as string));
}

function isOfOtherKind(scripts: readonly Script[], { name, host }: ScriptJobRow): boolean {
  const script = scripts.find((each) => each.name === name);
  if (script === undefined) return false;
  return host === null ? hostOf(script) !== null : host === machineName() && hostOf(script) === null;
}

async function cancel(
  store: StoreInvocation['store'],
  jobs: readonly ScriptJobRow[],
  why: Parameters<typeof cancelWaiting>[2],
): Promise<void> {
  if (jobs.length === 0) return;
  await store.transaction(async (session) => {
    // Another machine may have begun one since.
    const waiting = new Set((await session.scriptJobs.open()).filter((job) => !isHeld(job)).map(({ id }) => id));
    const left = jobs.filter(({ id }) => waiting.has(id));
    await cancelWaiting(session, left, why);
  });
}

/** Puts jobs that an earlier slot has left first, then this slot's jobs in the order of their files. */
function inOrder(
  { request, scheduledFor, slots }: SharedCollector,
  jobs: readonly ScriptJobRow[],
): readonly ScriptJobRow[] {
  const places = new Map(request.tier.scripts.map(({ name }, index) => [name, index]));
  const slotOf = ({ name }: ScriptJobRow) => slots?.get(name)?.scheduledFor ?? scheduledFor;
  const isNow = (job: ScriptJobRow): boolean => job.state === 'queued' && job.scheduled_for === slotOf(job);
  const placeOf = (job: ScriptJobRow): number => (isNow(job) ? (places.get(job.name) ?? 0) : -1);
  return jobs.toSorted((one, other) => placeOf(one) - placeOf(other));
}

function toPassJob({ request, ...collector }: SharedCollector, job: ScriptJobRow, isOwn: boolean): PassJob[] {
  const script = scriptOfJob(request, job);
  if (script === undefined) return [];
  const { id, attempts, scheduled_for } = job;
  const scheduledFor = isOwn && !hasOwnTimes(script) ? (collector.scheduledFor ?? scheduled_for) : scheduled_for;
  return [{ id, script, attempt: attempts + 1, seen: { attempts, scheduled_for }, scheduledFor }];
}

/** Informs the other machines of this one, and of its scripts of a tier. */
async function noteMachine({ store, runner }: StoreInvocation, { tier }: TierRequest): Promise<void> {
  const host = machineName();
  const machines = machinesOf(store.statements);
  await machines.note({
    ...{ host, seenAt: runner.now(), clockOffsetMs: clockOffsetMs(), runnerVersion: runner.version },
  });
  const copies = new Map([...tier.scripts, ...(tier.elsewhere ?? [])].map((script) => [script.name, toCopy(script)]));
  await machines.noteCopies(host, tier.name, [...copies.values()]);
}

function toCopy({ name, contentHash, options }: Script) {
  return { name, contentHash, hostPattern: options.host?.join(' ') ?? null };
}
