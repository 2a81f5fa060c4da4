import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { sql } from 'kysely';
import { listNames } from '../config/list-names.ts';
import type { StateFolder } from '../config/state-folder.ts';
import { TRY_PREFIX } from '../config/usable-state-folder.ts';
import { findRunProcess } from '../execution/find-run-process.ts';
import { removeRunFiles, runFilesOf } from '../execution/run-files.ts';
import { sweepWarmFiles } from '../execution/sweep-warm-files.ts';
import type { Database } from '../store/open-store.ts';
import { hasSpool } from '../store/spool/spool-files.ts';
import type { Runner } from './runner.ts';

type Place = Pick<Runner, 'root' | 'state'>;

/** The number or name of the run that a file is of: `12.log`, `12.log.gz`, `12.json.4711`, `12`. */
const runName = /^(\d+|[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})(?:\.|$)/;

/** Removes files of runs that have ended: whoever was to do so died before. */
export async function sweepRunFiles(db: Database, { root, state }: Place): Promise<void> {
  // Listed first: the log, or the spool, knows a run before it has files.
  const names = [state.output, state.results, state.temporary].flatMap(listNames);
  const runs = new Set(names.flatMap((name) => runName.exec(name)?.[1] ?? []));
  const open = await selectOpenRuns(db);
  const isSpooled = hasSpool(state);
  for (const run of runs) {
    const isOpen = /^\d+$/.test(run) ? open.has(run) : isSpooled;
    // One that a log set aside knows may still go on.
    if (!isOpen && findRunProcess(root, run) === null) removeRunFiles(runFilesOf(state, run));
  }
  for (const name of names.filter((each) => each.startsWith(TRY_PREFIX))) {
    rmSync(join(state.temporary, name), { force: true });
  }
  await sweepKeptOutput(db, state, names, open);
  sweepWarmFiles(root, state);
}

async function selectOpenRuns(db: Database): Promise<ReadonlySet<string>> {
  const rows = await db
    .selectFrom('runs')
    .select('id')
    .where('outcome', '=', sql.lit('running' as const))
    .execute();
  return new Set(rows.map(({ id }) => String(id)));
}

/** Compressed output that no run names: its run was deleted, or is recorded without it. */
async function sweepKeptOutput(
  db: Database,
  { output }: StateFolder,
  names: readonly string[],
  open: ReadonlySet<string>,
): Promise<void> {
  const files = names.filter((name) => name.endsWith('.gz'));
  const named = await db
    .selectFrom('runs')
    .select('output_file')
    .where('output_file', 'is not', null)
    .execute();
  const kept = new Set(named.map(({ output_file }) => output_file));
  for (const file of files) {
    const run = runName.exec(file)?.[1];
    if (!kept.has(file) && run !== undefined && /^\d+$/.test(run) && !open.has(run)) {
      rmSync(join(output, file), { force: true });
    }
  }
}
