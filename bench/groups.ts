import { execFile } from 'node:child_process';
import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createConnection, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { createConnection as connectToMysql } from 'mysql2/promise';
import pg from 'pg';
import type { Bench, Part } from './bench.ts';
import type { GroupsResult, GroupsTask } from './groups/child.ts';
import { median } from './measure.ts';
import { makeRoot } from './root.ts';
import { startPostgres } from './scale/postgres.ts';

export const groupsParts: Readonly<Record<string, Part>> = { blocked };

const BLOCKED = [0, 10, 1_000, 100_000];
const CLAIMS = 40;
/** The first ones of a process open its connections. */
const FIRST_CLAIMS = 5;
const LINK_MS = 4;
const MOST = 1.2;
const VACUUM_WITHIN_MS = 10 * 60_000;

/** A server that is asked over a link, or the file of a root. */
interface Engine {
  readonly name: string;
  /** Address of a new database; null: there is no server. */
  create(database: string): Promise<string | null>;
  /** Waits until the server has cleaned up by itself after jobs that stepped aside; left out: it need not. */
  cleanUp?(): Promise<void>;
  stop(): Promise<void>;
}

/** A claim behind more and more jobs of one group that is full, by an engine and a link each. */
async function blocked(bench: Bench): Promise<void> {
  for (const open of [sqlite, postgres, mysql]) {
    const engine = await open(bench);
    if (engine === null) continue;
    try {
      await measureEngine(bench, engine);
    } finally {
      await engine.stop();
    }
  }
}

const claimsOf = ({ isShort }: Bench): number => (isShort ? 2 * FIRST_CLAIMS : CLAIMS);

interface Log {
  readonly root: string;
  readonly url: string | null;
  readonly count: number;
}

async function measureEngine(bench: Bench, engine: Engine): Promise<void> {
  const logs: Log[] = [];
  const first: number[] = [];
  for (const usual of BLOCKED) {
    const count = usual === 0 ? 0 : bench.scaled(usual);
    const root = makeRoot(bench.disk, { 'queue/work.mjs': 'export default () => {};\n' });
    writeFileSync(join(root, 'runner.config.json'), '{"queue":{"groupLimit":1}}');
    const url = await engine.create(`groups_${usual}`);
    await ask({ root, url, verb: 'fill', count });
    first.push(...(await ask({ root, url, verb: 'claim', count: 1 })).claimMs);
    // What is put aside by the first ones is no part of what a claim costs.
    await ask({ root, url, verb: 'claim', count: claimsOf(bench) });
    logs.push({ root, url, count });
  }
  bench.say(`${engine.name}: the first claim, ms: ${first.map((ms) => ms.toFixed(1)).join(', ')}`);
  if (engine.cleanUp && !bench.isShort) {
    const before = (await measureLogs(bench, logs, 0)).map((ms) => ms.toFixed(2));
    bench.say(`${engine.name}, claims before the server has cleaned up, ms: ${before.join(', ')}`);
    await engine.cleanUp();
  }
  for (const linkMs of engine.name === 'SQLite' ? [0] : [0, LINK_MS]) {
    const figures = await measureLogs(bench, logs, linkMs);
    const [none = Number.NaN] = figures;
    bench.table(
      [`${engine.name}, link of ${linkMs} ms: blocked`, 'claim, ms', 'ratio'],
      logs.map(({ count }, index) => {
        const figure = figures[index] ?? Number.NaN;
        return [String(count), figure.toFixed(2), (figure / none).toFixed(2)];
      }),
    );
    for (const [index, { count }] of logs.entries()) {
      if (index === 0) continue;
      bench.atMost(`${engine.name}, ${linkMs} ms, claim behind ${count} blocked`, (figures[index] ?? 0) / none, MOST);
    }
  }
  for (const { root } of logs) rmSync(root, { recursive: true });
}

/** Medians of each log, which take turns. */
async function measureLogs(bench: Bench, logs: readonly Log[], linkMs: number): Promise<number[]> {
  const found: number[][] = logs.map(() => []);
  for (let round = 0; round < bench.rounds(5); round += 1) {
    for (const [index, { root, url }] of logs.entries()) {
      const link = url === null ? null : await openLink(url, linkMs);
      const { claimMs } = await ask({ root, url: link?.url ?? url, verb: 'claim', count: claimsOf(bench) });
      found[index]?.push(...claimMs.slice(FIRST_CLAIMS));
      link?.close();
    }
  }
  return found.map(median);
}

async function ask(task: GroupsTask): Promise<GroupsResult> {
  const program = join(import.meta.dirname, 'groups/child.ts');
  const args = ['--disable-warning=ExperimentalWarning', program, JSON.stringify(task)];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 64 * 1024 * 1024 });
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as GroupsResult;
}

/** The way to a server takes so long, there and back. */
async function openLink(url: string, linkMs: number) {
  if (linkMs === 0) return { url, close: () => {} };
  const { hostname: host, port } = new URL(url);
  const later = (send: () => void) => setTimeout(send, linkMs / 2);
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = createConnection({ host, port: Number(port), noDelay: true });
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      from.on('data', (bytes) => later(() => to.write(bytes)));
      from.on('close', () => later(() => to.destroy()));
      from.on('error', () => to.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address() as AddressInfo;
  return { url: Object.assign(new URL(url), { port: String(address.port) }).href, close: () => server.close() };
}

async function sqlite(): Promise<Engine> {
  return { name: 'SQLite', create: async () => null, stop: async () => {} };
}

async function postgres(bench: Bench): Promise<Engine> {
  // PostgreSQL runs as a user of its own, who must get to its data.
  chmodSync(bench.disk, 0o755);
  const { create, stop } = await startPostgres(bench.disk);
  const urls: string[] = [];
  return {
    name: 'PostgreSQL',
    create: async (database) => {
      const url = await create(database);
      urls.push(url);
      return url;
    },
    cleanUp: async () => {
      for (const url of urls) await waitForVacuum(url);
    },
    stop,
  };
}

/** Autovacuum comes by each minute, for a table in which one row of five is dead. */
async function waitForVacuum(url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  const isDue = `select 1 from pg_stat_user_tables where relname = 'jobs' and n_dead_tup > 50 + 0.2 * n_live_tup`;
  const deadline = performance.now() + VACUUM_WITHIN_MS;
  try {
    while ((await client.query(isDue)).rowCount) {
      if (performance.now() > deadline)
        throw new Error(`autovacuum has not come by within ${VACUUM_WITHIN_MS / 1_000} s`);
      await sleep(1_000);
    }
  } finally {
    await client.end();
  }
}

/** `BENCH_MYSQL_URL=mysql://root@127.0.0.1`: a server for which this user may make databases. */
async function mysql(bench: Bench): Promise<Engine | null> {
  const url = process.env.BENCH_MYSQL_URL;
  if (!url) {
    bench.notMeasured('a claim behind blocked jobs on MySQL or MariaDB', `≤ ${MOST}`, 'BENCH_MYSQL_URL is not set');
    return null;
  }
  const client = await connectToMysql(url);
  const made: string[] = [];
  return {
    name: 'MySQL or MariaDB',
    create: async (database) => {
      await client.query(`drop database if exists ${database}`);
      await client.query(`create database ${database}`);
      made.push(database);
      return Object.assign(new URL(url), { pathname: `/${database}` }).href;
    },
    stop: async () => {
      for (const database of made) await client.query(`drop database ${database}`);
      await client.end();
    },
  };
}
