import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { engine } from '../../support/engines/engines.ts';
import { runWithFault } from '../../support/faults/faults.ts';
import { listRunProcesses } from '../../support/faults/log-content.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { tries } from '../../support/tries.ts';
import { until } from '../../support/until.ts';

/*
 * Chains told a second time, by the runs alone that the log has: no script runs before what it waits for, none runs
 * twice for one end, and none waits once its turn has come. Passes of real processes, which are killed at any point.
 */

type Kind = 'after' | 'after-failure' | 'always';

/** What each script waits for. */
const links: Readonly<Record<string, readonly (readonly [Kind, ...string[]])[]>> = {
  'hourly/1-last': [['after', 'hourly/2-import', 'daily/sum']],
  'hourly/2-import': [['after', 'hourly/3-fetch']],
  'hourly/4-alarm': [['after-failure', 'hourly/3-fetch', 'daily/sum']],
  'daily/clean': [['always', 'hourly/3-fetch']],
  'daily/sum': [['after', 'hourly/2-import']],
  // Machines go by the clock of a server, which stays as it is.
  ...(engine.name === 'sqlite' && { 'hourly/6-report': [['after', 'hourly/5-other']] as const }),
};
/** Its time is 08:30: from midnight on, what was queued on the new day does not count for the day before. */
const scheduled = 'hourly/6-report';
const TIME_MS = 8.5 * 3_600_000;
const DAY_MS = 86_400_000;
const names = [...Object.keys(links), 'hourly/3-fetch', 'hourly/5-other'];
const retried: ReadonlySet<string> = new Set(['hourly/3-fetch']);
const failFile = (name: string): string => `fails-${name.replace('/', '-')}`;

function textOf(name: string): string {
  const tags = (links[name] ?? []).map(([kind, ...scripts]) => `# @${kind} ${scripts.join(' ')}`);
  const retries = retried.has(name) ? ['# @retries 1', '# @retry-delay 1h'] : [];
  if (name === scheduled) tags.push('# @schedule daily at 08:30 in UTC');
  return `${['#!/bin/sh', ...tags, ...retries].join('\n')}\ntest ! -e ${failFile(name)}\n`;
}

type Step =
  | { readonly do: 'pass' | 'kill'; readonly tier: string; readonly host: string; readonly point: number }
  | { readonly do: 'run' | 'fail' | 'succeed' | 'pause' | 'resume'; readonly name: string }
  | { readonly do: 'set the clock'; readonly hours: number };

const ofTier = {
  tier: fc.constantFrom('hourly', 'hourly', 'daily'),
  host: fc.constantFrom('web-1', 'web-2'),
  point: fc.integer({ min: 1, max: 120 }),
};
const name = fc.constantFrom(...names);
const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant('pass'), ...ofTier }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('kill'), ...ofTier }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('fail', 'succeed'), name }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('run', 'pause', 'resume'), name }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('set the clock'), hours: fc.constantFrom(2, 2, 24, -3) }) },
) as fc.Arbitrary<Step>;

interface RunRow {
  readonly id: number;
  readonly script: string;
  readonly attempt: number;
  readonly outcome: string;
  readonly left: string | null;
  readonly kind: string;
}

interface JobRow {
  readonly name: string;
  readonly state: string;
  readonly isOpen: number;
  readonly isMet: number | null;
  readonly queuedFor: number | null;
}

/** A real root, with what its runs say of the ends that each script may use. */
class Site {
  readonly root: string;
  readonly #paused = new Set<string>();
  readonly #used = new Map<string, ReadonlySet<number>>();
  readonly #met = new Set<string>();
  #seen = 0;
  #aheadMs = 0;

  constructor(concurrency: number) {
    const scripts = names.map((each) => [`jobs/${each}.sh`, textOf(each)]);
    const settings = { 'runner.config.json': JSON.stringify({ concurrency }) };
    this.root = makeTemporaryRoot({ ...settings, ...Object.fromEntries(scripts) });
  }

  /** What is wrong after a step. */
  async take(step: Step): Promise<string[]> {
    if (step.do === 'set the clock') this.#setClock(step.hours * 3_600_000);
    else if (step.do === 'fail') writeFileSync(join(this.root, failFile(step.name)), '');
    else if (step.do === 'succeed') rmSync(join(this.root, failFile(step.name)), { force: true });
    else if (step.do === 'pass') return await this.pass(step.tier, step.host);
    else if (step.do === 'kill') return await this.#kill(step);
    else if ('name' in step) return await this.#byHand(step.do, step.name);
    return [];
  }

  /** Machines go by the clock of a server, which stays as it is: what waits for a time comes nearer instead. */
  #setClock(byMs: number): void {
    this.#aheadMs += byMs;
    if (engine.name === 'sqlite' || !engine.hasTables(this.root)) return;
    changeLog(this.root, `update jobs set run_at = run_at - ${byMs} where state = 'retrying'`);
  }

  async pass(tier: string, host = 'web-1'): Promise<string[]> {
    const { status, stderr } = await this.#call([tier], host);
    if (status !== 0 && status !== 1) return [`it ended with ${status}: ${stderr}`];
    return [...this.#judge(), ...this.#findIdle()];
  }

  async #kill({ tier, host, point }: Extract<Step, { do: 'kill' | 'pass' }>): Promise<string[]> {
    await this.#call([tier], host, `after ${point}`);
    await until('nothing runs', () => listRunProcesses(this.root).length === 0);
    // The same machine finds what is left.
    await this.#call(['work'], host);
    return this.#judge();
  }

  async #byHand(what: string, script: string): Promise<string[]> {
    await this.#call([what, script], 'web-1');
    if (what === 'pause') this.#paused.add(script);
    if (what === 'resume') this.#paused.delete(script);
    return this.#judge();
  }

  async resumeAll(): Promise<void> {
    await this.#call(['resume'], 'web-1');
    this.#paused.clear();
  }

  /** A person calls: on a server, cron's calls of one hour would be one. */
  #call(args: readonly string[], host: string, at?: string) {
    const env = { RUNNER_CALLED_BY: 'person', ...(engine.name !== 'sqlite' && { RUNNER_HOST: host }) };
    return runWithFault(this.root, args, { env, clockMs: this.#aheadMs, ...(at !== undefined && { at }) });
  }

  runs(): readonly RunRow[] {
    if (!engine.hasTables(this.root)) return [];
    return queryLog<RunRow>(
      this.root,
      `select runs.id, name as script, attempt, outcome, left_job as "left", kind
       from runs join scripts on scripts.id = script_id join workers on workers.id = worker_id
       where outcome <> 'running' order by runs.id`,
    );
  }

  #jobs(): readonly JobRow[] {
    if (!engine.hasTables(this.root)) return [];
    return queryLog<JobRow>(
      this.root,
      `select name, state, case when finished_at is null then 1 else 0 end as "isOpen", links_met as "isMet",
         scheduled_for as "queuedFor" from jobs`,
    );
  }

  /** Looks at all that has run since the last look, in its order. */
  #judge(): string[] {
    const runs = this.runs();
    const wrong: string[] = [];
    for (const [index, run] of runs.entries()) {
      const isNew = run.id > this.#seen && run.attempt === 1 && run.script in links;
      if (isNew) wrong.push(...this.#judgeRun(run, runs.slice(0, index)));
    }
    this.#seen = runs.at(-1)?.id ?? 0;
    for (const job of this.#jobs()) {
      if (job.isMet !== 1 || job.state !== 'queued' || this.#met.has(job.name)) continue;
      wrong.push(...this.#use(job.name, runs).map((each) => `${job.name} may run, though ${each}`));
      this.#met.add(job.name);
    }
    return wrong;
  }

  #judgeRun({ id, script, kind }: RunRow, before: readonly RunRow[]): string[] {
    if (this.#met.delete(script)) return [];
    const whyNot = [...this.#use(script, before), ...(this.#hasLapsed(script) ? ['its time had lapsed'] : [])];
    return kind === 'script' ? [] : whyNot.map((each) => `run ${id} of ${script} began, though ${each}`);
  }

  /** Uses all ends that there are; what keeps the script from running by them. */
  #use(script: string, runs: readonly RunRow[]): string[] {
    const wrong = this.#findWaits(script, runs);
    const ends = namesIn(script).flatMap((each) => lastRunOf(each, runs)?.id ?? []);
    this.#used.set(script, new Set([...(this.#used.get(script) ?? []), ...ends]));
    return wrong;
  }

  #findWaits(script: string, runs: readonly RunRow[]): string[] {
    const used = this.#used.get(script) ?? new Set();
    return (links[script] ?? []).flatMap(([kind, ...scripts]) => {
      const waits = scripts.filter((each) => {
        const last = lastRunOf(each, runs);
        return last === undefined || used.has(last.id) || !isWanted(kind, last);
      });
      const isShut = kind === 'after-failure' ? waits.length === scripts.length : waits.length > 0;
      return isShut ? [`@${kind} ${waits}`] : [];
    });
  }

  /** Whether the others were queued on the day of the next time of a script, which has not come. */
  #hasLapsed(script: string): boolean {
    if (script !== scheduled) return false;
    const nowMs = Date.now() + this.#aheadMs;
    const midnight = nowMs - (nowMs % DAY_MS);
    const queuedFor = (name: string) => this.#jobs().find((job) => job.name === name)?.queuedFor ?? 0;
    return nowMs < midnight + TIME_MS && namesIn(script).every((name) => queuedFor(name) >= midnight);
  }

  /** Sets the clock on, to a time on the next day at which every script may run. */
  setToNoon(): void {
    this.#aheadMs += DAY_MS + DAY_MS / 2 - ((Date.now() + this.#aheadMs) % DAY_MS);
  }

  /** Scripts that wait although all that they wait for has ended as they want. */
  #findIdle(): string[] {
    const runs = this.runs();
    const jobs = this.#jobs();
    const isOpen = (script: string): boolean => jobs.some((job) => job.name === script && job.isOpen === 1);
    return jobs.flatMap(({ name: script, state, isMet }) => {
      if (!(script in links) || state !== 'queued' || this.#paused.has(script)) return [];
      if (isMet === 1) return [`${script} may run, and does not`];
      const waits = this.#findWaits(script, runs);
      const isKept = waits.length > 0 || namesIn(script).some(isOpen) || this.#hasLapsed(script);
      return isKept ? [] : [`${script} waits for nothing`];
    });
  }
}

const namesIn = (script: string): string[] => (links[script] ?? []).flatMap(([, ...scripts]) => scripts);
const lastRunOf = (script: string, runs: readonly RunRow[]) => runs.findLast((run) => run.script === script);

function isWanted(kind: Kind, { outcome, left }: RunRow): boolean {
  if (left === 'retrying') return false;
  if (kind === 'after') return outcome === 'succeeded';
  return kind === 'always' || left === 'failed';
}

const pass = (tier: string, host = 'web-1'): Step => ({ do: 'pass', tier, host, point: 0 });
const kill = (tier: string, point: number): Step => ({ do: 'kill', tier, host: 'web-1', point });

const hours = (count: number): Step => ({ do: 'set the clock', hours: count });
const day = [hours(8), pass('daily'), pass('hourly'), hours(8), pass('hourly'), hours(8), pass('hourly')];

/** What chance alone comes to too seldom. */
const wellTried: [number, Step[]][] = [
  [1, [pass('daily'), pass('hourly'), pass('hourly', 'web-2'), pass('daily', 'web-2'), pass('hourly')]],
  [
    1,
    [
      { do: 'fail', name: 'hourly/3-fetch' },
      pass('hourly'),
      { do: 'set the clock', hours: 2 },
      pass('daily'),
      pass('hourly'),
    ],
  ],
  [2, [pass('daily'), kill('hourly', 60), kill('hourly', 75), kill('hourly', 90), pass('hourly'), pass('daily')]],
  [
    2,
    [
      pass('hourly'),
      { do: 'set the clock', hours: -3 },
      pass('daily'),
      { do: 'run', name: 'hourly/1-last' },
      pass('hourly'),
    ],
  ],
  // Three days: on the second one, all fails.
  [1, [...day, { do: 'fail', name: 'hourly/5-other' }, ...day, { do: 'succeed', name: 'hourly/5-other' }, ...day]],
];

test('whatever happens in whatever order, scripts run after what they wait for, once for each end', async () => {
  await fc.assert(fc.asyncProperty(fc.constantFrom(1, 2), fc.array(step, { minLength: 5, maxLength: 9 }), follow), {
    numRuns: wellTried.length + tries(60),
    examples: wellTried,
    endOnFailure: true,
  });
}, 900_000);

async function follow(concurrency: number, steps: readonly Step[]): Promise<void> {
  const site = new Site(concurrency);
  for (const [index, each] of steps.entries()) {
    expect(await site.take(each), `step ${index + 1}: ${JSON.stringify(each)}`).toEqual([]);
  }
  // In the end nothing fails or is paused, and retries are due: then each chain has come to its end.
  await site.resumeAll();
  for (const each of names) await site.take({ do: 'succeed', name: each });
  await site.take({ do: 'set the clock', hours: 24 });
  // A schedule begins with the first time after the first pass that is over.
  expect(await site.pass('hourly'), 'before the end').toEqual([]);
  if (engine.name === 'sqlite') site.setToNoon();
  const before = site.runs().length;
  for (const tier of ['hourly', 'daily', 'hourly', 'daily']) expect(await site.pass(tier), 'at the end').toEqual([]);
  const ran = new Set(
    site
      .runs()
      .slice(before)
      .map(({ script }) => script),
  );
  expect(names.filter((each) => !ran.has(each) && each !== 'hourly/4-alarm')).toEqual([]);
}
