import {
  addImportedJobs,
  type ImportedJob,
  type KnownJobs,
  readImportedJobs,
} from '../queue/add/imported.ts';
import { QueueError } from '../queue/errors.ts';
import { isEnded } from '../queue/read/list.ts';
import type { Store } from '../store/contract.ts';
import type { BadJob, ForeignQueue, GoodJob } from './foreign-queue.ts';
import { type ImportReport, type ImportStep, startReport } from './import-report.ts';

export interface Importing {
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** Nothing is written. */
  readonly isDryRun: boolean;
  /** Jobs that cannot be taken over are left out; otherwise one of them keeps all others back. */
  readonly skipBad: boolean;
}

/** Takes over the jobs of a file that have not been taken over before, all or none. */
export async function importJobs(
  store: Store | null,
  queue: ForeignQueue,
  { at, isDryRun, skipBad }: Importing,
): Promise<ImportReport> {
  const report = startReport(queue, isDryRun);
  // Before the transaction: as long as that lasts, nobody else can write.
  const known = store === null ? new Map() : await readImportedJobs(store);
  const bad = findBad(queue, known);
  if (bad.length > 0 && !skipBad) return report.refused(bad);
  // Read again with all that is bad known, as whom a parent waits for depends on it.
  const badIds = new Set(bad.map(({ id }) => id));
  function* choose(knownNow: KnownJobs): Iterable<ImportedJob> {
    for (const step of planImport(queue, knownNow, badIds)) {
      if ('problem' in step && !badIds.has(step.id)) throw changedMeanwhile(step);
      report.add(step);
      if ('key' in step) yield step;
    }
  }
  if (isDryRun || store === null) Array.from(choose(known), () => null);
  else await store.transaction((session) => addImportedJobs(session, at, choose));
  return report.done();
}

function findBad(queue: ForeignQueue, known: KnownJobs): BadJob[] {
  const ids = new Set<string>();
  const bad: BadJob[] = [];
  for (const step of planImport(queue, known, ids)) {
    if (!('problem' in step)) continue;
    ids.add(step.id);
    bad.push(step);
  }
  return bad;
}

/** Each job's turn, in the order of the file. */
function* planImport(
  queue: ForeignQueue,
  known: KnownJobs,
  bad: ReadonlySet<string>,
): Iterable<ImportStep> {
  for (const job of queue.read(bad)) {
    if (!('key' in job)) yield job;
    else yield known.has(job.key) ? { known: true } : planJob(job, known);
  }
}

/** A job whose parent was taken over before depends on what has become of that since. */
function planJob(job: GoodJob, known: KnownJobs): GoodJob | BadJob {
  const parent = job.parentKey === null ? undefined : known.get(job.parentKey);
  if (parent === undefined || (parent !== null && isEnded(job.state))) return job;
  if (parent === null || isEnded(parent.state)) {
    const problem = `its parent ${job.parent} was imported before, and has ended here since`;
    return { id: job.id, problem };
  }
  return { ...job, state: parent.state === 'paused' ? 'queued' : 'paused' };
}

function changedMeanwhile({ id, problem }: BadJob): Error {
  return new QueueError(
    'wrong-state',
    `Nothing was imported, because the queue has changed meanwhile (job ${id}: ${problem}); try again.`,
  );
}
