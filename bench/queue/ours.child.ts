import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import Sqlite from 'better-sqlite3';
import type { openQueue as OpenQueue } from '../../src/index.ts';
import { allData, report, reportTimed, task } from './child.ts';
import type { Wait } from './contender.ts';

/** As on a slow disk; what SQLite syncs by itself, at a checkpoint, is as fast as ever. */
function slowSyncs(ms: number): void {
  const { fdatasync } = fs;
  const slow = (fd: number, callback: fs.NoParamCallback): void =>
    fdatasync(fd, (error) => void setTimeout(callback, ms, error));
  Object.assign(fs, { fdatasync: slow });
  syncBuiltinESMExports();
}

if (process.env.BENCH_SYNC_MS !== undefined) slowSyncs(Number(process.env.BENCH_SYNC_MS));

/** The package as it is built. */
const built = new URL('../../dist/index.mjs', import.meta.url).href;
const { openQueue } = (await import(built)) as { readonly openQueue: typeof OpenQueue };
const { folder, count } = task;
const queue = await openQueue({ root: folder });

async function add(): Promise<void> {
  for (const data of allData()) await queue.add('no-op', data);
}

async function addAtOnce(): Promise<void> {
  // What is compiled and prepared with the first one is not measured.
  await queue.add('no-op', {});
  const delays = monitorEventLoopDelay({ resolution: 1 });
  await new Promise((resolve) => setTimeout(resolve, 50));
  delays.enable();
  const startMs = performance.now();
  await Promise.all(allData().map((data) => queue.add('no-op', data)));
  const ms = performance.now() - startMs;
  delays.disable();
  report({ ms, heldMs: { p99: delays.percentile(99) / 1e6, longest: delays.max / 1e6 } });
}

const tomorrowMs = Date.now() + 86_400_000;

/** Most are for handlers of `mail/`; a tenth is not due, and some wait for a handler that nobody calls. */
const mixedNames = [...Array(6).fill('mail/welcome'), 'mail/invoice', 'import/orders', 'report/pdf', 'later/reminder'];

function addMixed(): Promise<unknown> {
  const nameOf = (index: number): string => mixedNames[index % mixedNames.length];
  return queue.addMany(
    allData().map((data, index) => ({
      ...{ name: nameOf(index), data, retries: 0 },
      ...(nameOf(index).startsWith('later/') && { runAt: new Date(tomorrowMs + index * 1000) }),
    })),
  );
}

const addMany = (name: string) => queue.addMany(allData().map((data) => ({ name, data })));

/** As PHP or sqlite3 would: what lies there already is no part of what is measured. `n` counts from 1. */
function fill(name: string, columns: string, values: string): void {
  const db = new Sqlite(join(folder, '.runner/activity.db'));
  db.pragma('synchronous = off');
  db.exec(`insert into jobs (name, ${columns})
    with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ${count})
    select '${name}', ${values} from numbers`);
  db.pragma('wal_checkpoint(truncate)');
  db.close();
}

/** How long after each `add` its handler began in another process. */
async function wake(): Promise<void> {
  const added: { readonly id: number; readonly calledAt: number; readonly addedAt: number }[] = [];
  for (let index = 0; index < count; index += 1) {
    await pause();
    const calledAt = instantMs();
    const id = await queue.add('stamp');
    added.push({ id, calledAt, addedAt: instantMs() });
  }
  const waits: Wait[] = [];
  for (const { id, calledAt, addedAt } of added) {
    const startedAt = await readStart(id);
    waits.push({ sinceCallMs: startedAt - calledAt, sinceAddedMs: startedAt - addedAt });
  }
  report({ ms: 0, waits });
}

async function readStart(id: number): Promise<number> {
  for (;;) {
    const job = await queue.get<unknown, number>(id);
    if (job?.state === 'finished') return Number(job.result);
    if (job?.state === 'failed') throw new Error(job.reason ?? 'it failed');
    await pause();
  }
}

/** The same in every process, finer than a millisecond. */
function instantMs(): number {
  return performance.timeOrigin + performance.now();
}

/** So that a wait is really a wait, and no rhythm is met. */
function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 15 + Math.random() * 30));
}

/** What was worked off must be in the log as finished, or its figure would mean nothing. */
async function assertFinished(): Promise<void> {
  const finished = (await queue.count('*')).reduce((sum, counts) => sum + counts.finished, 0);
  if (finished !== count) throw new Error(`${finished} of ${count} jobs are finished`);
}

const verbs: Readonly<Record<string, () => unknown>> = {
  add,
  bulk: () => addMany('no-op'),
  'bulk-bare': () => queue.addMany(allData().map(() => ({ name: 'no-op' }))),
  'bulk-mixed': addMixed,
  'bulk-alone': () => addMany('alone'),
  'fill-due': () => fill('no-op', 'priority', '500'),
  'fill-priorities': () => fill('no-op', 'priority', 'n % 10000'),
  'fill-delayed': () => fill('no-op', 'run_at', `${tomorrowMs} + n`),
  'fill-delayed-priorities': () => fill('no-op', 'run_at, priority', `${tomorrowMs} + n, n % 10000`),
  'fill-last': () => fill('other', 'priority', '-1'),
  'assert-finished': assertFinished,
};
if (task.verb === 'wake') await wake();
else if (task.verb === 'add-at-once') await addAtOnce();
else await reportTimed(verbs, 'WAL; an add waits for a sync of it, which adds at once share');
await queue.close();
