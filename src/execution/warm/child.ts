import { basename, dirname, join } from 'node:path';
import type { Duplex } from 'node:stream';
import {
  type EndMessage,
  type FromChild,
  HANDLER_VARIABLE,
  type HostOptions,
  type JobMessage,
  type Stray,
  splitLines,
  type ToChild,
} from '../../child/contract.ts';
import { type FileState, isUnchanged } from '../../child/files.ts';
import { signalGroup } from '../../system/process/tree.ts';
import { readChildMessage, readStray } from '../result/report.ts';
import { runFilesOf } from '../run-files.ts';
import {
  buildEnvironment,
  buildNodeCommand,
  type Exit,
  type HandlerRequest,
  type StartedProcess,
  startCommand,
} from '../start/process.ts';
import { describeNoFiles, type StartFailure } from '../start/start-failure.ts';
import { WarmFiles } from './files.ts';

/**
 * Starts the process that calls handlers. Its environment names the run that it begins with, by which the run is found.
 */
async function startHost(request: HandlerRequest, files: WarmFiles): Promise<StartedProcess | StartFailure> {
  const { state, root, script, key } = request;
  const { output, ledger, temporary, name } = files;
  const isAlone = isIsolated(request);
  const options: HostOptions = { root, cacheFolder: state.cache, output, ledger, temporary, isAlone };
  const environment = buildEnvironment(request, { ...runFilesOf(state, key), temporary });
  const hostPath = join(dirname(request.probePath), basename(request.probePath).replace('probe', 'handler-host'));
  const command = buildNodeCommand(script.options, hostPath);
  return await startCommand(request, command, {
    // One counts file would serve many runs, so these handlers count by `log.count`.
    env: { ...environment, RUNNER_COUNTS: undefined, RUNNER_CHILD: name, [HANDLER_VARIABLE]: JSON.stringify(options) },
    stdio: ['ignore', files.appendFd, files.appendFd, files.fd, 'pipe'],
  });
}

/** Whether the handler wants a process for this one job. */
export function isIsolated({ script }: HandlerRequest): boolean {
  return script.options.isolate === true;
}

/** The properties that a process gets at its start and keeps. */
function kindOf({ script, root, state }: HandlerRequest): string {
  const { memoryBytes, nice, env } = script.options;
  return `${memoryBytes} ${nice} ${env} ${root} ${state.path}`;
}

/** How a run in a child ended: by a message, or with the child. */
export type ServedRun =
  | { readonly message: EndMessage; readonly gone?: undefined }
  | { readonly gone: EndedChild; readonly message?: undefined };

/** A process that has ended although it was not asked to. */
interface EndedChild {
  readonly exit: Exit;
  /** The failed leftover of an earlier run for which the process ended itself; null: none. */
  readonly stray: Stray | null;
  /** The process ended before it had read its work. */
  readonly isUnread: boolean;
  /** The runner ended it for invalid messages. */
  readonly isGarbled: boolean;
}

/** How long to wait for a process's last words: a process that it has started may hold them back. */
const DRAIN_MS = 1_000;

/** Longer than any valid message: a result of 1 MiB is written as JSON within JSON. */
const LONGEST_MESSAGE = 8 * 1024 * 1024;

/** The runner's channel to a warm child. */
interface WarmChannel {
  /** Whether a message is known to be unread, because the process died before it read it. */
  readonly hasLost: boolean;
  send(message: ToChild): void;
  /** Await it once the process has ended: then all of its messages have been taken. */
  drain(): Promise<void>;
  /** Closes the channel as if the runner had died. */
  close(): void;
}

/**
 * @param onGarbage called when the child's messages can no longer be distinguished from a handler's writing; nothing
 * more is read
 */
function openWarmChannel(stream: Duplex, onMessage: (message: FromChild) => void, onGarbage: () => void): WarmChannel {
  let hasLost = false;
  let isGarbled = false;
  const closed = new Promise<void>((resolve) => stream.once('close', resolve));
  const take = (line: string): void => {
    if (isGarbled) return;
    const message = readChildMessage(line);
    isGarbled = message === null;
    if (message === null) onGarbage();
    else onMessage(message);
  };
  stream.setEncoding('utf8');
  stream.on('data', splitLines(take, LONGEST_MESSAGE));
  // The kernel reports messages that lay unread when the other end was closed, or that came later.
  stream.on('error', () => {
    hasLost = true;
  });
  return {
    get hasLost() {
      return hasLost;
    },
    send: (message) => {
      if (stream.writable) stream.write(`${JSON.stringify(message)}\n`);
      else hasLost = true;
    },
    drain: async () => {
      await settleWithin(closed, DRAIN_MS);
      stream.destroy();
    },
    close: () => void stream.destroy(),
  };
}

/** Whether the promise has settled in time. */
async function settleWithin(promise: Promise<unknown>, withinMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, withinMs, false);
  });
  const isInTime = await Promise.race([promise.then(() => true), late]);
  clearTimeout(timer);
  return isInTime;
}

const CLOSE_MS = 1_000;

function messageOf({ job, key, script, state }: HandlerRequest): JobMessage {
  const { result: resultPath, output: outputPath } = runFilesOf(state, key);
  return { job, key, script: script.name, path: script.path, resultPath, outputPath };
}

/** A process that calls one handler for many jobs, one after the other, or for one job only. */
export class WarmChild {
  readonly pid: number;
  readonly startedAt = performance.now();
  readonly files: WarmFiles;
  /** The path of its handler. */
  readonly path: string;
  /** Whether it ends with its one job. */
  readonly isAlone: boolean;
  /** The runner that it served last. */
  owner: object;
  /** Whether it is serving its owner. */
  isBusy = true;
  /**
   * Whether it is to be replaced once the ends of its runs are in the log. Until then it may be the only one that knows
   * them.
   */
  isWorn = false;
  /** Its runs that may be missing in the log. The value says whether the run has left an output file. */
  readonly runs = new Map<string, boolean>();
  /** How many jobs it has begun. */
  jobs = 0;
  /** Whether it has come far enough to wait for jobs. */
  isReady = false;
  /** CPU time of all its jobs so far. */
  readonly usedCpu = { userCpuMs: 0, systemCpuMs: 0 };
  readonly #kind: string;
  readonly #channel: WarmChannel;
  readonly #gone: Promise<Exit>;
  #exit: Exit | null = null;
  #stray: Stray | null = null;
  #isGarbled = false;
  /** An update in the present run proves that the child has read its work. */
  #hasUpdated = false;
  #loaded: readonly FileState[] = [];
  #settle: (gone: EndedChild | null) => void = () => {};
  /** How many jobs it was sent; it may not have begun some of them. */
  #sent = 0;
  /** The child's present work, and the ends so far. */
  #requests: readonly HandlerRequest[] = [];
  #ends: EndMessage[] = [];
  #updates: Promise<void> = Promise.resolve();

  /** Starts a child for this handler, with a job to do for its owner. */
  static async start(request: HandlerRequest, owner: object): Promise<WarmChild | StartFailure> {
    let files: WarmFiles;
    try {
      files = new WarmFiles(request.state);
    } catch (error) {
      return { failure: describeNoFiles(error as NodeJS.ErrnoException) };
    }
    const started = await startHost(request, files);
    if (!('failure' in started)) return new WarmChild(started, files, request, owner);
    files.remove();
    return started;
  }

  private constructor(started: StartedProcess, files: WarmFiles, request: HandlerRequest, owner: object) {
    this.owner = owner;
    this.pid = started.pid;
    this.files = files;
    this.path = request.script.path;
    this.isAlone = isIsolated(request);
    this.#kind = kindOf(request);
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

  /** How many of its present jobs have ended. */
  get ended(): number {
    return this.#ends.length;
  }

  /** A leftover of an earlier run that has failed while no job was running. */
  get stray(): Stray | null {
    return this.#stray;
  }

  /** Whether it was started for this handler, with the properties that the handler wants. */
  isFor(request: HandlerRequest): boolean {
    return this.path === request.script.path && this.#kind === kindOf(request);
  }

  /** Whether it can serve a job as a fresh process would. */
  isUsable(request: HandlerRequest): boolean {
    return (
      this.#exit === null && this.isFor(request) && this.#loaded.every(isUnchanged) && !this.files.hasStrayOutput()
    );
  }

  /**
   * Serves jobs one after the other. Settles when all handlers have ended, or the process has.
   *
   * @param unsettled the keys of runs that may be missing in the log; the child must be able to report its own
   * @param mostRssBytes no further job begins while more memory than this is in use
   * @returns the ends of the jobs that have begun; if the process ended before any had, one end that says why
   */
  async serve(
    requests: readonly HandlerRequest[],
    unsettled: ReadonlySet<string>,
    mostRssBytes: number,
  ): Promise<readonly ServedRun[]> {
    const first = this.#sent + 1;
    this.#sent += requests.length;
    this.#requests = requests;
    this.#ends = [];
    this.#hasUpdated = false;
    const isUnsettled = (key: string): boolean => unsettled.has(key);
    const work = { jobs: requests.map(messageOf), unsettled: [...this.runs.keys()].filter(isUnsettled).length };
    // A promise on the process's end, made anew for each job, would accumulate until that end.
    const ended = new Promise<EndedChild | null>((resolve) => {
      this.#settle = resolve;
    });
    if (this.#exit === null) this.#channel.send({ ...work, first, mostRssBytes });
    else this.#settle({ ...this.#describeEnd(await this.#gone), isUnread: true });
    const gone = await ended;
    await this.#updates;
    const served: ServedRun[] = this.#ends.map((message) => ({ message }));
    if (gone !== null) {
      // The jobs that it had begun but not reported ended with it. If none had begun, the first one gets the reason.
      const begun = Math.max(this.#countBegun() ?? 0, served.length === 0 ? 1 : 0);
      while (served.length < begun) served.push({ gone });
    }
    this.jobs += served.length;
    return served;
  }

  /**
   * Prevents the child from beginning any of its present jobs that it has not begun yet.
   *
   * @returns how many have begun, the last of them perhaps not; null: unknown
   */
  revoke(): number | null {
    return this.files.revoke(this.#sent) ? this.#countBegun() : null;
  }

  /** How many of its present jobs have begun; null: unknown. */
  #countBegun(): number | null {
    const before = this.#sent - this.#requests.length;
    const begun = this.files.readBegun();
    return begun === null ? null : Math.max(begun - before, this.#ends.length);
  }

  /** Settles when the process is gone. It leaves at once, because no job is running. */
  async close(): Promise<Exit> {
    if (this.#exit === null) {
      this.#channel.send({ bye: true });
      if (!(await settleWithin(this.#gone, CLOSE_MS))) signalGroup(this.pid, 'SIGKILL');
    }
    return await this.#gone;
  }

  /** Leaves the child alone, as a dead runner would: it writes down all ends that nobody has recorded, and leaves. */
  abandon(): void {
    this.#channel.close();
  }

  #take(message: FromChild): void {
    if ('update' in message) this.#write(message.update, message.data);
    else if ('end' in message) this.#end(message);
    else if ('unbegun' in message) this.#settle(null);
    else this.isReady = true;
  }

  #end(message: EndMessage): void {
    const { end, loaded } = message;
    this.usedCpu.userCpuMs += end.userCpuMs;
    this.usedCpu.systemCpuMs += end.systemCpuMs;
    if (loaded !== undefined) this.#loaded = [...this.#loaded, ...loaded];
    this.#ends.push(message);
    if (this.#ends.length === this.#requests.length) this.#settle(null);
  }

  /** Writes updates one after the other, in the order of the handlers. */
  #write(updated: number, data: string): void {
    this.#hasUpdated = true;
    const request = this.#requests[this.#ends.length];
    const write = async (): Promise<void> => request?.onUpdate(data);
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
