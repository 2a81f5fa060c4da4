import { dirname, join } from 'node:path';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { type FileState, isUnchanged } from '../child/file-state.ts';
import {
  type EndMessage,
  type FromChild,
  HOST_VARIABLE,
  type HostOptions,
  type JobMessage,
  type Stray,
  type ToChild,
} from '../child/handler-contract.ts';
import { splitLines } from '../child/message-lines.ts';
import { readStartTicks } from '../process/process-identity.ts';
import { buildNodeCommand } from './command.ts';
import { describeNoFiles } from './describe-not-started.ts';
import { buildEnvironment } from './environment.ts';
import { type HandlerRequest, toRunRequest } from './handler-request.ts';
import { runFilesOf } from './run-files.ts';
import type { HandlerFacts } from './run-request.ts';
import {
  type Exit,
  type StartedProcess,
  type StartFailure,
  startCommand,
} from './start-process.ts';
import { signalGroup } from './terminate.ts';
import { WarmFiles } from './warm-files.ts';

/** How a child's part of a run ended. */
export type ServedRun =
  | { readonly message: EndMessage }
  | {
      readonly exit: Exit;
      /** It ended itself for what an earlier run had left behind, before it began with this one. */
      readonly stray: Stray | null;
    };

/** A process that calls the handlers of many jobs, one after the other. */
export class WarmChild {
  readonly pid: number;
  readonly startTicks: number | null;
  /** What it was started with, and no handler can change. */
  readonly kind: string;
  readonly startedAt = performance.now();
  readonly files: WarmFiles;
  /** How many jobs it has begun. */
  jobs = 0;
  /** CPU time of all its jobs so far. */
  readonly usedCpu = { userCpuMs: 0, systemCpuMs: 0 };
  isReady = false;
  readonly #channel: Duplex;
  readonly #gone: Promise<Exit>;
  #exit: Exit | null = null;
  #loaded: readonly FileState[] = [];
  #stray: Stray | null = null;
  #isGone = false;
  #settle: (served: ServedRun) => void = () => {};
  #onUpdate: HandlerFacts['onUpdate'] = () => {};
  #updates: Promise<void> = Promise.resolve();

  /** Starts one for handlers of this kind; `onStarted` is not yet told. */
  static async start(request: HandlerRequest): Promise<WarmChild | StartFailure> {
    let files: WarmFiles;
    try {
      files = new WarmFiles(request.state);
    } catch (error) {
      return { failure: describeNoFiles(error as NodeJS.ErrnoException) };
    }
    const started = await startHost(request, files);
    if (!('failure' in started)) return new WarmChild(started, files, request);
    files.remove();
    return started;
  }

  private constructor(started: StartedProcess, files: WarmFiles, request: HandlerRequest) {
    this.pid = started.pid;
    this.startTicks = readStartTicks(started.pid);
    this.kind = kindOf(request);
    this.files = files;
    this.#channel = started.channel as Duplex;
    this.#gone = this.#waitForEnd(started);
    this.#listen();
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
      this.#stray === null &&
      this.kind === kindOf(request) &&
      this.#loaded.every(isUnchanged) &&
      !this.files.hasStrayOutput()
    );
  }

  /** Settles when the handler has ended, or the process has. */
  async serve(message: JobMessage, onUpdate: HandlerFacts['onUpdate']): Promise<ServedRun> {
    this.jobs += 1;
    this.#onUpdate = onUpdate;
    const ended = new Promise<ServedRun>((resolve) => {
      this.#settle = resolve;
    });
    // Each job adding to what waits for the process's end would be kept until then.
    if (this.#isGone) this.#settleGone();
    else this.#send(message);
    const served = await ended;
    await this.#updates;
    return served;
  }

  /** Settles when the process is gone; it leaves at once, as no job is there. */
  async close(): Promise<Exit> {
    if (this.#exit === null) this.#send({ bye: true });
    const timer = new AbortController();
    const slow = sleep(CLOSE_MS, 'slow', { signal: timer.signal }).catch(() => 'gone');
    if ((await Promise.race([slow, this.#gone])) === 'slow') signalGroup(this.pid, 'SIGKILL');
    timer.abort();
    return await this.#gone;
  }

  #send(message: ToChild): void {
    this.#channel.write(`${JSON.stringify(message)}\n`);
  }

  #listen(): void {
    this.#channel.setEncoding('utf8');
    this.#channel.on(
      'data',
      splitLines((line) => this.#take(JSON.parse(line) as FromChild)),
    );
    // Writing to a process that is gone; its end tells.
    this.#channel.on('error', () => {});
  }

  #take(message: FromChild): void {
    if ('end' in message) {
      const { end, loaded } = message;
      this.usedCpu.userCpuMs += end.userCpuMs;
      this.usedCpu.systemCpuMs += end.systemCpuMs;
      if (loaded !== undefined) this.#loaded = [...this.#loaded, ...loaded];
      this.#settle({ message });
    } else if ('update' in message) this.#write(message.update, message.data);
    else if ('stray' in message) this.#stray = message.stray;
    else this.isReady = true;
  }

  /** One after the other, as the handler has sent them. */
  #write(updated: number, data: string): void {
    const onUpdate = this.#onUpdate;
    const write = async (): Promise<void> => onUpdate(data);
    this.#updates = this.#updates.then(write).then(
      () => this.#send({ updated, problem: null }),
      (error) => this.#send({ updated, problem: String((error as Error).message ?? error) }),
    );
  }

  /** Its last words may still be on their way when it has ended. */
  async #waitForEnd({ exited }: StartedProcess): Promise<Exit> {
    const closed = new Promise<void>((resolve) => this.#channel.once('close', resolve));
    const exit = await exited;
    this.#exit = exit;
    const timer = new AbortController();
    const drained = sleep(CLOSE_MS, undefined, { signal: timer.signal }).catch(() => {});
    await Promise.race([closed, drained]);
    timer.abort();
    this.#channel.destroy();
    this.#isGone = true;
    this.#settleGone();
    return exit;
  }

  #settleGone(): void {
    const exit = this.#exit;
    if (exit !== null) this.#settle({ exit, stray: this.#stray });
  }
}

const CLOSE_MS = 1_000;

async function startHost(
  request: HandlerRequest,
  files: WarmFiles,
): Promise<StartedProcess | StartFailure> {
  const { state, root, script, probePath } = request;
  const { output, temporary } = files;
  const options: HostOptions = { root, cacheFolder: state.cache, output, temporary };
  const runFiles = { ...runFilesOf(state, request.runId), temporary };
  const environment = buildEnvironment(toRunRequest(request), runFiles);
  const hostPath = join(dirname(probePath), 'handler-host.cjs');
  const heapLimitBytes = script.options.memoryBytes ?? null;
  return await startCommand(request, buildNodeCommand(heapLimitBytes, hostPath), {
    env: {
      ...environment,
      RUNNER_CHILD: files.name,
      [HOST_VARIABLE]: JSON.stringify(options),
    },
    stdio: ['ignore', files.appendFd, files.appendFd, files.fd, 'pipe'],
  });
}

/** What a process is given at its start, once for all. */
function kindOf({ script, root, state }: HandlerRequest): string {
  const { memoryBytes, nice, env } = script.options;
  return `${memoryBytes} ${nice} ${env} ${root} ${state.path}`;
}
