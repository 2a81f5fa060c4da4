import type { Database } from '../../store/database.ts';
import { QueueError } from '../queue-error.ts';
import { gatherImport, type ImportReport } from './import-report.ts';
import type { BadJob, ForeignQueue } from './imported-job.ts';
import { ImportWriter } from './insert-imported.ts';
import { readKnownJobs } from './known-jobs.ts';
import { planImport } from './plan-import.ts';

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
  db: Database,
  queue: ForeignQueue,
  importing: Importing,
): Promise<ImportReport> {
  // Before the transaction: as long as that lasts, nobody else can write.
  const bad = await findBad(db, queue);
  if (bad.length > 0 && !importing.skipBad) {
    return gatherImport(queue, importing.isDryRun).refuse(bad);
  }
  const badIds = new Set(bad.map(({ id }) => id));
  if (importing.isDryRun) return await takeOver(db, queue, badIds, null);
  return await db.transaction().execute(async (transaction) => {
    const writer = new ImportWriter(transaction, importing.at, queue.isParent);
    return await takeOver(transaction, queue, badIds, writer);
  });
}

async function findBad(db: Database, queue: ForeignQueue): Promise<BadJob[]> {
  const known = await readKnownJobs(db);
  const ids = new Set<string>();
  const bad: BadJob[] = [];
  for (const step of planImport(queue, known, ids)) {
    if (!('problem' in step)) continue;
    ids.add(step.id);
    bad.push(step);
  }
  return bad;
}

/**
 * With all that is bad known, as whom a parent waits for depends on it.
 *
 * @param writer null: only the report is wanted
 */
async function takeOver(
  db: Database,
  queue: ForeignQueue,
  bad: ReadonlySet<string>,
  writer: ImportWriter | null,
): Promise<ImportReport> {
  const gathered = gatherImport(queue, writer === null);
  // Asked anew: another import may have been quicker.
  const known = await readKnownJobs(db);
  for (const step of planImport(queue, known, bad)) {
    if ('problem' in step && !bad.has(step.id)) throw changedMeanwhile(step);
    gathered.note(step);
    if ('job' in step) await writer?.add(step);
  }
  await writer?.flush();
  return gathered.report();
}

function changedMeanwhile({ id, problem }: BadJob): Error {
  return new QueueError(
    'wrong-state',
    `Nothing was taken over, as the queue has changed meanwhile (job ${id}: ${problem}); try again.`,
  );
}
