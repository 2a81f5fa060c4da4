import type { Script } from '../../discovery/script.ts';
import {
  cancelJobs,
  deferJobs,
  enqueueScripts,
  isDue,
  type OpenJob,
} from '../../queue/add/scripts.ts';
import { findPause, type Pause } from '../../queue/pauses.ts';
import type { Orphan } from '../../recovery/reconcile.ts';
import { recordActivity } from '../../store/events.ts';
import type { WorkerKind } from '../../store/schema.ts';
import type { Database } from '../../store/store.ts';
import type { WorkerEvents } from '../invocation/events.ts';
import type { TierRequest } from '../invocation/invocation.ts';
import type { StopRequest } from '../invocation/stop.ts';
import type { PassJob } from '../record/run-recorder.ts';

/** For whom jobs are collected. */
export interface Collector {
  readonly db: Database;
  readonly events: WorkerEvents;
  readonly workerId: number;
  readonly request: TierRequest;
  readonly scheduledFor: number | null;
  readonly at: number;
  readonly pauses: readonly Pause[];
  /** The tier's, in the order they are to be run. */
  readonly openJobs: readonly OpenJob[];
  /** Runs that outlived their runner. */
  readonly orphans: readonly Orphan[];
}

/**
 * What a pass is to run: first what an earlier one left open, then each script that has no open job.
 * So no script is ever twice under way, and what was deferred is first in line.
 */
export async function collectJobs(collector: Collector): Promise<readonly PassJob[]> {
  const open = chooseOpenJobs(collector);
  const due = open.filter((job) => mayRun(collector, job));
  const left = due.flatMap((job) => toPassJob(collector.request, job) ?? []);
  await tellOfRunning(collector, open);
  await cancelGone(collector, due);
  return [...left, ...(await addJobs(collector, open))];
}

/** By hand only that one script is run, whatever else waits. */
function chooseOpenJobs({ openJobs, request }: Collector): readonly OpenJob[] {
  if (request.kind !== 'script') return openJobs;
  const wanted = new Set(request.scripts.map(({ name }) => name));
  return openJobs.filter(({ name }) => wanted.has(name));
}

/** Who starts a script by hand waits neither for the time of its next try nor for the end of a pause. */
function mayRun({ request, at, pauses, orphans }: Collector, job: OpenJob): boolean {
  if (job.state === 'running' || orphans.some(({ script }) => script === job.name)) return false;
  if (request.kind === 'script') return true;
  return isDue(job, at) && findPause(pauses, job.name) === null;
}

function toPassJob({ tier }: TierRequest, { id, name, scheduledFor }: OpenJob): PassJob | null {
  const script = tier.scripts.find((each) => each.name === name);
  return script === undefined ? null : { id, script, scheduledFor };
}

/** What still runs is not started a second time; who finds it ended records that. */
async function tellOfRunning(
  { db, events, workerId, at, orphans, request }: Collector,
  open: readonly OpenJob[],
): Promise<void> {
  const held = open.filter((job) => job.state === 'running').map(({ id, name }) => ({ id, name }));
  const unlogged = orphans
    .filter(({ script, jobId }) => jobId === null && isOf(request, script))
    .map(({ script: name }) => ({ id: null, name }));
  for (const { id, name } of [...held, ...unlogged]) {
    const detail = describeRunning(
      name,
      orphans.find(({ script }) => script === name),
    );
    await recordActivity(db, { at, event: 'job-left-running', workerId, jobId: id, detail });
    events.emit('left', detail);
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

async function cancelGone(
  { db, request, workerId, at }: Collector,
  due: readonly OpenJob[],
): Promise<void> {
  const gone = due.filter((job) => toPassJob(request, job) === null).map(({ id }) => id);
  await cancelJobs(db, gone, { workerId, at, reason: 'its script no longer exists' });
}

async function addJobs(
  collector: Collector,
  open: readonly OpenJob[],
): Promise<readonly PassJob[]> {
  const { db, request, pauses, orphans } = collector;
  const taken = new Set([...open.map(({ name }) => name), ...orphans.map(({ script }) => script)]);
  const isWanted = ({ name }: Script): boolean => {
    if (taken.has(name)) return false;
    // Two files of one name are both refused: that is told once.
    taken.add(name);
    return request.kind === 'script' || findPause(pauses, name) === null;
  };
  return await enqueueScripts(db, request.scripts.filter(isWanted), collector);
}

interface Leaving {
  readonly workerId: number;
  readonly at: number;
  readonly stop: StopRequest;
  readonly kind: WorkerKind;
}

/** What a pass did not start: the next pass of any tier does, or nobody does. */
export async function leaveRest(
  db: Database,
  rest: readonly PassJob[],
  { workerId, at, stop, kind }: Leaving,
): Promise<void> {
  const ids = rest.flatMap(({ id }) => id ?? []);
  const why = { workerId, at, reason: stop.reason ?? 'its pass broke off' };
  // What an earlier pass has left nobody meant who interrupts this one.
  if (stop.rest === 'cancel' && kind !== 'leftover') await cancelJobs(db, ids, why);
  else await deferJobs(db, ids, why);
}
