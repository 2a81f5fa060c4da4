import { AsyncLocalStorage } from 'node:async_hooks';
import { callHandler } from './call-handler.ts';
import { describeError } from './describe-error.ts';
import { describeUnsettled } from './describe-unsettled.ts';
import { emptyFolder } from './empty-folder.ts';
import { guardExit } from './guard-exit.ts';
import {
  CHANNEL_FD,
  type HostOptions,
  type JobMessage,
  type Stray,
  type ToChild,
} from './handler-contract.ts';
import { HandlerShelf } from './handler-shelf.ts';
import { HandlerUpdates } from './handler-updates.ts';
import { leaveStray } from './leave-stray.ts';
import { linkAnew } from './link-anew.ts';
import { type Meter, startMeter } from './meter.ts';
import { type Channel, openChannel } from './open-channel.ts';
import type { HandlerEnd, ProbeError, ProbeResult } from './probe-contract.ts';
import { failure, UNSETTLED_EXIT_CODE } from './record-end.ts';
import { runVariables } from './run-variables.ts';
import { writeResult } from './write-result.ts';

/** A run that has begun: also what its timers and promises are known by after its end. */
interface Run {
  readonly message: JobMessage;
  readonly meter: Meter;
  /** What ends the process. */
  error: ProbeError | null;
  stray: Stray | null;
}

/** The run that has ended last, of which the runner may not have heard yet. */
interface LastRun {
  readonly runId: number | string;
  readonly resultPath: string;
  readonly outputPath: string;
  readonly result: ProbeResult;
}

/** Calls handlers in this process, one job after another, as the runner says. */
export class HandlerServer {
  readonly #options: HostOptions;
  readonly #runs = new AsyncLocalStorage<Run>();
  readonly #updates: HandlerUpdates;
  readonly #channel: Channel;
  readonly #shelf: HandlerShelf;
  readonly #exit: typeof process.exit;
  #current: Run | null = null;
  #last: LastRun | null = null;
  /** Nothing is left that keeps it alive, and the handler has not ended. */
  #hasRunOut = false;
  #isOrphan = false;

  constructor(options: HostOptions) {
    this.#options = options;
    this.#exit = guardExit(() => !this.#isOver(this.#runs.getStore()));
    process.on('uncaughtException', (thrown) => this.#judgeUncaught(thrown));
    process.on('beforeExit', () => {
      this.#hasRunOut = true;
    });
    process.on('exit', (code) => this.#recordExit(code));
    // Only now: what it puts the process back to has these listeners.
    this.#shelf = new HandlerShelf();
    this.#channel = openChannel(
      CHANNEL_FD,
      (message) => this.#take(message),
      () => this.#loseRunner(),
    );
    this.#updates = new HandlerUpdates((update, data) => this.#channel.send({ update, data }));
    this.#channel.send({ ready: true });
  }

  #take(message: ToChild): void {
    if ('bye' in message) this.#exit(0);
    if ('updated' in message) {
      this.#updates.settle(message.updated, message.problem);
      this.#keepAlive();
    } else void this.#serve(message);
  }

  async #serve(message: JobMessage): Promise<void> {
    const { job, runId, script } = message;
    const run: Run = { message, meter: startMeter(), error: null, stray: null };
    this.#current = run;
    Object.assign(process.env, runVariables({ ...job, runId, script, job }));
    this.#keepAlive();
    const end = await this.#runs.run(run, () => this.#call(message));
    this.#end(run, end);
  }

  async #call({ path, job }: JobMessage): Promise<HandlerEnd> {
    try {
      // Whatever a module begins is no single job's.
      const exported = await this.#runs.exit(() => this.#shelf.take(path));
      return await callHandler(exported, path, job, (data) => this.#update(data));
    } catch (error) {
      return { exitCode: 1, error: describeError(error) };
    }
  }

  #update(data: string): Promise<void> {
    // Nobody is there to write it down; that is no reason for the job to fail.
    if (this.#isOrphan) return Promise.resolve();
    const told = this.#updates.send(data);
    this.#keepAlive();
    return told;
  }

  /** During a run the channel alone would let a promise that never settles look like one that takes long. */
  #keepAlive(): void {
    this.#channel.keepAlive(this.#current === null || this.#updates.isWaiting);
  }

  #end(run: Run, end: HandlerEnd): void {
    const { result, rssBytes } = run.meter.measure(end);
    const loaded = this.#shelf.takeLoaded();
    // Node remembers a module that failed, and would not try it again.
    const isSpoilt = !this.#shelf.has(run.message.path);
    this.#current = null;
    if (this.#isOrphan) this.#leave(run.message, result);
    this.#channel.send({
      end: result,
      rssBytes,
      ...(loaded && { loaded }),
      ...(isSpoilt && { isSpoilt }),
      ...(run.stray && { stray: run.stray }),
    });
    const { runId, resultPath, outputPath } = run.message;
    this.#last = { runId, resultPath, outputPath, result };
    this.#keepAlive();
    this.#shelf.restore();
    emptyFolder(this.#options.temporary);
  }

  /** The job in hand is finished for whoever comes next; what was told last may not have arrived. */
  #loseRunner(): void {
    this.#isOrphan = true;
    this.#updates.settleAll();
    if (this.#current !== null) return;
    if (this.#last === null) this.#exit(0);
    this.#leave(this.#last, this.#last.result);
  }

  #leave(paths: Pick<LastRun, 'resultPath' | 'outputPath'>, result: ProbeResult): never {
    linkAnew(this.#options.output, paths.outputPath);
    writeResult(paths.resultPath, result);
    return this.#exit(0);
  }

  /** Of a run that has ended, the one that is under way is not to blame; all else ends the process. */
  #judgeUncaught(thrown: unknown): void {
    const run = this.#current;
    const owner = this.#runs.getStore();
    const stray: Stray = {
      runId: owner?.message.runId ?? null,
      lastRunId: run?.message.runId ?? this.#last?.runId ?? null,
      sentence: sentenceOf(describeError(thrown)),
    };
    if (run !== null && this.#isOver(owner)) run.stray ??= stray;
    // A listener besides ours: the handler deals with it itself.
    else if (process.listenerCount('uncaughtException') === 1) this.#endByError(thrown, stray);
  }

  /** Whatever no run has begun belongs to the one that is under way. */
  #isOver(run: Run | undefined): boolean {
    return run !== undefined && run !== this.#current;
  }

  #endByError(thrown: unknown, stray: Stray): void {
    if (this.#current === null) leaveStray(this.#options.temporary, stray);
    else {
      this.#current.error = describeError(thrown);
      process.stderr.write(`Uncaught ${this.#current.error.stack ?? stray.sentence}\n`);
    }
    this.#exit(1);
  }

  #recordExit(code: number): void {
    const run = this.#current;
    if (run === null) return;
    const isEarly = code === 0;
    const exitCode = isEarly ? UNSETTLED_EXIT_CODE : code;
    process.exitCode = exitCode;
    const early = isEarly ? failure(describeUnsettled(this.#hasRunOut).sentence) : null;
    const { result } = run.meter.measure({ exitCode, error: run.error ?? early });
    // The runner may have died, and this process not have come to hear of it.
    linkAnew(this.#options.output, run.message.outputPath);
    writeResult(run.message.resultPath, result);
  }
}

function sentenceOf({ name, message }: ProbeError): string {
  const [line = ''] = message.split('\n');
  return line === '' ? name : `${name}: ${line}`;
}
