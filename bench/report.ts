import type { Bench, Part } from './bench.ts';
import { alternate, median, timeOnce } from './measure.ts';
import { rootWithRuns, sizes } from './report/generate.ts';
import { runner } from './root.ts';

const node = process.execPath;
const base = 'node empty.cjs';
const commands: Readonly<Record<string, readonly string[]>> = {
  [base]: ['empty.cjs'],
  'report --since 30d': [runner, 'report', '--since', '30d'],
  'report --since 1d': [runner, 'report', '--since', '1d'],
  status: [runner, 'status'],
  'why 15min/s07': [runner, 'why', '15min/s07'],
};
const limits: Readonly<Record<string, number>> = {
  'report --since 30d': 6,
  'report --since 1d': 4,
  status: 4,
  'why 15min/s07': 4,
};

export const reportParts: Readonly<Record<string, Part>> = { reading };

/** Whole commands over the log of a year, and over what its last days alone would have left. */
async function reading(bench: Bench): Promise<void> {
  const medians = new Map<number, ReadonlyMap<string, number>>();
  for (const size of sizes) {
    medians.set(size, await measureCommands(bench, rootWithRuns(bench, size)));
  }
  const ratioOf = (size: number, name: string) =>
    (medians.get(size)?.get(name) ?? Number.NaN) / (medians.get(size)?.get(base) ?? Number.NaN);
  bench.table(
    ['runs in the log', ...sizes.flatMap((size) => [`${bench.scaled(size)}, ms`, 'ratio'])],
    Object.keys(commands).map((name) => [
      name,
      ...sizes.flatMap((size) => [
        (medians.get(size)?.get(name) ?? Number.NaN).toFixed(0),
        ratioOf(size, name).toFixed(2),
      ]),
    ]),
  );
  for (const [name, limit] of Object.entries(limits)) {
    bench.atMost(`${name} over 1,000,000 runs, of ${base}`, ratioOf(1_000_000, name), limit);
  }
}

async function measureCommands(bench: Bench, root: string): Promise<ReadonlyMap<string, number>> {
  const contenders = Object.fromEntries(
    Object.entries(commands).map(([name, args]) => [name, () => timeOnce({ command: [node, ...args], cwd: root })]),
  );
  await alternate(1, contenders);
  const figures = await alternate(bench.rounds(9), contenders);
  return new Map(Object.entries(figures).map(([name, each]) => [name, median(each.map(({ wallMs }) => wallMs))]));
}
