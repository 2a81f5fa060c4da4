import { rmSync } from 'node:fs';
import type { Bench, Part } from './bench.ts';
import { alternate, median, timeOnce } from './measure.ts';
import { generateLog } from './report/generate.ts';
import { makeRoot, runner, scriptsOf } from './root.ts';

const node = process.execPath;
/** 50 scripts, which run 2,756 times a day: the days that the runs reach back follow from that. */
const scripts = {
  ...scriptsOf('15min', 28, ''),
  ...scriptsOf('hourly', 2, ''),
  ...scriptsOf('daily', 20, ''),
  '15min/s07.cjs': 'process.exitCode = 1;\n',
};
/** The same runs a day in each: only what lies outside of the window grows. */
const sizes = [10_000, 100_000, 1_000_000];

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
    const root = makeRoot(bench.disk, scripts);
    const startMs = performance.now();
    const { days } = generateLog(root, bench.scaled(size));
    const seconds = (performance.now() - startMs) / 1000;
    bench.say(`${bench.scaled(size)} runs over ${days.toFixed(0)} days, made in ${seconds.toFixed(0)} s`);
    medians.set(size, await measureCommands(bench, root));
    rmSync(root, { recursive: true });
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
