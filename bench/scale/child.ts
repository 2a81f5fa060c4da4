import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** What a contender's program is asked to do. */
export interface ScaleTask {
  readonly verb: 'fill' | 'work';
  /** Of a database of its own. */
  readonly url: string;
  readonly jobs: number;
  /** How many workers, each with a connection. */
  readonly connections: number;
  /** How many jobs each takes at once. */
  readonly batch: number;
}

export interface ScaleResult {
  readonly ms: number;
  /** Of one claim, with the settling of what was claimed before where that is one commit; null: it is not told. */
  readonly p99Ms: number | null;
}

export const task = JSON.parse(process.argv[2] ?? '{}') as ScaleTask;

/** Loads a package of the peers' folder. */
export async function importPeer<Module>(name: string): Promise<Module> {
  const { resolve } = createRequire(join(process.env.BENCH_PEERS ?? '', 'package.json'));
  return (await import(pathToFileURL(resolve(name)).href)) as Module;
}

const times: number[] = [];

export async function timed<T>(work: () => Promise<T>): Promise<T> {
  const startMs = performance.now();
  const result = await work();
  times.push(performance.now() - startMs);
  return result;
}

export function report(ms: number): void {
  const sorted = times.toSorted((one, other) => one - other);
  const p99Ms = sorted[Math.min(Math.floor(sorted.length * 0.99), sorted.length - 1)] ?? null;
  const result: ScaleResult = { ms, p99Ms };
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
