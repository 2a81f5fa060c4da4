import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import type { openQueue as OpenQueue } from '../../src/index.ts';
import { dataOf, instantMs, pause, readTask, tell, timed } from './tell.ts';

/** The package as it is built. */
const built = new URL('../../dist/index.mjs', import.meta.url).href;
const { openQueue } = (await import(built)) as { readonly openQueue: typeof OpenQueue };
const { verb, folder, count } = readTask();
const queue = await openQueue({ root: folder });

const jobs = (name: string) =>
  Array.from({ length: count }, (_, index) => ({ name, data: dataOf(index) }));

async function add(): Promise<void> {
  for (const { name, data } of jobs('no-op')) await queue.add(name, data);
}

/** As PHP or sqlite3 would: what lies there already is no part of what is measured. */
function fill(columns: string, values: string): void {
  const db = new Sqlite(join(folder, '.runner/activity.db'));
  db.pragma('synchronous = off');
  db.exec(`insert into jobs (name, data, ${columns})
    with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${count})
    select 'no-op', '{"to":"a@example.org"}', ${values} from numbers`);
  db.pragma('wal_checkpoint(truncate)');
  db.close();
}

interface Wakes {
  readonly sinceCall: readonly number[];
  readonly sinceAdded: readonly number[];
}

/** How long after each `add` was called, and had returned, its handler began in another process. */
async function wake(): Promise<Wakes> {
  const added: { readonly id: number; readonly calledAt: number; readonly addedAt: number }[] = [];
  for (let index = 0; index < count; index += 1) {
    await pause();
    const calledAt = instantMs();
    const id = await queue.add('stamp');
    added.push({ id, calledAt, addedAt: instantMs() });
  }
  const wakes: { readonly sinceCall: number; readonly sinceAdded: number }[] = [];
  for (const { id, calledAt, addedAt } of added) {
    const startedAt = await readStart(id);
    wakes.push({ sinceCall: startedAt - calledAt, sinceAdded: startedAt - addedAt });
  }
  return {
    sinceCall: wakes.map(({ sinceCall }) => sinceCall),
    sinceAdded: wakes.map(({ sinceAdded }) => sinceAdded),
  };
}

async function readStart(id: number): Promise<number> {
  for (;;) {
    const job = await queue.get<unknown, number>(id);
    if (job?.state === 'finished') return Number(job.result);
    if (job?.state === 'failed') throw new Error(job.reason ?? 'it failed');
    await pause();
  }
}

async function countFinished(): Promise<number> {
  return (await queue.count('*')).reduce((sum, { finished }) => sum + finished, 0);
}

const verbs: Readonly<Record<string, () => Promise<unknown>>> = {
  add,
  bulk: () => queue.addMany(jobs('no-op')),
  'bulk-alone': () => queue.addMany(jobs('alone')),
  'fill-due': async () => fill('priority', '500'),
  'fill-delayed': async () => fill('run_at', `${Date.now() + 86_400_000} + n`),
};
const settings = 'journal wal, synchronous full, by the store';
if (verb === 'wake') {
  const { sinceCall, sinceAdded } = await wake();
  tell({ ms: 0, latenciesMs: [...sinceCall, ...sinceAdded] });
} else if (verb === 'finished') tell({ ms: await countFinished() });
else tell({ ms: await timed(async () => verbs[verb]?.()), settings });
await queue.close();
