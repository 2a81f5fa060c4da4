import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LoggedJob, LoggedRun } from '../support/engines/engine.ts';
import { type Fault, runWithFault } from '../support/faults/faults.ts';
import { findViolations, nodeScript, shellScript } from '../support/faults/invariants.ts';
import { type LogContent, listOpenJobs, listRunProcesses, readLog } from '../support/faults/log-content.ts';
import { rounds, seed } from '../support/faults/rounds.ts';
import { changeLog } from '../support/log.ts';
import { makeSeenRoot } from '../support/site.ts';
import { until } from '../support/until.ts';
import {
  foreseeDue,
  foreseePass,
  HOUR,
  isDue,
  judge,
  type ModelJob,
  type ModelOutcome,
  type ModelPass,
  type ModelRun,
  type ModelScript,
  periodStart,
  tierOf,
  type World,
} from './model.ts';

const scripts: readonly ModelScript[] = [
  { name: 'hourly/a', tries: 3, onCrash: 'retry' },
  { name: 'hourly/b', tries: 1, onCrash: null },
  { name: 'daily/c', tries: 2, onCrash: 'skip' },
  { name: 'daily/d', tries: 1, onCrash: 'retry' },
];

const files = {
  'runner.config.json': JSON.stringify({ retention: { succeeded: '9999d', failed: '9999d' } }),
  'jobs/hourly/a.sh': shell('hourly/a', ['@retries 2', '@on-crash retry']),
  'jobs/hourly/b.mjs': node('hourly/b', []),
  'jobs/daily/c.sh': shell('daily/c', ['@retries 1', '@on-crash skip']),
  'jobs/daily/d.mjs': node('daily/d', ['@on-crash retry']),
};

function failFile(name: string): string {
  return `fails-${name.replace('/', '-')}`;
}

function shell(name: string, tags: readonly string[]) {
  const exit = `$(test -e ${failFile(name)}; echo $?) == 0 ? 3 : 0`;
  return shellScript({ tags: [...tags, '@retry-delay 1h'], exit });
}

function node(name: string, tags: readonly string[]) {
  return nodeScript({ tags: [...tags, '@retry-delay 1h'], exit: `existsSync('${failFile(name)}') ? 3 : 0` });
}

type Step =
  | { readonly do: 'pass'; readonly tier: string }
  | { readonly do: 'due' }
  | { readonly do: 'crash'; readonly args: string; readonly point: number; readonly machine: boolean }
  | { readonly do: 'set the clock'; readonly hours: number }
  | { readonly do: 'fail' | 'succeed'; readonly script: string }
  | { readonly do: 'pause' | 'resume'; readonly name: string };

const tier = fc.constantFrom('hourly', 'daily');
const script = fc.constantFrom(...scripts.map(({ name }) => name));
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('pass'), tier }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('due') }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('crash'),
      args: fc.constantFrom('hourly', 'daily', 'due'),
      point: fc.integer({ min: 1, max: 180 }),
      machine: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('set the clock'), hours: fc.constantFrom(1, 1, 2, 24, -1, -24) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('fail', 'succeed'), script }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom('pause', 'resume', 'resume'),
      name: fc.constantFrom('hourly', 'daily/c'),
    }),
  },
) as fc.Arbitrary<Step>;

/** Scripts that fail make most of what can happen: some do so from the beginning. */
const story = fc
  .tuple(fc.subarray(scripts.map(({ name }) => name)), fc.array(step, { minLength: 6, maxLength: 10 }))
  .map(([failing, steps]): Step[] => [...failing.map((name): Step => ({ do: 'fail', script: name })), ...steps]);

const pass = (name: string): Step => ({ do: 'pass', tier: name });
const setClock = (hours: number): Step => ({ do: 'set the clock', hours });
const crash = (args: string, point: number, machine = false): Step => ({ do: 'crash', args, point, machine });

/** What chance alone comes to too seldom. */
const wellTried: [Step[]][] = [
  // All tries of a job, by passes of either tier.
  [
    [
      { do: 'fail', script: 'hourly/a' },
      pass('hourly'),
      pass('hourly'),
      setClock(1),
      pass('daily'),
      setClock(1),
      pass('hourly'),
      pass('hourly'),
    ],
  ],
  // A retry for which the clock is set back.
  [[{ do: 'fail', script: 'daily/c' }, pass('daily'), setClock(-24), pass('hourly'), setClock(24), { do: 'due' }]],
  // Crashes one after the other, of the machine too, and what is due then.
  [
    [
      pass('daily'),
      crash('hourly', 70),
      crash('hourly', 60, true),
      { do: 'due' },
      crash('due', 80, true),
      crash('due', 90),
      { do: 'due' },
    ],
  ],
  // Of a crash before its process was recorded the files tell when it began, by the machine's own clock.
  [
    [
      { do: 'fail', script: 'hourly/a' },
      { do: 'due' },
      setClock(24),
      setClock(24),
      crash('hourly', 27),
      crash('daily', 53, true),
    ],
  ],
  // What is paused waits, and what has been left waits with it.
  [
    [
      { do: 'pause', name: 'hourly' },
      crash('daily', 200),
      { do: 'due' },
      pass('hourly'),
      { do: 'resume', name: 'hourly' },
      { do: 'due' },
    ],
  ],
];

test(`whatever happens in whatever order, the log agrees with the model (FAULT_SEED=${seed})`, async () => {
  await fc.assert(
    fc.asyncProperty(story, follow),
    // A story takes seconds: it is shown as it is, instead of being made shorter by a hundred more.
    { seed, numRuns: wellTried.length + rounds(14), examples: wellTried, endOnFailure: true },
  );
}, 600_000);

async function follow(steps: readonly Step[]): Promise<void> {
  const site = new Site(await makeSeenRoot(files));
  for (const [index, each] of steps.entries()) {
    const wrong = await site.take(each);
    expect(wrong, `step ${index + 1}: ${JSON.stringify(each)}`).toEqual([]);
  }
  expect(await site.settle(), 'at the end').toEqual([]);
  rmSync(site.root, { recursive: true });
}

/** A clock that stands five minutes past an hour, so that no test comes to the next one by itself. */
const BASE = Date.UTC(2026, 5, 10, 10, 5);

/** A real root, and what has been done to it. */
class Site {
  readonly root: string;
  readonly #failing = new Set<string>();
  readonly #paused = new Set<string>();
  readonly #aheadMs = BASE - Date.now();
  #hours = 0;

  constructor(root: string) {
    this.root = root;
  }

  /** What went otherwise than the model has it. */
  async take(step: Step): Promise<string[]> {
    switch (step.do) {
      case 'pass':
        return await this.#call([step.tier], foreseePass(this.#world(), step.tier));
      case 'due':
        return await this.#call(['due'], foreseeDue(this.#world()));
      case 'crash':
        return await this.#crash(step);
      case 'set the clock':
        this.#hours += step.hours;
        return [];
      case 'fail':
        this.#failing.add(step.script);
        writeFileSync(join(this.root, failFile(step.script)), '');
        return [];
      case 'succeed':
        this.#failing.delete(step.script);
        rmSync(join(this.root, failFile(step.script)), { force: true });
        return [];
      default:
        return await this.#pauseOrResume(step.do, step.name);
    }
  }

  /** With nothing paused, everything that is due done, and each lock taken once more. */
  async settle(): Promise<string[]> {
    await this.#run(['resume']);
    this.#paused.clear();
    const wrong = [...(await this.take({ do: 'pass', tier: 'hourly' }))];
    wrong.push(...(await this.take({ do: 'pass', tier: 'daily' })));
    return [...wrong, ...findViolations(this.root, { hasClockMoved: true })];
  }

  async #call(args: readonly string[], foreseen: readonly ModelRun[]): Promise<string[]> {
    const known = this.#log()?.runs.length ?? 0;
    const isUncertain = args[0] === 'due' && this.#isTakenUp();
    const { status, stderr } = await this.#run(args);
    const runs = (this.#log()?.runs ?? []).slice(known).map(toModelRun);
    const isForeseen = isUncertain ? isPartOf(runs, foreseen) : isSame(runs, foreseen);
    return [
      ...(status === 0 || status === 1 ? [] : [`it ended with ${status}: ${stderr}`]),
      ...(isForeseen ? [] : [`foreseen: ${tell(foreseen)}, but done: ${tell(runs)}`]),
      ...this.#check(),
    ];
  }

  /** Of a pass that died in this period `due` runs again what was not done, which is for it to know. */
  #isTakenUp(): boolean {
    const world = this.#world();
    return [...world.passes].some(([tier, { crashes }]) => crashes > 0 && isDue(world, tier));
  }

  async #crash({ args, point, machine }: Extract<Step, { do: 'crash' }>): Promise<string[]> {
    const world = this.#world();
    const foreseen = args === 'due' ? foreseeDue(world) : foreseePass(world, args);
    const known = this.#log()?.runs.length ?? 0;
    await this.#run([args], { at: `after ${point}` });
    if (machine) this.#endMachine();
    await until('nothing runs', () => listRunProcesses(this.root).length === 0);
    await this.#run(['work']);
    const runs = (this.#log()?.runs ?? []).slice(known).map(toModelRun);
    const crashed = runs.filter(({ outcome }) => outcome === 'crashed');
    return [
      ...(crashed.length <= 1 ? [] : [`${crashed.length} runs have crashed`]),
      ...(isPartOf(runs, foreseen) ? [] : [`foreseen: ${tell(foreseen)}, but done: ${tell(runs)}`]),
      ...this.#check(),
    ];
  }

  /** Scripts die with it, and what comes next is another boot. */
  #endMachine(): void {
    for (const { pid } of listRunProcesses(this.root)) killIfThere(pid);
    if (this.#log() === null) return;
    changeLog(
      this.root,
      `update hosts set boot_id = 'an earlier one' where id in (
        select host_id from workers where state = 'running')`,
    );
  }

  async #pauseOrResume(action: 'pause' | 'resume', name: string): Promise<string[]> {
    const { status, stderr } = await this.#run([action, name]);
    if (action === 'pause') this.#paused.add(name);
    else this.#paused.delete(name);
    return status === 0 ? [] : [`${action} ended with ${status}: ${stderr}`];
  }

  #run(args: readonly string[], fault: Fault = {}) {
    return runWithFault(this.root, args, { ...fault, clockMs: this.#aheadMs + this.#hours * HOUR });
  }

  /** Every job is what its tries have made of it, and nothing else is wrong. */
  #check(): string[] {
    const log = this.#log();
    const jobs = log?.jobs ?? [];
    return [
      ...jobs.flatMap((job) => {
        const { name, state } = job;
        const outcomes = outcomesOf(log as LogContent, job);
        const wanted = judge(scripts.find((each) => each.name === name) as ModelScript, outcomes);
        return state === wanted ? [] : [`${name} is ${state} after ${outcomes}, not ${wanted}`];
      }),
      ...findViolations(this.root, { isSettled: false, hasClockMoved: true }),
    ];
  }

  #log(): LogContent | null {
    return readLog(this.root);
  }

  #world(): World {
    const now = Date.now() + this.#aheadMs + this.#hours * HOUR;
    const log = this.#log();
    return {
      now,
      scripts: [...scripts].sort((one, other) => (one.name < other.name ? -1 : 1)),
      failing: this.#failing,
      paused: this.#paused,
      open: log === null ? new Map() : readOpen(log),
      passes: log === null ? new Map() : readPasses(log, now),
    };
  }
}

function readOpen(log: LogContent): ReadonlyMap<string, ModelJob> {
  return new Map(
    listOpenJobs(log).map((job) => {
      const dueAt = job.state === 'retrying' ? job.run_at : null;
      return [job.name, { outcomes: outcomesOf(log, job), dueAt, startedAt: job.started_at }];
    }),
  );
}

/** Of its tries since it was begun anew. */
function outcomesOf(log: LogContent, { id, attempts }: LoggedJob): readonly ModelOutcome[] {
  const runs = log.runs.filter(({ job_id }) => job_id === id);
  return runs.slice(runs.length - attempts).map((run) => toModelRun(run).outcome);
}

function readPasses(log: LogContent, now: number): ReadonlyMap<string, ModelPass> {
  const passes = log.workers.filter(({ kind, state }) => kind === 'tier' && state !== 'skipped');
  const tiers = new Set(scripts.map(({ name }) => tierOf(name)));
  return new Map(
    [...tiers].flatMap((tier) => {
      const own = passes.filter((pass) => pass.tier === tier);
      const last = own.at(-1);
      if (last === undefined) return [];
      const start = periodStart(tier, now);
      const crashes = own.filter(
        ({ state, started_at, scheduled_for }) => state === 'crashed' && scheduled_for === start && started_at >= start,
      ).length;
      const hasCrashed = last.state === 'crashed';
      return [[tier, { startedAt: last.started_at, hasCrashed, crashes }]];
    }),
  );
}

function toModelRun({ script: name, outcome }: LoggedRun): ModelRun {
  return { script: name, outcome: outcome as ModelOutcome };
}

const tell = (runs: readonly ModelRun[]): string =>
  runs
    .map(({ script: name, outcome }) => `${name} ${outcome}`)
    .sort()
    .join(', ') || 'nothing';

const isSame = (runs: readonly ModelRun[], foreseen: readonly ModelRun[]): boolean => tell(runs) === tell(foreseen);

/** As far as it came; and what was under way has crashed. */
function isPartOf(runs: readonly ModelRun[], foreseen: readonly ModelRun[]): boolean {
  const left = [...foreseen];
  return runs.every(({ script: name, outcome }) => {
    const index = left.findIndex((each) => each.script === name && (outcome === 'crashed' || outcome === each.outcome));
    if (index >= 0) left.splice(index, 1);
    return index >= 0;
  });
}

function killIfThere(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
