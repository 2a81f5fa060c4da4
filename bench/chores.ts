import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import type { Bench, Part } from './bench.ts';
import { alternate, type Figures, mediansOf, timeOnce } from './measure.ts';
import { rootWithRuns, sizes } from './report/generate.ts';
import { runner } from './root.ts';

/** What an invocation does besides jobs, seen from outside: a pass over an empty tier, with and without it. */
export const choreParts: Readonly<Record<string, Part>> = { housekeeping };

const node = process.execPath;
const HOUR_MS = 3_600_000;

/** Another build of the runner, as `dist/bin.cjs`: it has its turn in each round. */
const before = process.env.BENCH_BEFORE;

const base = 'node empty.cjs';
const earlier = 'the build before';
const idle = 'nothing due';
const hour = 'an hour to close';

/** What there is to do before a pass; all else is done. */
const chores: Readonly<Record<string, (log: Sqlite.Database) => void>> = {
  [idle]: () => {},
  'checks due': (log) => log.exec("delete from chores where name = 'checks'"),
  [hour]: (log) => {
    const hours = log.prepare("update chores set done_at = done_at - ? where name = 'hours'").run(HOUR_MS);
    if (hours.changes !== 1) throw new Error('no hour was ever closed');
  },
};

type Medians = ReadonlyMap<string, Figures>;

async function housekeeping(bench: Bench): Promise<void> {
  const bySize = new Map<number, Medians>();
  for (const size of sizes) bySize.set(size, await measurePasses(bench, await rootWithRuns(bench, size)));
  const figure = (size: number, name: string, of: keyof Figures = 'cpuMs') =>
    bySize.get(size)?.get(name)?.[of] ?? Number.NaN;
  const names = [...(bySize.get(sizes[0])?.keys() ?? [])];
  bench.table(
    ['a pass without scripts; runs in the log', ...sizes.flatMap((size) => [`${bench.scaled(size)}, ms`, 'CPU'])],
    names.map((name) => [
      name,
      ...sizes.flatMap((size) => [figure(size, name, 'wallMs').toFixed(1), figure(size, name).toFixed(1)]),
    ]),
  );
  // By CPU time, as these are a few milliseconds of a whole process, on a machine that is seldom quiet.
  const largest = sizes[2];
  const more = (name: string) => figure(largest, name) - figure(largest, idle);
  bench.atMost('closing an hour of 1,000,000 runs, ms', more(hour), 50);
  const idleOf = (size: number) => figure(size, idle) / figure(size, base);
  bench.atMost('nothing due with 1,000,000 runs, of 10,000', idleOf(largest) / idleOf(sizes[0]), 1.1);
  const goal = 'nothing due, of the build before';
  if (before === undefined) bench.notMeasured(goal, '≤ 1.03', 'BENCH_BEFORE names no other build');
  else bench.atMost(goal, figure(largest, idle) / figure(largest, earlier), 1.03);
}

async function measurePasses(bench: Bench, root: string): Promise<Medians> {
  const timeAfter = async (prepare: (log: Sqlite.Database) => void, command: readonly string[]): Promise<Figures> => {
    // Closed again: the pass is alone with its log, as it mostly is.
    const log = new Sqlite(join(root, '.runner/activity.db'));
    settle(log);
    prepare(log);
    log.close();
    return await timeOnce({ command: [node, ...command], cwd: root });
  };
  const contenders: Readonly<Record<string, () => Promise<Figures>>> = {
    [base]: () => timeAfter(() => {}, ['empty.cjs']),
    ...(before !== undefined && { [earlier]: () => timeAfter(() => {}, [before, 'empty']) }),
    ...Object.fromEntries(
      Object.entries(chores).map(([name, prepare]) => [name, () => timeAfter(prepare, [runner, 'empty'])]),
    ),
  };
  await alternate(1, contenders);
  return mediansOf(await alternate(bench.rounds(21), contenders));
}

/** As a pass leaves it that was there a moment ago. */
function settle(log: Sqlite.Database): void {
  const now = Date.now();
  const setDone = log.prepare('insert or replace into chores (name, done_at) values (?, ?)');
  setDone.run('checks', now);
  setDone.run('hours', Math.floor(now / HOUR_MS) * HOUR_MS);
  log.exec('update incidents set due_at = null; delete from deliveries');
}
