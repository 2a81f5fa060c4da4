import type { Database } from '../../store/database.ts';
import { gatherImport, type ImportReport } from './import-report.ts';
import type { BadJob, ForeignQueue } from './imported-job.ts';
import { ImportWriter } from './insert-imported.ts';
import { type KnownJobs, readKnownJobs } from './known-jobs.ts';
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
  if (importing.isDryRun) return await run(db, queue, importing, null);
  return await db.transaction().execute(async (transaction) => {
    const writer = new ImportWriter(transaction, importing.at, queue.isParent);
    return await run(transaction, queue, importing, writer);
  });
}

async function run(
  db: Database,
  queue: ForeignQueue,
  { isDryRun, skipBad }: Importing,
  writer: ImportWriter | null,
): Promise<ImportReport> {
  const known = await readKnownJobs(db);
  const bad = findBad(queue, known);
  const gathered = gatherImport(queue, isDryRun);
  if (bad.length > 0 && !skipBad) return gathered.refuse(bad);
  // With all that is bad known, as whom a parent waits for depends on it.
  for (const step of planImport(queue, known, new Set(bad.map(({ id }) => id)))) {
    gathered.note(step);
    if ('job' in step) await writer?.add(step);
  }
  await writer?.flush();
  return gathered.report();
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
