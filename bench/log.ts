import { closeSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import type { Bench, Part } from './bench.ts';
import { ask } from './queue/contender.ts';
import { handlers, makeRoot, scriptsOf, timeRunner } from './root.ts';

/** What the log takes on the disk, and what is written of it. */
export const logParts: Readonly<Record<string, Part>> = { bytes, pages };

const SCRIPTS = 20;
const PASSES = 100;
const JOBS = 5_000;

/** By table and index, what comes on top with further runs and jobs, after some that do not count. */
async function bytes(bench: Bench): Promise<void> {
  const passes = bench.scaled(PASSES);
  const tier = makeRoot(bench.disk, scriptsOf('15min', SCRIPTS, ''));
  const ofRun = await growthOf(tier, passes * SCRIPTS, async (isWarmUp) => {
    for (let pass = 0; pass < (isWarmUp ? 2 : passes); pass += 1) await timeRunner(tier, ['15min']);
  });
  const jobs = bench.scaled(JOBS);
  const queue = makeRoot(bench.disk, handlers);
  const ofJob = await growthOf(queue, jobs, async (isWarmUp) => {
    await ask('ours', 'bulk-bare', queue, isWarmUp ? 10 : jobs);
    await timeRunner(queue, ['work']);
  });
  const names = [...new Set([...ofRun.keys(), ...ofJob.keys()])].sort();
  bench.table(
    ['bytes, in whole pages', 'a script’s run', 'a job with its run'],
    names.map((name) => [name, ...[ofRun, ofJob].map((each) => (each.get(name) ?? 0).toFixed(1))]),
  );
  bench.atMost('bytes of the log for a script’s run', sumOf(ofRun), 160);
  bench.atMost('bytes of the log for a queue job with its run', sumOf(ofJob), 250);
}

type Sizes = ReadonlyMap<string, number>;

async function growthOf(root: string, count: number, grow: (isWarmUp: boolean) => Promise<void>): Promise<Sizes> {
  await grow(true);
  const before = sizesOf(root);
  await grow(false);
  const each = [...sizesOf(root)].map(([name, size]) => [name, (size - (before.get(name) ?? 0)) / count] as const);
  return new Map(each.filter(([, size]) => size !== 0));
}

function sizesOf(root: string): Sizes {
  const log = openLog(root);
  const rows = log.prepare('select name, sum(pgsize) from dbstat group by name').raw().all();
  log.close();
  return new Map(rows as [string, number][]);
}

function sumOf(sizes: Sizes): number {
  return [...sizes.values()].reduce((sum, size) => sum + size, 0);
}

/** In a log with 8,000 ended and 3,000 waiting jobs. */
async function pages(bench: Bench): Promise<void> {
  const root = makeRoot(bench.disk, handlers);
  await ask('ours', 'bulk', root, bench.scaled(8_000));
  await timeRunner(root, ['work']);
  await ask('ours', 'bulk', root, bench.scaled(3_000));
  const count = bench.scaled(1_000);
  const add = await writesOf(root, () => ask('ours', 'add', root, count));
  const work = await writesOf(root, () => timeRunner(root, ['work', '--max-jobs', String(count)]));
  const perJob = ({ pages }: Writes) => pages / count;
  for (const [what, each] of Object.entries({
    'an add': add,
    'an end with the next claim': work,
  })) {
    const perCommit = each.pages / each.commits;
    bench.say(
      `${what}: ${perJob(each).toFixed(1)} pages; ${(each.commits / count).toFixed(2)} commits of ${perCommit.toFixed(1)} pages each`,
    );
  }
  bench.atMost('pages written for an add', perJob(add), 3.5);
  bench.atMost('pages written for an end with the next claim', perJob(work), 8);
}

interface Writes {
  readonly pages: number;
  readonly commits: number;
}

/** A reader of the old state keeps the WAL from being begun anew: it then holds all that is written. */
async function writesOf(root: string, write: () => Promise<unknown>): Promise<Writes> {
  const log = openLog(root);
  log.pragma('wal_checkpoint(truncate)');
  log.exec('begin');
  log.prepare('select count(*) from sqlite_schema').get();
  await write();
  const writes = countFrames(join(root, '.runner/activity.db-wal'));
  log.close();
  return writes;
}

const WAL_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;

/** The last frame of a commit, and no other, says how many pages the file has (sqlite.org/fileformat2.html#walformat). */
function countFrames(path: string): Writes {
  const file = openSync(path, 'r');
  const header = Buffer.alloc(WAL_HEADER_BYTES);
  readSync(file, header, 0, header.length, 0);
  const frameBytes = FRAME_HEADER_BYTES + header.readUInt32BE(8);
  const frame = Buffer.alloc(FRAME_HEADER_BYTES);
  let [pages, commits] = [0, 0];
  for (let at = header.length; readSync(file, frame, 0, frame.length, at) > 0; at += frameBytes) {
    pages += 1;
    if (frame.readUInt32BE(4) > 0) commits += 1;
  }
  closeSync(file);
  return { pages, commits };
}

function openLog(root: string): Sqlite.Database {
  return new Sqlite(join(root, '.runner/activity.db'));
}
