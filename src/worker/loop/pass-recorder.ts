import { isDefect } from '../../store/failures.ts';
import type { NotifyDurable } from '../../store/sqlite/session.ts';
import type { NewWorker } from '../../store/statements/workers.ts';
import type { Invocation } from '../invocation/invocation.ts';
import { reportStoreFailure } from '../invocation/with-store.ts';
import type { EndedRun, PassJob, RunProgress, WhoStops } from './recorder.ts';
import type { KnownHistory, ScriptRecorder, ScriptRun, ScriptTurn } from './script-recorder.ts';
import type { SpoolRecorder } from './spool-recorder.ts';

type Place = ScriptRecorder | SpoolRecorder;

/** A pass whose runs are recorded. */
interface Recorded {
  readonly call: Invocation;
  readonly worker: NewWorker;
  /** Whether other machines may take over runs that cannot be recorded; such runs are not started. */
  readonly isShared?: boolean;
}

/**
 * Records the runs of a pass. It continues in a spool if the log or the spool is lost in the middle of a pass, and
 * stays there. A defect of the runner is not such a loss: it would occur elsewhere, too, or be hidden.
 */
export class PassRecorder {
  readonly #pass: Recorded;
  readonly #first: Place;
  readonly #begun: Promise<Place>;
  #current: Promise<Place>;
  #spools: readonly SpoolRecorder[];

  constructor(pass: Recorded, first: Place) {
    this.#pass = pass;
    this.#first = first;
    this.#begun = Promise.resolve(first);
    this.#current = this.#begun;
    this.#spools = 'close' in first ? [first] : [];
  }

  /** Whether runs were recorded without the log. */
  get isSpooled(): boolean {
    return this.#spools.length > 0;
  }

  /** @throws if there is no other place either */
  async replace(error: unknown): Promise<Place> {
    const { call, worker } = this.#pass;
    const { SpoolRecorder } = await import('./spool-recorder.ts');
    const spool = new SpoolRecorder(call, worker, reportStoreFailure(call, error));
    this.#spools = [...this.#spools, spool];
    return spool;
  }

  /** Call it when nothing runs any more. */
  close(): void {
    for (const spool of this.#spools) spool.close();
  }

  #replaceOnce(failed: Promise<Place>, error: unknown): Promise<Place> {
    // If several scripts run at a time, another one may have noticed the loss first.
    if (this.#current === failed) this.#current = this.replace(error);
    return this.#current;
  }

  async #attempt<T>(
    record: (place: Place) => Promise<T>,
    otherwise: (elsewhere: Place) => Promise<T> = record,
  ): Promise<T> {
    const used = this.#current;
    try {
      return await record(await used);
    } catch (error) {
      if (isDefect(error)) throw error;
      return await otherwise(await this.#replaceOnce(used, error));
    }
  }

  /** Null: the log is lost, so that all further runs are recorded without it. */
  async askLog<T>(ask: () => Promise<T>): Promise<T | null> {
    return this.isSpooled ? null : await this.#attempt<T | null>(ask, async () => null);
  }

  /**
   * Settles the runs that have ended.
   *
   * @param then a job to claim in the same commit, or `finish`: it finishes the worker; null: neither. The job is not
   * among those claimed if another worker has it
   */
  turn(ended: readonly EndedRun<ScriptRun>[], then: PassJob | 'finish' | null): Promise<ScriptTurn> {
    return this.#attempt((place) => place.turn(ended, then));
  }

  /** Gives back claims that have not begun. */
  release(runs: readonly ScriptRun[]): Promise<void> {
    return this.#attempt((place) => place.release(runs));
  }

  /** Cancels a claim that has not begun. */
  cancel(run: ScriptRun, reason: string): Promise<void> {
    return this.#attempt((place) => place.cancel(run, reason));
  }

  /**
   * Moves the recording of this run and all later ones elsewhere, if its files cannot be made in their place. Null:
   * nothing more may start.
   */
  async moveElsewhere(run: ScriptRun, error: unknown): Promise<ScriptRun | null> {
    const used = this.#current;
    const isThere = (await used).state.path === run.state.path;
    await (isThere ? this.#replaceOnce(used, error) : used);
    // A claim that cannot be given back now is released by the process that finds that this worker has ended.
    await this.#first.release([run]).catch(() => {});
    const { next } = await this.turn([], run.job);
    return next[0] ?? null;
  }

  readHistory(run: ScriptRun): Promise<KnownHistory> {
    return this.#attempt((place) => place.readHistory(run));
  }

  /**
   * Call it right before the script starts; it returns that instant. Null: the script must not start, because another
   * machine has taken it over.
   */
  begin(run: ScriptRun): Promise<number | null> {
    const begin = (place: Place): Promise<number | null> => place.begin(run);
    return this.#attempt(begin, this.#pass.isShared ? async () => null : begin);
  }

  /** Call it once the run has lasted a moment: from then on others see it, and may stop it. */
  async recordProgress(run: ScriptRun, startedAt: number, progress: RunProgress): Promise<WhoStops | null> {
    const record = (place: Place): Promise<WhoStops | null> => place.recordProgress(run, startedAt, progress);
    if (!this.#pass.isShared) return await this.#attempt(record);
    // The run goes on, and its end contains everything: a server may be back by then.
    return await record(await this.#current).catch(() => null);
  }

  /**
   * Calls back once all that is recorded by now survives a power loss, or with the failure that leaves this uncertain.
   */
  onDurable(notify: NotifyDurable): void {
    if (this.#current === this.#begun) this.#first.onDurable(notify);
    else notify(null);
  }
}
