import { rmSync } from 'node:fs';
import type { Bench } from '../bench.ts';
import { alternate, median } from '../measure.ts';
import { handlers, makeRoot } from '../root.ts';
import { ask, type Measured } from './contender.ts';

const MANY = 2_000;
const FEW = 500;
const SLOW_SYNC_MS = '20';

/** Adds of one program at the same time, beside the same one by one; then on a slow disk. */
export async function together(bench: Bench): Promise<void> {
  const count = bench.scaled(MANY);
  const figures = await alternate(bench.rounds(5), {
    oneByOne: () => measure(bench, 'add', count),
    atOnce: () => measure(bench, 'add-at-once', count),
    onSlowDisk: () => measure(bench, 'add-at-once', bench.scaled(FEW), { BENCH_SYNC_MS: SLOW_SYNC_MS }),
  });
  const msOf = (measured: readonly Measured[]) => median(measured.map(({ ms }) => ms));
  const heldOf = (of: 'p99' | 'longest') => median(figures.onSlowDisk.map(({ heldMs }) => heldMs?.[of] ?? Number.NaN));
  const [oneByOne, atOnce, onSlowDisk] = [msOf(figures.oneByOne), msOf(figures.atOnce), msOf(figures.onSlowDisk)];
  bench.say(`${count} adds: one by one ${oneByOne.toFixed(0)} ms, at once ${atOnce.toFixed(0)} ms`);
  bench.say(
    `${bench.scaled(FEW)} at once, ${SLOW_SYNC_MS} ms a sync: ${onSlowDisk.toFixed(0)} ms; the event loop was held ` +
      `${heldOf('p99').toFixed(1)} ms at p99, ${heldOf('longest').toFixed(1)} ms at most`,
  );
  bench.atLeast('adds at once, of the same one by one', oneByOne / atOnce, 5);
  bench.atMost(`500 adds at once, ${SLOW_SYNC_MS} ms a sync, ms`, onSlowDisk, 1_000);
  bench.atMost('event loop held meanwhile, p99, ms', heldOf('p99'), 5);
}

async function measure(
  { disk }: Bench,
  verb: string,
  count: number,
  env: Readonly<Record<string, string>> = {},
): Promise<Measured> {
  const root = makeRoot(disk, handlers);
  const measured = await ask('ours', verb, root, count, env);
  rmSync(root, { recursive: true });
  return measured;
}
