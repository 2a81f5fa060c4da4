import type { Bench, Part } from './bench.ts';
import { alternate, type Figures, mediansOf, timeOnce } from './measure.ts';
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

/** What lies outside of the window costs nothing: logs of so many runs have all of it, too. */
const outside: Readonly<Record<string, number>> = { 'report --since 30d': 100_000, 'report --since 1d': 10_000 };

export const reportParts: Readonly<Record<string, Part>> = { reading };

/** Whole commands over the log of a year, and over what its last days alone would have left. */
async function reading(bench: Bench): Promise<void> {
  const bySize = new Map<number, ReadonlyMap<string, Figures>>();
  for (const size of sizes) bySize.set(size, await measureCommands(bench, await rootWithRuns(bench, size)));
  const figure = (size: number, name: string, of: keyof Figures) => bySize.get(size)?.get(name)?.[of] ?? Number.NaN;
  const ratioOf = (size: number, name: string, of: keyof Figures) => figure(size, name, of) / figure(size, base, of);
  bench.table(
    ['runs in the log', ...sizes.flatMap((size) => [`${bench.scaled(size)}, ms`, 'ratio', 'CPU', 'ratio'])],
    Object.keys(commands).map((name) => [
      name,
      ...sizes.flatMap((size) =>
        (['wallMs', 'cpuMs'] as const).flatMap((of) => [
          figure(size, name, of).toFixed(0),
          ratioOf(size, name, of).toFixed(2),
        ]),
      ),
    ]),
  );
  for (const [name, limit] of Object.entries(limits)) {
    bench.atMost(`${name} over 1,000,000 runs, of ${base}`, ratioOf(1_000_000, name, 'wallMs'), limit);
  }
  for (const [name, few] of Object.entries(outside)) {
    const growth = ratioOf(1_000_000, name, 'cpuMs') / ratioOf(few, name, 'cpuMs');
    bench.atMost(`${name} over 1,000,000 runs, of ${few}, CPU`, growth, 1.1);
  }
}

async function measureCommands(bench: Bench, root: string): Promise<ReadonlyMap<string, Figures>> {
  const contenders = Object.fromEntries(
    Object.entries(commands).map(([name, args]) => [name, () => timeOnce({ command: [node, ...args], cwd: root })]),
  );
  await alternate(1, contenders);
  return mediansOf(await alternate(bench.rounds(9), contenders));
}
