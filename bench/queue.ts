import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import bytes from 'bytes';
import Table from 'cli-table3';
import { median } from './measure.ts';
import { installPeers } from './peers.ts';
import { type Goal, printGoals } from './print.ts';
import { measureCrowding } from './queue/crowding.ts';
import { type Growth, measureMemory } from './queue/memory.ts';
import type { Scale } from './queue/scale.ts';
import {
  counts,
  listContenders,
  measureIsolated,
  measureThroughput,
  type Throughput,
} from './queue/throughput.ts';
import { measurePolling, measureWaking, quantile } from './queue/waking.ts';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 7);
/** Shorter, to see whether it runs: 0.05. */
const SCALE = Number(process.env.BENCH_SCALE ?? 1);
const FEW = 10_000;
const MANY = 1_000_000;

/** The queue beside others on the same disk; all of them durable: what is acknowledged survives a power loss. */
const disk = mkdtempSync(join(process.env.BENCH_FOLDER || tmpdir(), 'bench-queue-'));
const scale: Scale = {
  disk,
  rounds: ROUNDS,
  jobs: (count) => Math.max(10, Math.round(count * SCALE)),
};
const only = process.argv.slice(3);
const goals: Goal[] = [];
try {
  say(`on ${describeDisk()}, Node ${process.version}, medians of ${ROUNDS} rounds`);
  const peers = installPeers();
  if (isAsked('throughput')) await showThroughput(peers);
  if (isAsked('isolated')) await showIsolated();
  if (isAsked('waking')) await showWaking(peers);
  if (isAsked('crowding')) await showCrowding();
  if (isAsked('memory')) await showMemory();
  printGoals(goals);
} finally {
  rmSync(disk, { recursive: true, force: true });
}

function isAsked(part: string): boolean {
  return only.length === 0 || only.includes(part);
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

function describeDisk(): string {
  return (
    execFileSync('df', ['--output=fstype', disk], { encoding: 'utf8' }).trim().split('\n')[1] ?? '?'
  );
}

async function showThroughput(peers: string | null): Promise<void> {
  const contenders = listContenders(peers);
  const figures = await measureThroughput(contenders, scale, (name, settings) =>
    say(`${name}: ${settings}`),
  );
  const verbs = Object.keys(counts);
  const table = new Table({
    head: ['jobs/s', ...verbs.flatMap((verb) => [verb, 'ratio'])],
    style: { head: [], border: [] },
  });
  for (const { name } of contenders) {
    table.push([name, ...verbs.flatMap((verb) => cells(figures, name, verb))]);
  }
  say(table.toString());
  if (peers === null) return;
  goals.push(
    {
      what: 'adds one by one, of plainjob',
      value: ratio(figures, 'add'),
      limit: 1,
      isAtLeast: true,
    },
    {
      what: 'jobs/s through a child, of plainjob in-process',
      value: ratio(figures, 'work'),
      limit: 1.5,
      isAtLeast: true,
    },
  );
}

function cells(figures: Throughput, name: string, verb: string): readonly string[] {
  const own = perSecond(figures, name, verb);
  if (Number.isNaN(own)) return ['–', '–'];
  return [own.toFixed(0), (own / perSecond(figures, 'folder-runner', verb)).toFixed(2)];
}

function perSecond(figures: Throughput, name: string, verb: string): number {
  return median(figures.get(name)?.get(verb) ?? []);
}

function ratio(figures: Throughput, verb: string): number {
  return perSecond(figures, 'folder-runner', verb) / perSecond(figures, 'plainjob', verb);
}

async function showIsolated(): Promise<void> {
  const { bareMs, isolatedMs } = await measureIsolated(scale);
  say(
    `a process for each job: node alone.mjs ${bareMs.toFixed(1)} ms, @isolate ${isolatedMs.toFixed(1)} ms`,
  );
  goals.push({ what: '@isolate, of a bare spawn', value: isolatedMs / bareMs, limit: 1.25 });
}

async function showWaking(peers: string | null): Promise<void> {
  const p50s: number[] = [];
  for (const delayed of [0, scale.jobs(FEW), scale.jobs(MANY)]) {
    const { sinceCallMs, sinceAddedMs } = await measureWaking(scale, delayed);
    say(
      `add → start, ${delayed} delayed: since add returned ${spread(sinceAddedMs)}; since it was called ${spread(sinceCallMs)}`,
    );
    p50s.push(quantile(sinceCallMs, 0.5));
  }
  const [idle = Number.NaN, few = Number.NaN, many = Number.NaN] = p50s;
  goals.push(
    { what: 'add → start p50, ms', value: idle, limit: 2 },
    { what: 'add → start p50, of many delayed to few', value: many / few, limit: 1.1 },
  );
  if (peers !== null)
    say(`add → start, plainjob as it is set: ${spread(await measurePolling(peers, scale))}`);
}

function spread(sorted: readonly number[]): string {
  return `p50 ${quantile(sorted, 0.5).toFixed(2)} ms, p99 ${quantile(sorted, 0.99).toFixed(2)} ms`;
}

async function showCrowding(): Promise<void> {
  const [few, many] = [scale.jobs(FEW), scale.jobs(MANY)];
  const figures = await measureCrowding(scale, [few, many]);
  for (const [count, ms] of figures) say(`${count} due: ${ms.toFixed(3)} ms for a job`);
  const value = (figures.get(many) ?? Number.NaN) / (figures.get(few) ?? Number.NaN);
  goals.push({ what: 'a job among many due, of one among few', value, limit: 1.1 });
}

async function showMemory(): Promise<void> {
  const { jobs, worker, child } = await measureMemory(scale);
  for (const [name, growth] of [
    ['worker', worker],
    ['child', child],
  ] as const) {
    if (growth === null) continue;
    say(`${name} over ${jobs} jobs: ${describeGrowth(growth)}`);
    goals.push({
      what: `memory of the ${name}, late to early`,
      value: growth.lateBytes / growth.earlyBytes,
      limit: 1.1,
    });
  }
}

function describeGrowth({ earlyBytes, lateBytes }: Growth): string {
  return `${bytes(earlyBytes)} early, ${bytes(lateBytes)} late`;
}
