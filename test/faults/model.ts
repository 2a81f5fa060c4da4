/*
 * What a runner is to do, told a second time and without any of its code: jobs, tries, pauses, tiers
 * that are due. No processes, no locks, no clock of its own: whatever befalls the real ones, their log
 * must agree with this.
 */

export const HOUR = 3_600_000;
const MINUTE = HOUR / 60;
const DAY = 24 * HOUR;

/** A script as the model knows it. All wait an hour before another try. */
export interface ModelScript {
  readonly name: string;
  readonly tries: number;
  readonly onCrash: 'retry' | 'skip' | null;
}

export type ModelOutcome = 'succeeded' | 'failed' | 'crashed' | 'running';
export type ModelState = 'queued' | 'running' | 'retrying' | 'finished' | 'failed' | 'cancelled';

/** What must have become of a job after these tries. */
export function judge(script: ModelScript, outcomes: readonly ModelOutcome[]): ModelState {
  const last = outcomes.at(-1);
  if (last === undefined) return 'queued';
  if (last === 'running') return 'running';
  if (last === 'succeeded') return 'finished';
  if (last === 'crashed' && script.onCrash === 'skip') return 'cancelled';
  const second = last === 'crashed' && script.onCrash === 'retry' ? 2 : 1;
  return outcomes.length < Math.max(script.tries, second) ? 'retrying' : 'failed';
}

/** A job that has not ended. */
export interface ModelJob {
  readonly outcomes: readonly ModelOutcome[];
  /** Null: it waits for nothing. */
  readonly dueAt: number | null;
  /** Null: no try has begun. */
  readonly startedAt: number | null;
}

/** The last pass of a tier, and how many for this period have died. */
export interface ModelPass {
  readonly startedAt: number;
  readonly hasCrashed: boolean;
  readonly crashes: number;
}

export interface World {
  readonly now: number;
  readonly scripts: readonly ModelScript[];
  readonly failing: ReadonlySet<string>;
  readonly paused: ReadonlySet<string>;
  readonly open: ReadonlyMap<string, ModelJob>;
  readonly passes: ReadonlyMap<string, ModelPass>;
}

export interface ModelRun {
  readonly script: string;
  readonly outcome: ModelOutcome;
}

export const tierOf = (script: string): string => script.split('/')[0] as string;

/** What `runner <tier>` runs when nothing goes wrong. */
export function foreseePass(world: World, tier: string): readonly ModelRun[] {
  const play = new Play(world);
  play.pass(tier);
  play.leftovers();
  return play.runs;
}

/** What `runner due` runs. */
export function foreseeDue(world: World): readonly ModelRun[] {
  const play = new Play(world);
  play.leftovers();
  for (const tier of new Set(world.scripts.map(({ name }) => tierOf(name)))) {
    if (isDue(world, tier)) play.pass(tier);
  }
  play.leftovers();
  return play.runs;
}

/** Twice a pass that dies is taken up in its period, and not a third time. */
export function isDue({ now, passes }: World, tier: string): boolean {
  const last = passes.get(tier);
  if (last === undefined || last.startedAt > now + MINUTE) return true;
  if (last.startedAt < periodStart(tier, now)) return true;
  return last.hasCrashed && last.crashes < 2;
}

/** In UTC. */
export function periodStart(tier: string, now: number): number {
  return now - (now % (tier === 'hourly' ? HOUR : DAY));
}

class Play {
  readonly runs: ModelRun[] = [];
  readonly #world: World;
  readonly #open: Map<string, ModelJob>;

  constructor(world: World) {
    this.#world = world;
    this.#open = new Map(world.open);
  }

  pass(tier: string): void {
    for (const script of this.#world.scripts.filter(({ name }) => tierOf(name) === tier)) {
      if (this.#mayRun(script.name)) this.#run(script);
    }
  }

  leftovers(): void {
    for (const script of this.#world.scripts) {
      if (this.#open.has(script.name) && this.#mayRun(script.name)) this.#run(script);
    }
  }

  #mayRun(name: string): boolean {
    const { paused, now } = this.#world;
    if (['*', tierOf(name), name].some((each) => paused.has(each))) return false;
    const job = this.#open.get(name);
    if (job === undefined || job.dueAt === null) return true;
    // Begun later than now, or further ahead than any delay: the clock was set back meanwhile.
    return job.dueAt <= now || (job.startedAt ?? 0) > now + MINUTE || job.dueAt - now > HOUR;
  }

  #run(script: ModelScript): void {
    const outcome = this.#world.failing.has(script.name) ? 'failed' : 'succeeded';
    const outcomes = [...(this.#open.get(script.name)?.outcomes ?? []), outcome] as const;
    this.runs.push({ script: script.name, outcome });
    const isOpen = judge(script, outcomes) === 'retrying';
    const { now } = this.#world;
    if (isOpen) this.#open.set(script.name, { outcomes, dueAt: now + HOUR, startedAt: now });
    else this.#open.delete(script.name);
  }
}
