import { hasRoomToHold, holdScript } from '../../execution/isolated/held-script.ts';
import type { RunEnd } from '../../execution/result/result.ts';
import type { TierPass } from '../invocation/invocation.ts';
import type { ClaimedRun, EndedScript, PassJob, RecordedRun } from '../record/run-recorder.ts';
import { runJob, type Turn, toRequest } from './run-job.ts';

interface WorkedOff {
  readonly ends: readonly RunEnd[];
  /** What was not started: the pass was told to stop, or has to wait for a better time. */
  readonly rest: readonly PassJob[];
}

/** Runs the jobs in their order, so many at a time. */
export async function workOff(pass: TierPass, jobs: readonly PassJob[]): Promise<WorkedOff> {
  const { settings } = pass.runner;
  const concurrency = settings.tiers[pass.tier]?.concurrency ?? settings.concurrency;
  const waiting = [...jobs];
  const ends: RunEnd[] = [];
  const lanes = Math.min(concurrency, jobs.length);
  // Several at a time leave no processor to start one more on.
  const mayHold = lanes === 1 && jobs.length > 1 && pass.admit === null && hasRoomToHold();
  const work = async (): Promise<void> => {
    const lane = new Lane(pass, waiting, mayHold);
    try {
      for (let turn = await lane.next(); turn !== null; turn = await lane.next()) {
        ends.push(await lane.run(turn));
      }
    } finally {
      await lane.giveBack();
    }
  };
  await waitForAll(pass, Array.from({ length: lanes }, work));
  return { ends, rest: waiting };
}

/** A lane that breaks off, for want of the log or the disk, leaves the others to end what they run. */
async function waitForAll(pass: TierPass, lanes: readonly Promise<void>[]): Promise<void> {
  for (const lane of lanes) {
    lane.catch((error) => pass.stop.startNothing(`the pass was aborted: ${String(error)}`));
  }
  const settled = await Promise.allSettled(lanes);
  const broken = settled.find((each) => each.status === 'rejected');
  if (broken !== undefined) throw broken.reason;
}

/** What runs before a held process is short: it does not wait for long. */
const LONGEST_BEFORE_HELD_MS = 5_000;

/**
 * One job after the other. Where nothing can speak against the next one, it is claimed in the commit that settles
 * the one before; and while that one runs, the process of the next is started, and held until then.
 */
class Lane {
  readonly #pass: TierPass;
  readonly #waiting: PassJob[];
  readonly #mayHold: boolean;
  /** Claimed, and not begun. */
  readonly #claimed: ClaimedRun[] = [];
  /** The one whose process is started, or is being started. */
  #held: Promise<Turn | null> | null = null;

  constructor(pass: TierPass, waiting: PassJob[], mayHold: boolean) {
    this.#pass = pass;
    this.#waiting = waiting;
    this.#mayHold = mayHold;
  }

  /** The next job, as this worker's own; null: none may be started. */
  async next(): Promise<Turn | null> {
    const { stop } = this.#pass;
    if (stop.reason !== null) return null;
    const held = await this.#held;
    this.#held = null;
    if (held !== null) return held;
    const run = this.#claimed.shift() ?? (await this.#claimNext());
    if (run === null) return null;
    return { run, history: await this.#pass.recorder.readHistory(run), held: null };
  }

  async #claimNext(): Promise<ClaimedRun | null> {
    const { recorder } = this.#pass;
    for (let job = await this.#admitNext(); job !== null; job = await this.#admitNext()) {
      const run = await recorder.claim(job);
      if (run !== null) return run;
    }
    return null;
  }

  /** Taken out before anybody is asked, so that no two lanes wait for the same job. */
  async #admitNext(): Promise<PassJob | null> {
    const { stop, admit } = this.#pass;
    const job = stop.reason === null ? this.#waiting.shift() : undefined;
    if (job === undefined) return null;
    const reason = (await admit?.(job.script)) ?? null;
    if (reason !== null) stop.startNothing(reason);
    if (stop.reason === null) return job;
    this.#waiting.unshift(job);
    return null;
  }

  async run(turn: Turn): Promise<RunEnd> {
    return await runJob(this.#pass, turn, {
      onStarted: () => this.#holdNext(turn),
      end: (ended) => this.#end(ended),
    });
  }

  /** Starts the process of the next job while this one runs. */
  #holdNext(running: Turn): void {
    const job = this.#claimed[0] ?? this.#waiting[0];
    // It may have had to be started a second time.
    if (this.#held !== null || !this.#isToBeHeld(job, running)) return;
    this.#held = this.#hold();
    // Whoever comes to its turn meets it.
    this.#held.catch(() => {});
  }

  async #hold(): Promise<Turn | null> {
    const run = this.#claimed.shift() ?? (await this.#claimNext());
    if (run === null) return null;
    const history = await this.#pass.recorder.readHistory(run);
    return { run, history, held: await holdScript(toRequest(this.#pass, run, history)) };
  }

  #isToBeHeld(job: PassJob | undefined, { history }: Turn): boolean {
    if (job === undefined || !this.#mayHold || this.#pass.stop.reason !== null) return false;
    const { launch, refusals } = job.script;
    const { lastDurationMs } = history;
    const isShort = lastDurationMs !== null && lastDurationMs <= LONGEST_BEFORE_HELD_MS;
    return isShort && launch.kind === 'node' && refusals.length === 0;
  }

  async #end(ended: EndedScript): Promise<RecordedRun> {
    const job = (await this.#isNextWanted()) ? (this.#waiting.shift() ?? null) : null;
    const recorded = await this.#pass.recorder.end(ended, job);
    if (recorded.next !== null) this.#claimed.push(recorded.next);
    return recorded;
  }

  /** Behind one whose process is held already, only what is to be held, too, while that one runs. */
  async #isNextWanted(): Promise<boolean> {
    const { admit, stop } = this.#pass;
    const held = await this.#held?.catch(() => null);
    if (admit !== null || stop.reason !== null || this.#claimed.length > 0) return false;
    return held == null || this.#isToBeHeld(this.#waiting[0], held);
  }

  /** What is not going to begin waits as before. */
  async giveBack(): Promise<void> {
    const held = await this.#held?.catch(() => null);
    await held?.held?.drop();
    for (const run of [...this.#claimed.reverse(), ...(held ? [held.run] : [])]) {
      await this.#pass.recorder.release(run);
      const { key, state, claim, ...job } = run;
      this.#waiting.unshift(job);
    }
  }
}
