import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Contender, type Figures, measureRounds, median } from './measure.ts';
import { type Goal, printGoals, printTable } from './print.ts';

const SCRIPTS = 20;
const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 15);
const repository = join(import.meta.dirname, '..');
const command = join(repository, 'dist/bin.cjs');
const tsx = join(repository, 'node_modules/tsx/dist/cli.mjs');
const node = process.execPath;

const trivial = `import { hostname } from 'node:os';\nif (hostname() === '') process.exit(1);\n`;
const typed = `import { hostname } from 'node:os';\nconst name: string = hostname();\nif (name === '') process.exit(1);\n`;

/** A pass over 20 trivial scripts, beside what people do without a runner. */
const folder = mkdtempSync(join(tmpdir(), 'bench-tiers-'));
try {
  makeScripts();
  const figures = await measureRounds(contenders(), ROUNDS);
  const idle = await measureRounds(idleContenders(), ROUNDS * 2);
  printTable(
    `${SCRIPTS} trivial scripts, medians of ${ROUNDS} rounds`,
    figures,
    'loop of node x.mjs',
  );
  printTable('nothing to do', idle, 'node empty.cjs');
  printGoals(goals(figures, idle));
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function makeScripts(): void {
  for (const [tier, name, content] of [
    ['mjs', 'x.mjs', trivial],
    ['ts', 'x.ts', typed],
    ['two', 'x.mjs', trivial],
    [
      'parts',
      'x',
      `#!${node}\n${trivial.replace('import { hostname } from', 'const { hostname } = require(').replace("'node:os';", "'node:os');")}`,
    ],
  ] as const) {
    const path = join(folder, 'jobs', tier);
    mkdirSync(path, { recursive: true });
    for (let index = 0; index < SCRIPTS; index += 1) {
      const file = join(path, name.replace('x', `x${String(index).padStart(2, '0')}`));
      writeFileSync(file, content);
      chmodSync(file, 0o755);
    }
  }
  mkdirSync(join(folder, 'jobs/empty'));
  writeFileSync(join(folder, 'empty.cjs'), '');
  writeFileSync(join(folder, 'runner.config.json'), '{ "tiers": { "two": { "concurrency": 2 } } }');
}

function contenders(): Contender[] {
  const loop = (run: string, files: string) =>
    shell(`for f in jobs/${files}; do ${run} "$f" || exit 1; done`);
  return [
    { name: 'loop of node x.mjs', command: loop(node, 'mjs/*'), cwd: folder },
    { name: 'runner, .mjs', command: [node, command, 'mjs'], cwd: folder },
    { name: 'runner, .ts warm', command: [node, command, 'ts'], cwd: folder },
    { name: 'runner, .mjs, two at a time', command: [node, command, 'two'], cwd: folder },
    { name: 'loop of node x.ts', command: loop(node, 'ts/*'), cwd: folder },
    { name: 'loop of tsx x.ts', command: loop(`${node} ${tsx}`, 'ts/*'), cwd: folder },
    ...runParts(),
  ];
}

function idleContenders(): Contender[] {
  return [
    { name: 'node empty.cjs', command: [node, 'empty.cjs'], cwd: folder },
    { name: 'runner, empty tier', command: [node, command, 'empty'], cwd: folder },
  ];
}

function shell(script: string): [string, ...string[]] {
  return ['sh', '-c', script];
}

/** Not every system has run-parts; a missing contender is said, not passed over. */
function runParts(): Contender[] {
  try {
    execFileSync('run-parts', ['--version'], { stdio: 'ignore' });
    return [
      { name: 'run-parts, node by shebang', command: ['run-parts', 'jobs/parts'], cwd: folder },
    ];
  } catch {
    process.stdout.write('run-parts is not installed here: left out.\n');
    return [];
  }
}

type Measured = ReadonlyMap<string, readonly Figures[]>;

function goals(passes: Measured, idle: Measured): Goal[] {
  const ratio = (from: Measured, name: string, base: string, key: 'wallMs' | 'cpuMs') =>
    median((from.get(name) ?? []).map((each) => each[key])) /
    median((from.get(base) ?? []).map((each) => each[key]));
  const loop = 'loop of node x.mjs';
  const empty = 'node empty.cjs';
  return [
    { what: '.mjs, wall', value: ratio(passes, 'runner, .mjs', loop, 'wallMs'), limit: 1.18 },
    { what: '.mjs, CPU', value: ratio(passes, 'runner, .mjs', loop, 'cpuMs'), limit: 1.18 },
    {
      what: '.ts warm, wall',
      value: ratio(passes, 'runner, .ts warm', loop, 'wallMs'),
      limit: 1.18,
    },
    { what: '.ts warm, CPU', value: ratio(passes, 'runner, .ts warm', loop, 'cpuMs'), limit: 1.18 },
    {
      what: 'two at a time, wall',
      value: ratio(passes, 'runner, .mjs, two at a time', loop, 'wallMs'),
      limit: 0.75,
    },
    {
      what: 'empty tier, wall',
      value: ratio(idle, 'runner, empty tier', empty, 'wallMs'),
      limit: 1.8,
    },
    {
      what: 'own peak memory',
      value: peakOf(passes, 'runner, .mjs') / peakOf(idle, empty),
      limit: 1.5,
    },
  ];
}

function peakOf(from: Measured, name: string): number {
  return median((from.get(name) ?? []).flatMap(({ peakRssBytes }) => peakRssBytes ?? []));
}
