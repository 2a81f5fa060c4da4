import { rmSync } from 'node:fs';
import bytes from 'bytes';
import type { Bench, Part } from './bench.ts';
import { alternate, childrenOf, median, quantile, rssOf } from './measure.ts';
import { ask, type Wait } from './queue/contender.ts';
import { isolated, throughput } from './queue/throughput.ts';
import { together } from './queue/together.ts';
import { handlers, makeRoot, startRunner, timeRunner } from './root.ts';

const FEW = 10_000;
const MANY = 1_000_000;

export const queueParts: Readonly<Record<string, Part>> = {
  throughput,
  together,
  isolated,
  waking,
  crowding,
  growth,
};

/** From an `add` in one process to the start of its handler by a worker that waits in another. */
async function waking(bench: Bench): Promise<void> {
  const p50s: number[] = [];
  for (const delayed of [0, bench.scaled(FEW), bench.scaled(MANY)]) {
    const waits = await measureWaits(bench, delayed);
    const sinceCall = waits.map(({ sinceCallMs }) => sinceCallMs);
    const sinceAdded = waits.map(({ sinceAddedMs }) => sinceAddedMs);
    bench.say(`${delayed} not due: since add was called ${spread(sinceCall)}, since it returned ${spread(sinceAdded)}`);
    p50s.push(median(sinceCall));
  }
  const [idle = Number.NaN, few = Number.NaN, many = Number.NaN] = p50s;
  bench.atMost('add → start p50 since add was called, ms', idle, 2);
  bench.atMost('the same, of 1,000,000 not due to 10,000', many / few, 1.1);
}

async function measureWaits(bench: Bench, delayed: number): Promise<readonly Wait[]> {
  const root = makeRoot(bench.disk, handlers);
  if (delayed > 0) await ask('ours', 'fill-delayed', root, delayed);
  const count = bench.scaled(200);
  const args = ['work', 'stamp', '--for', '10m', '--max-jobs', String(count + 1)];
  const worker = startRunner(root, args);
  // The first one has to wait for the worker and its child to start.
  await ask('ours', 'wake', root, 1);
  const { waits = [] } = await ask('ours', 'wake', root, count);
  await worker.ended;
  rmSync(root, { recursive: true });
  return waits;
}

function spread(values: readonly number[]): string {
  return `p50 ${median(values).toFixed(2)} ms, p99 ${quantile(values, 0.99).toFixed(2)} ms`;
}

/** What lies in the queue when the worker starts, and what it then works off. */
interface Situation {
  readonly crowd: string;
  readonly due: string;
  readonly args: readonly string[];
}

const situations: Readonly<Record<string, Situation>> = {
  'all are due': { crowd: 'fill-due', due: 'fill-due', args: [] },
  'all are due, 10,000 priorities': { crowd: 'fill-priorities', due: 'fill-priorities', args: [] },
  'none is due, 10,000 priorities': {
    crowd: 'fill-delayed-priorities',
    due: 'fill-last',
    args: [],
  },
  'the worker takes only others': { crowd: 'fill-due', due: 'fill-last', args: ['other'] },
};

/** The same number of jobs worked off beside 10,000 that wait, and beside 1,000,000. */
async function crowding(bench: Bench): Promise<void> {
  const taken = bench.scaled(5_000);
  for (const [name, { crowd, due, args }] of Object.entries(situations)) {
    const measureBeside = async (waiting: number) => {
      const root = makeRoot(bench.disk, handlers);
      await ask('ours', crowd, root, bench.scaled(waiting));
      return async () => {
        await ask('ours', due, root, taken);
        return await timeRunner(root, ['work', ...args, '--max-jobs', String(taken)]);
      };
    };
    const contenders = { few: await measureBeside(FEW), many: await measureBeside(MANY) };
    await alternate(1, contenders);
    const figures = await alternate(bench.rounds(5), contenders);
    const [few, many] = [median(figures.few), median(figures.many)];
    bench.say(`${name}: ${taken} jobs in ${few.toFixed(0)} ms and ${many.toFixed(0)} ms`);
    bench.atMost(`1,000,000 waiting of 10,000: ${name}`, many / few, 1.1);
  }
}

const SAMPLE_MS = 200;

/** One worker for all of them, and its children as it replaces them by default. */
async function growth(bench: Bench): Promise<void> {
  const count = bench.scaled(200_000);
  const root = makeRoot(bench.disk, handlers);
  await ask('ours', 'fill-due', root, count);
  const { pid, ended } = startRunner(root, ['work']);
  const samples = { worker: [] as number[], child: [] as number[] };
  const sampler = setInterval(() => {
    samples.worker.push(...rssOf(pid));
    samples.child.push(...childrenOf(pid).flatMap(rssOf));
  }, SAMPLE_MS);
  await ended;
  clearInterval(sampler);
  await ask('ours', 'assert-finished', root, count);
  for (const [name, values] of Object.entries(samples)) showGrowth(bench, name, count, values);
}

/** The last tenth of the time beside the second. */
function showGrowth(bench: Bench, name: string, jobs: number, samples: readonly number[]): void {
  const tenth = Math.floor(samples.length / 10);
  const early = median(samples.slice(tenth, 2 * tenth));
  const late = median(samples.slice(-tenth));
  bench.say(`${name} over ${jobs} jobs: ${bytes(early)} early, ${bytes(late)} late`);
  bench.atMost(`memory of the ${name}, late to early`, late / early, 1.1);
}
