import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { sql } from 'kysely';
import type { StateFolder } from '../place/state-folder.ts';
import { isFailure, type JobState, outcomes } from './schema.ts';
import { inPages } from './sqlite/queries.ts';
import type { Database } from './store.ts';

/** What one step of pruning took out. */
export interface DeletedJobs {
  readonly count: number;
  /** Names of output files whose runs are gone. */
  readonly outputFiles: readonly string[];
}

/** Deletes the longest ended jobs in these states, with their runs. */
export async function deleteEndedJobs(
  db: Database,
  states: readonly JobState[],
  endedBefore: number,
  limit: number,
): Promise<DeletedJobs> {
  const ended = db
    .selectFrom('jobs')
    .select('id')
    .where('state', 'in', states)
    .where('finished_at', '<', endedBefore)
    .where(isTold)
    .orderBy('finished_at')
    .limit(limit);
  return deleteJobs(db, await ended.execute());
}

/** Deletes the oldest ended jobs, whatever their state, with their runs. */
export async function deleteOldestJobs(db: Database, limit: number): Promise<DeletedJobs> {
  const oldest = db
    .selectFrom('jobs')
    .select('id')
    .where('finished_at', 'is not', null)
    .where(isTold)
    .orderBy('id')
    .limit(limit);
  return deleteJobs(db, await oldest.execute());
}

/** A parent that has not ended is still to be told of its children; one that repeats never ends. */
const isTold = sql<boolean>`(parent_id is null or is_told = 1 or not exists (
  select 1 from jobs parent where parent.id = jobs.parent_id and parent.finished_at is null))`;

/**
 * A repeating job never ends, but its runs grow old: deletes the oldest of each such job, those that
 * failed and all others each by their own age.
 */
export async function deleteRunsOfRepeating(
  db: Database,
  { succeededBefore, failedBefore }: { succeededBefore: number; failedBefore: number },
  limit: number,
): Promise<DeletedJobs> {
  const outputFiles: string[] = [];
  let count = 0;
  for (const { id, name } of await selectRepeating(db)) {
    const old = await db
      .selectFrom('runs')
      .select(['id', 'output_file'])
      .where('script', '=', `queue/${name}`)
      .where('job_id', '=', id)
      .where(({ or, and, eb }) =>
        or([
          and([
            eb('outcome', 'in', ['succeeded', 'released']),
            eb('started_at', '<', succeededBefore),
          ]),
          and([
            eb('outcome', 'in', outcomes.filter(isFailure)),
            eb('started_at', '<', failedBefore),
          ]),
        ]),
      )
      .where('started_at', '<', Math.max(succeededBefore, failedBefore))
      .orderBy('started_at')
      .limit(limit)
      .execute();
    if (old.length === 0) continue;
    const ids = old.map((run) => run.id);
    await db.deleteFrom('runs').where('id', 'in', ids).execute();
    outputFiles.push(...old.flatMap(({ output_file }) => output_file ?? []));
    count += old.length;
  }
  return { count, outputFiles };
}

async function selectRepeating(db: Database) {
  return await db
    .selectFrom('jobs')
    .select(['id', 'name'])
    .where('repeat', 'is not', null)
    .where('finished_at', 'is', null)
    .execute();
}

/** How many it deleted. */
export async function deleteOldActivity(
  db: Database,
  before: number,
  limit: number,
): Promise<number> {
  const old = db.selectFrom('activity').select('id').where('at', '<', before).limit(limit);
  const { numDeletedRows } = await db
    .deleteFrom('activity')
    .where('id', 'in', old)
    .executeTakeFirst();
  return Number(numDeletedRows);
}

/** A worker stays as long as one of its runs does. How many it deleted. */
export async function deleteOldWorkers(
  db: Database,
  before: number,
  limit: number,
): Promise<number> {
  const old = db
    .selectFrom('workers')
    .select('id')
    .where('finished_at', '<', before)
    .where(({ not, exists, selectFrom }) =>
      not(exists(selectFrom('runs').select('runs.id').whereRef('worker_id', '=', 'workers.id'))),
    )
    .limit(limit);
  const { numDeletedRows } = await db
    .deleteFrom('workers')
    .where('id', 'in', old)
    .executeTakeFirst();
  return Number(numDeletedRows);
}

/** Bytes of the log in use, output files included; free pages inside the file do not count. */
export async function measureLog(db: Database): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select (page_count - freelist_count) * page_size
      + (select coalesce(sum(output_file_bytes), 0) from runs where output_file is not null) as bytes
    from pragma_page_count, pragma_freelist_count, pragma_page_size`.execute(db);
  return rows[0]?.bytes ?? 0;
}

export async function countStoredJobs(db: Database): Promise<number> {
  const { rows } = await sql<{ jobs: number }>`select count(*) as jobs from jobs`.execute(db);
  return rows[0]?.jobs ?? 0;
}

/** Deletes jobs with their runs. */
export async function deleteJobs(
  db: Database,
  jobs: readonly { readonly id: number }[],
): Promise<DeletedJobs> {
  const outputFiles: string[] = [];
  for (const page of inPages(jobs)) {
    const ids = page.map(({ id }) => id);
    const files = await db
      .selectFrom('runs')
      .select('output_file')
      .where('job_id', 'in', ids)
      .where('output_file', 'is not', null)
      .execute();
    await db.deleteFrom('jobs').where('id', 'in', ids).execute();
    outputFiles.push(...files.flatMap(({ output_file }) => output_file ?? []));
  }
  return { count: jobs.length, outputFiles };
}

/**
 * Removes kept output once its runs are in the log no more: a file without its row is clutter, a row
 * without its file is a lie. What cannot be removed is no more than clutter and keeps nobody from going on.
 */
export function removeOutput({ output }: StateFolder, files: readonly string[]): void {
  for (const file of files) {
    try {
      rmSync(join(output, file), { force: true });
    } catch {}
  }
}
