import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from '../bench.ts';
import { alternate, median } from '../measure.ts';
import { installPeers, type Redis, startRedis } from '../peers.ts';
import { handlers, makeRoot, timeRunner } from '../root.ts';
import { ask, type Measured } from './contender.ts';

/** How many jobs each verb is measured with. */
const counts = { add: 3_000, bulk: 20_000, work: 20_000 };
type Verb = keyof typeof counts;

/** Runs a verb once, in a new folder. */
type Contender = (verb: Verb, count: number) => Promise<Measured>;

const OURS = 'folder-runner';
const PLAINJOB = 'plainjob in-process';
const BULLMQ = 'BullMQ sandboxed, appendfsync always';

/** Jobs per second: ours through one warm child, the others as they are; what is acknowledged survives a power loss. */
export async function throughput(bench: Bench): Promise<void> {
  const peers = installPeers();
  const redis = peers === null ? null : await startRedis(join(bench.disk, 'redis'));
  try {
    const contenders = listContenders(bench, peers, redis);
    const figures = await measureAll(bench, contenders);
    showFigures(bench, figures);
    setGoals(bench, figures);
  } finally {
    await redis?.stop();
  }
}

function listContenders(bench: Bench, peers: string | null, redis: Redis | null): Readonly<Record<string, Contender>> {
  const contenders: Record<string, Contender> = {
    [OURS]: (verb, count) => measureOurs(bench, verb, count),
    'raw SQLite': measurePeer(bench, 'raw', {}),
  };
  if (peers === null) return contenders;
  contenders[PLAINJOB] = measurePeer(bench, 'plainjob', { BENCH_PEERS: peers });
  if (redis === null) return contenders;
  const env = { BENCH_PEERS: peers, BENCH_REDIS_PORT: String(redis.port) };
  contenders[BULLMQ] = measurePeer(bench, 'bullmq', env);
  return contenders;
}

function measurePeer({ disk }: Bench, name: string, env: Record<string, string>): Contender {
  return async (verb, count) => {
    const folder = mkdtempSync(join(disk, `${name}-`));
    const measured = await ask(name, verb, folder, count, env);
    rmSync(folder, { recursive: true });
    return measured;
  };
}

/** Worked off through a real child process, with the start of the command, of the child, and the end of both. */
async function measureOurs({ disk }: Bench, verb: Verb, count: number): Promise<Measured> {
  const root = makeRoot(disk, handlers);
  if (verb !== 'work') return await ask('ours', verb, root, count);
  await ask('ours', 'bulk', root, count);
  const ms = await timeRunner(root, ['work']);
  await ask('ours', 'assert-finished', root, count);
  rmSync(root, { recursive: true });
  return { ms, settings: 'WAL; the ends of 20 ms share one wait for the disk' };
}

type Figures = ReadonlyMap<string, ReadonlyMap<Verb, number>>;

/** Medians of jobs per second. */
async function measureAll(bench: Bench, contenders: Readonly<Record<string, Contender>>): Promise<Figures> {
  const medians = new Map(Object.keys(contenders).map((name) => [name, new Map<Verb, number>()]));
  for (const verb of Object.keys(counts) as Verb[]) {
    const count = bench.scaled(counts[verb]);
    const once = (measure: Contender) => () => measure(verb, count);
    const rounds = await alternate(
      bench.rounds(5),
      Object.fromEntries(Object.entries(contenders).map(([name, each]) => [name, once(each)])),
    );
    for (const [name, measured] of Object.entries(rounds)) {
      medians.get(name)?.set(verb, (count / median(measured.map(({ ms }) => ms))) * 1000);
      bench.say(`${verb} ${count}, ${name}: ${measured[0]?.settings}`);
    }
  }
  return medians;
}

function showFigures(bench: Bench, figures: Figures): void {
  const verbs = Object.keys(counts) as Verb[];
  bench.table(
    ['jobs/s', ...verbs.flatMap((verb) => [verb, 'ours to it'])],
    [...figures.keys()].map((name) => [
      name,
      ...verbs.flatMap((verb) => [
        (figures.get(name)?.get(verb) ?? Number.NaN).toFixed(0),
        ratio(figures, verb, name).toFixed(2),
      ]),
    ]),
  );
}

function setGoals(bench: Bench, figures: Figures): void {
  const goals: readonly (readonly [string, Verb, string, number])[] = [
    ['jobs/s through one warm child', 'work', PLAINJOB, 4],
    ['jobs/s through one warm child', 'work', BULLMQ, 3],
    ['adds one by one', 'add', PLAINJOB, 1],
    ['adds in bulk', 'bulk', PLAINJOB, 0.5],
  ];
  for (const [what, verb, peer, limit] of goals) {
    if (figures.has(peer)) {
      bench.atLeast(`${what}, of ${peer}`, ratio(figures, verb, peer), limit);
    } else bench.notMeasured(`${what}, of ${peer}`, `≥ ${limit}`, 'it is not installed here');
  }
}

function ratio(figures: Figures, verb: Verb, peer: string): number {
  const perSecond = (name: string) => figures.get(name)?.get(verb) ?? Number.NaN;
  return perSecond(OURS) / perSecond(peer);
}

/** A process for each job, beside the same without a queue. */
export async function isolated(bench: Bench): Promise<void> {
  const root = makeRoot(bench.disk, handlers);
  const count = bench.scaled(200);
  const figures = await alternate(bench.rounds(5), {
    bare: async () => (await ask('spawn', 'spawn', root, count)).ms / count,
    ours: async () => {
      await ask('ours', 'bulk-alone', root, count);
      return (await timeRunner(root, ['work'])) / count;
    },
  });
  const [bare, ours] = [median(figures.bare), median(figures.ours)];
  bench.say(`node alone.mjs ${bare.toFixed(1)} ms, @isolate ${ours.toFixed(1)} ms`);
  bench.atMost('@isolate, of a bare spawn', ours / bare, 1.25);
}
