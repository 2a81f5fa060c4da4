import type { Duplex } from 'node:stream';
import { type FileState, isUnchanged } from '../child/file-state.ts';
import type { EndMessage, FromChild, JobMessage, Stray } from '../child/handler-contract.ts';
import { readStartTicks } from '../process/process-identity.ts';
import { describeNoFiles } from './describe-not-started.ts';
import type { HandlerRequest } from './handler-request.ts';
import { readStray } from './read-stray.ts';
import type { HandlerFacts } from './run-request.ts';
import { settleWithin } from './settle-within.ts';
import { kindOf, startHost } from './start-host.ts';
import type { Exit, StartedProcess, StartFailure } from './start-process.ts';
import { signalGroup } from './terminate.ts';
import { openWarmChannel, type WarmChannel } from './warm-channel.ts';
import { WarmFiles } from './warm-files.ts';

/** How a child's part of a run ended. */
export type ServedRun = { readonly message: EndMessage } | EndedChild;

/** A process that is gone, and was not to go. */
interface EndedChild {
  readonly exit: Exit;
  /** It ended itself for what an earlier run had left behind. */
  readonly stray: Stray | null;
  /** It was gone before it had read what it was to do. */
  readonly isUnread: boolean;
  /** We have ended it for what it said. */
  readonly isGarbled: boolean;
}

const CLOSE_MS = 1_000;

/** A process that calls the handlers of many jobs, one after the other. */
export class WarmChild {
  readonly pid: number;
  readonly startTicks: number | null;
  readonly startedAt = performance.now();
  readonly files: WarmFiles;
  /** How many jobs it has begun. */
  jobs = 0;
  /** Whether it has come as far as to wait for jobs. */
  isReady = false;
  /** CPU time of all its jobs so far. */
  readonly usedCpu = { userCpuMs: 0, systemCpuMs: 0 };
  readonly #kind: string;
  readonly #channel: WarmChannel;
  readonly #gone: Promise<Exit>;
  #exit: Exit | null = null;
  #stray: Stray | null = null;
  #isGarbled = false;
  /** In its present run: then it has read what it was to do. */
  #hasUpdated = false;
  #loaded: readonly FileState[] = [];
  #settle: (served: ServedRun) => void = () => {};
  #onUpdate: HandlerFacts['onUpdate'] = () => {};
  #updates: Promise<void> = Promise.resolve();

  /** Starts one for this handler and those that want the same of their process. */
  static async start(request: HandlerRequest): Promise<WarmChild | StartFailure> {
    let files: WarmFiles;
    try {
      files = new WarmFiles(request.state);
    } catch (error) {
      return { failure: describeNoFiles(error as NodeJS.ErrnoException) };
    }
    const started = await startHost(request, files);
    if (!('failure' in started)) return new WarmChild(started, files, kindOf(request));
    files.remove();
    return started;
  }

  private constructor(started: StartedProcess, files: WarmFiles, kind: string) {
    this.pid = started.pid;
    this.startTicks = readStartTicks(started.pid);
    this.files = files;
    this.#kind = kind;
    this.#channel = openWarmChannel(
      started.channel as Duplex,
      (message) => this.#take(message),
      () => this.#endGarbled(),
    );
    this.#gone = this.#waitForEnd(started);
  }

  get hasEnded(): boolean {
    return this.#exit !== null;
  }

  /** What an earlier run has left behind and that has failed while there was no job. */
  get stray(): Stray | null {
    return this.#stray;
  }

  /** Whether it can serve a job as if nothing had been. */
  isUsable(request: HandlerRequest): boolean {
    return (
      this.#exit === null &&
      this.#kind === kindOf(request) &&
      this.#loaded.every(isUnchanged) &&
      !this.files.hasStrayOutput()
    );
  }

  /** Settles when the handler has ended, or the process has. */
  async serve(message: JobMessage, onUpdate: HandlerFacts['onUpdate']): Promise<ServedRun> {
    this.jobs += 1;
    this.#onUpdate = onUpdate;
    this.#hasUpdated = false;
    // Waiting for the process's end anew with each job would add up until then.
    const ended = new Promise<ServedRun>((resolve) => {
      this.#settle = resolve;
    });
    if (this.#exit === null) this.#channel.send(message);
    else this.#settle({ ...this.#describeEnd(await this.#gone), isUnread: true });
    const served = await ended;
    await this.#updates;
    return served;
  }

  /** Settles when the process is gone; it leaves at once, as no job is there. */
  async close(): Promise<Exit> {
    if (this.#exit === null) this.#channel.send({ bye: true });
    if (!(await settleWithin(this.#gone, CLOSE_MS))) signalGroup(this.pid, 'SIGKILL');
    return await this.#gone;
  }

  /** Leaves it alone, as a runner that dies does: it writes down what nobody has recorded, and leaves. */
  abandon(): void {
    this.#channel.close();
  }

  #take(message: FromChild): void {
    if ('update' in message) this.#write(message.update, message.data);
    else if ('end' in message) this.#end(message);
    else this.isReady = true;
  }

  #end(message: EndMessage): void {
    const { end, loaded } = message;
    this.usedCpu.userCpuMs += end.userCpuMs;
    this.usedCpu.systemCpuMs += end.systemCpuMs;
    if (loaded !== undefined) this.#loaded = [...this.#loaded, ...loaded];
    this.#settle({ message });
  }

  /** One after the other, as the handler has sent them. */
  #write(updated: number, data: string): void {
    this.#hasUpdated = true;
    const onUpdate = this.#onUpdate;
    const write = async (): Promise<void> => onUpdate(data);
    const tell = (problem: string | null): void => this.#channel.send({ updated, problem });
    this.#updates = this.#updates.then(write).then(
      () => tell(null),
      (error) => tell(error instanceof Error ? error.message : String(error)),
    );
  }

  async #waitForEnd({ exited }: StartedProcess): Promise<Exit> {
    const exit = await exited;
    this.#exit = exit;
    this.#stray = readStray(this.files.temporary);
    await this.#channel.drain();
    this.#settle(this.#describeEnd(exit));
    return exit;
  }

  #describeEnd(exit: Exit): EndedChild {
    const isUnread = this.#channel.hasLost && !this.#hasUpdated;
    return { exit, stray: this.#stray, isUnread, isGarbled: this.#isGarbled };
  }

  #endGarbled(): void {
    this.#isGarbled = true;
    signalGroup(this.pid, 'SIGKILL');
  }
}
