import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import bytes from 'bytes';
import type { Bench, Part } from './bench.ts';
import { alternate, type Figures, median, mediansOf, peakBytesOf, timeOnce } from './measure.ts';
import { makeRoot, runner, scriptsOf } from './root.ts';

const SCRIPTS = 20;
const node = process.execPath;
const trivial = `import { hostname } from 'node:os';\nif (hostname() === '') process.exit(1);\n`;
const typed = `import { hostname } from 'node:os';\nconst name: string = hostname();\nif (name === '') process.exit(1);\n`;

/** A pass over 20 trivial scripts, beside what people do without a runner. */
export const tierParts: Readonly<Record<string, Part>> = { passes, idle, peak };

const loop = 'loop of node x.mjs';
const ours = 'runner, .mjs';
const commands: Readonly<Record<string, readonly string[]>> = {
  [loop]: loopOver('mjs'),
  [ours]: [node, runner, 'mjs'],
  'loop of node x.ts': loopOver('ts'),
  'runner, .ts warm': [node, runner, 'ts'],
};

function loopOver(tier: string): readonly string[] {
  return ['sh', '-c', `for f in jobs/${tier}/*; do ${node} "$f" || exit 1; done`];
}

function makeTiers({ disk }: Bench): string {
  return makeRoot(disk, {
    ...scriptsOf('mjs', SCRIPTS, trivial, 'mjs'),
    ...scriptsOf('ts', SCRIPTS, typed, 'ts'),
    'empty/.keep': '',
  });
}

async function passes(bench: Bench): Promise<void> {
  const processors = allowedProcessors();
  for (const [count, limit] of [
    [2, 0.85],
    [1, 1.35],
  ] as const) {
    const what = `${SCRIPTS} scripts on ${count === 1 ? 'one processor' : 'two processors'}`;
    const goal = `${what}, of the loop of node`;
    const problem = whyNotPinned(processors, count);
    if (problem === null) {
      const pin = ['taskset', '-c', processors.slice(0, count).join(',')];
      const medians = await measure(bench, what, pin, commands, loop, 9);
      bench.atMost(goal, ratioOf(medians, ours, loop), limit);
    } else bench.notMeasured(goal, `≤ ${limit}`, problem);
  }
}

async function idle(bench: Bench): Promise<void> {
  const contenders = {
    'node empty.cjs': [node, 'empty.cjs'],
    'runner, empty tier': [node, runner, 'empty'],
  };
  const medians = await measure(bench, 'nothing to do', [], contenders, 'node empty.cjs', 31);
  const ratio = ratioOf(medians, 'runner, empty tier', 'node empty.cjs');
  bench.atMost('an empty tier, of node empty.cjs', ratio, 1.9);
}

async function peak(bench: Bench): Promise<void> {
  const cwd = makeTiers(bench);
  const figures = await alternate(bench.rounds(9), {
    bare: () => peakBytesOf({ command: [node, 'empty.cjs'], cwd }),
    runner: () => peakBytesOf({ command: [node, runner, 'mjs'], cwd }),
  });
  const [bare, own] = [median(figures.bare), median(figures.runner)];
  bench.say(`node empty.cjs ${bytes(bare)}, the runner over ${SCRIPTS} scripts ${bytes(own)}`);
  bench.atMost("the runner's own memory, of node empty.cjs", own / bare, 1.5);
}

type Medians = ReadonlyMap<string, Figures>;

/** In one root, with a round before that does not count. */
async function measure(
  bench: Bench,
  title: string,
  prefix: readonly string[],
  commands: Readonly<Record<string, readonly string[]>>,
  base: string,
  usualRounds: number,
): Promise<Medians> {
  const cwd = makeTiers(bench);
  const contenders = Object.fromEntries(
    Object.entries(commands).map(([name, command]) => [
      name,
      () => timeOnce({ command: [...prefix, ...command], cwd }),
    ]),
  );
  await alternate(1, contenders);
  const rounds = await alternate(bench.rounds(usualRounds), contenders);
  const medians = mediansOf(rounds);
  bench.table(
    [title, 'wall ms', 'ratio', 'CPU ms', 'ratio'],
    [...medians].map(([name, { wallMs, cpuMs }]) => [
      name,
      wallMs.toFixed(0),
      ratioOf(medians, name, base).toFixed(2),
      cpuMs.toFixed(0),
      (cpuMs / (medians.get(base)?.cpuMs ?? Number.NaN)).toFixed(2),
    ]),
  );
  return medians;
}

function ratioOf(medians: Medians, name: string, base: string): number {
  return (medians.get(name)?.wallMs ?? Number.NaN) / (medians.get(base)?.wallMs ?? Number.NaN);
}

function whyNotPinned(processors: readonly number[], count: number): string | null {
  if (processors.length < count) return `only ${processors.length} processor here`;
  return spawnSync('taskset', ['--version']).error ? 'taskset is not installed' : null;
}

/** Those that this process may use, of "0-1,4". */
function allowedProcessors(): readonly number[] {
  const status = readFileSync('/proc/self/status', 'latin1');
  const list = /^Cpus_allowed_list:\s+(\S+)/m.exec(status)?.[1] ?? '';
  return list.split(',').flatMap((range) => {
    const [first = 0, last = first] = range.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}
