import { execFile } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Bench, Part } from './bench.ts';
import { median } from './measure.ts';
import { installPeers } from './peers.ts';
import type { ScaleResult, ScaleTask } from './scale/child.ts';
import { type Postgres, startPostgres } from './scale/postgres.ts';

export const scaleParts: Readonly<Record<string, Part>> = { claims, crowded };

const CONNECTIONS = [1, 4, 16, 64];
const SINGLE = 1;
const BATCH = 500;

const OURS = 'ours';
const PGBOSS = 'pgboss';
const GRAPHILE = 'graphile';
type Contender = typeof OURS | typeof PGBOSS | typeof GRAPHILE;

/** Jobs that are claimed and finished by no-op handlers in the contender's own process, on one PostgreSQL. */
async function claims(bench: Bench): Promise<void> {
  const peers = installPeers();
  if (peers === null) {
    bench.notMeasured('claims beside pg-boss and graphile-worker', '', 'the peers could not be installed');
    return;
  }
  await withPostgres(bench, async (server) => {
    for (const batch of [SINGLE, BATCH]) {
      const rows: string[][] = [];
      for (const connections of bench.isShort ? [4] : CONNECTIONS)
        rows.push(await compare(bench, server, peers, { batch, connections }));
      bench.say(`\n${batch === SINGLE ? 'one job at a time' : `up to ${batch} at a time`}, 10,000 waiting, jobs/s`);
      bench.table(['connections', 'ours', 'p99 ms', 'pg-boss', 'p99 ms', 'graphile-worker'], rows);
    }
  });
}

type Mode = Pick<ScaleTask, 'batch' | 'connections'>;

async function compare(bench: Bench, server: Postgres, peers: string, mode: Mode): Promise<string[]> {
  const jobs = bench.scaled(mode.batch === SINGLE ? 10_000 : 60_000);
  const found: Record<Contender, ScaleResult[]> = { [OURS]: [], [PGBOSS]: [], [GRAPHILE]: [] };
  for (let round = 0; round < bench.rounds(3); round += 1) {
    for (const name of [OURS, PGBOSS, GRAPHILE] as const) {
      found[name].push(await measure(server, name, { ...mode, fill: jobs, jobs, peers }));
    }
  }
  const perSecond = (name: Contender) => (jobs * 1000) / median(found[name].map(({ ms }) => ms));
  const p99 = (name: Contender) => median(found[name].map(({ p99Ms }) => p99Ms ?? Number.NaN)).toFixed(1);
  const [ours, boss, graphile] = [perSecond(OURS), perSecond(PGBOSS), perSecond(GRAPHILE)];
  const what = `${mode.batch === SINGLE ? 'single' : `batch ${mode.batch}`}, ${mode.connections} connections`;
  bench.atLeast(`jobs/s beside pg-boss: ${what}`, ours / boss, 1);
  bench.atLeast(`jobs/s beside graphile-worker: ${what}`, ours / graphile, mode.batch === SINGLE ? 1 : 0.7);
  const shown = [ours, boss, graphile].map((value) => value.toFixed(0)) as [string, string, string];
  return [String(mode.connections), shown[0], p99(OURS), shown[1], p99(PGBOSS), shown[2]];
}

interface Measure extends Mode {
  /** How many wait, and how many of them are worked off. */
  readonly fill: number;
  readonly jobs: number;
  readonly peers: string;
}

let databases = 0;

/** In a new database each time: what was worked off is in nobody's way. */
async function measure(server: Postgres, name: Contender, { fill, ...task }: Measure): Promise<ScaleResult> {
  databases += 1;
  const database = `bench_${databases}`;
  const url = await server.create(database);
  try {
    await ask(name, { ...task, verb: 'fill', url, jobs: fill });
    return await ask(name, { ...task, verb: 'work', url });
  } finally {
    await server.drop(database);
  }
}

async function ask(name: Contender, { peers, ...task }: ScaleTask & { readonly peers: string }): Promise<ScaleResult> {
  const program = join(import.meta.dirname, 'scale', `${name}.child.ts`);
  const args = ['--disable-warning=ExperimentalWarning', program, JSON.stringify(task)];
  const env = { ...process.env, BENCH_PEERS: peers };
  const { stdout } = await promisify(execFile)(process.execPath, args, { env });
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as ScaleResult;
}

/** Ours beside more and more jobs that wait, all of them due. */
async function crowded(bench: Bench): Promise<void> {
  await withPostgres(bench, async (server) => {
    const rows: string[][] = [];
    const figures: number[] = [];
    for (const waiting of [10_000, 1_000_000, 10_000_000]) {
      const fill = bench.scaled(waiting);
      const row = [String(fill)];
      for (const [batch, jobs] of [
        [SINGLE, bench.scaled(4_000)],
        [BATCH, bench.scaled(10_000)],
      ] as const) {
        const { ms, p99Ms } = await measure(server, OURS, { batch, connections: 4, fill, jobs, peers: '' });
        row.push(((jobs * 1000) / ms).toFixed(0), p99Ms?.toFixed(1) ?? '');
        figures.push((jobs * 1000) / ms);
      }
      rows.push(row);
    }
    bench.table(['waiting', 'single, jobs/s', 'p99 ms', `batch ${BATCH}, jobs/s`, 'p99 ms'], rows);
    const [few = Number.NaN, , , , many = Number.NaN] = figures;
    bench.atLeast('jobs/s one at a time, 10,000,000 waiting beside 10,000', many / few, 0.9);
  });
}

async function withPostgres(bench: Bench, use: (server: Postgres) => Promise<void>): Promise<void> {
  // PostgreSQL runs as a user of its own, who must get to its data.
  chmodSync(bench.disk, 0o755);
  const server = await startPostgres(bench.disk);
  try {
    await use(server);
  } finally {
    await server.stop();
  }
}
