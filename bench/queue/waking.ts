import { join } from 'node:path';
import { ask, type Contender } from './contender.ts';
import { makeRoot, ours, startWork } from './root.ts';
import type { Scale } from './scale.ts';

/** Sorted. */
export interface Waking {
  readonly sinceCallMs: readonly number[];
  readonly sinceAddedMs: readonly number[];
}

/** From an `add` in one process to the start of its handler by a worker that waits in another. */
export async function measureWaking(scale: Scale, delayed: number): Promise<Waking> {
  const root = makeRoot(scale.disk);
  if (delayed > 0) await ask(ours, 'fill-delayed', root, delayed);
  const count = scale.jobs(200);
  const args = ['stamp', '--for', '10m', '--max-jobs', String(count + 1)];
  const worker = startWork(root, args);
  // The first one has to wait for the worker and its child to start.
  await ask(ours, 'wake', root, 1);
  const { latenciesMs = [] } = await ask(ours, 'wake', root, count);
  await worker.ended;
  return {
    sinceCallMs: latenciesMs.slice(0, count).toSorted(ascending),
    sinceAddedMs: latenciesMs.slice(count).toSorted(ascending),
  };
}

/** A peer that polls, as it is set by default. */
export async function measurePolling(peers: string, scale: Scale): Promise<readonly number[]> {
  const plainjob: Contender = {
    name: 'plainjob',
    program: join(import.meta.dirname, 'plainjob.child.ts'),
    verbs: [],
    env: { BENCH_PEERS: peers },
  };
  const count = scale.jobs(40);
  const { disk } = scale;
  // Else both would turn the new file to WAL at once, which SQLite refuses without waiting.
  await ask(plainjob, 'bulk', disk, 0);
  const woken = ask(plainjob, 'be-woken', disk, count);
  await ask(plainjob, 'add-slowly', disk, count);
  const { latenciesMs = [] } = await woken;
  return latenciesMs.toSorted(ascending);
}

const ascending = (one: number, other: number) => one - other;

export function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)] ?? Number.NaN;
}
