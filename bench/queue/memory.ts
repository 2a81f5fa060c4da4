import { readdirSync, readFileSync } from 'node:fs';
import { median } from '../measure.ts';
import { ask } from './contender.ts';
import { assertFinished, makeRoot, ours, startWork } from './root.ts';
import type { Scale } from './scale.ts';

export interface Memory {
  readonly jobs: number;
  /** Medians of the second tenth of the time and of the last; null: it was over too soon. */
  readonly worker: Growth | null;
  readonly child: Growth | null;
}

export interface Growth {
  readonly earlyBytes: number;
  readonly lateBytes: number;
}

const SAMPLE_MS = 200;

/** One worker for all of them, and its children as it replaces them by default. */
export async function measureMemory({ disk, jobs }: Scale): Promise<Memory> {
  const count = jobs(200_000);
  const root = makeRoot(disk);
  await ask(ours, 'fill-due', root, count);
  const worker = startWork(root);
  const { pid } = worker;
  const samples = { worker: [] as number[], child: [] as number[] };
  const sampler = setInterval(() => {
    samples.worker.push(...readRss(pid));
    samples.child.push(...childrenOf(pid).flatMap(readRss));
  }, SAMPLE_MS);
  await worker.ended;
  clearInterval(sampler);
  await assertFinished(root, count);
  return { jobs: count, worker: growthOf(samples.worker), child: growthOf(samples.child) };
}

function growthOf(samples: readonly number[]): Growth | null {
  const tenth = Math.floor(samples.length / 10);
  if (tenth === 0) return null;
  return {
    earlyBytes: median(samples.slice(tenth, 2 * tenth)),
    lateBytes: median(samples.slice(-tenth)),
  };
}

function readRss(pid: number): readonly number[] {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    const kilobytes = /^VmRSS:\s+(\d+)/m.exec(status)?.[1];
    return kilobytes === undefined ? [] : [Number(kilobytes) * 1024];
  } catch {
    return [];
  }
}

/** Each thread of a process lists the children that it has started. */
function childrenOf(pid: number): readonly number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) => {
      const children = readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1');
      return children.trim().split(' ').filter(Boolean).map(Number);
    });
  } catch {
    return [];
  }
}
