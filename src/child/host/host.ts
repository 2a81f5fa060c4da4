import { AsyncLocalStorage } from 'node:async_hooks';
import { closeSync, fstatSync, readSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { callHandler, describeUnsettled } from '../call-handler.ts';
import {
  CHANNEL_FD,
  type FromChild,
  HANDLER_VARIABLE,
  type HandlerEnd,
  type HostOptions,
  type JobMessage,
  type JobsMessage,
  type ProbeError,
  type ProbeResult,
  runVariables,
  SIGN_OF_LIFE_FD,
  STRAY_FILE,
  type Stray,
  splitLines,
  type ToChild,
} from '../contract.ts';
import { linkAnew } from '../files.ts';
import { describeError, errorSentence, failure, recordEnd, UNSETTLED_EXIT_CODE, writeResult } from '../record-end.ts';
import { installTypeScript, PACKAGE_REPLACED } from '../typescript/hooks.ts';
import { guardExit, HandlerShelf, Ledger, type MeasureJob, startMeter, TemporaryFolder } from './sandbox.ts';
import { Traces } from './traces.ts';

/** Kept from before any job: the end of a job that replaces them is still reported. */
const { parse, stringify } = JSON;

/** Updates that were sent and not yet answered. */
class HandlerUpdates {
  readonly #send: (number: number, data: string) => void;
  readonly #open = new Map<number, (problem: string | null) => void>();
  #count = 0;
  #isOver = false;

  constructor(send: (number: number, data: string) => void) {
    this.#send = send;
  }

  get isWaiting(): boolean {
    return this.#open.size > 0;
  }

  /** Fulfilled once the runner reports that the update is in the log. */
  send(data: string): Promise<void> {
    // The runner that would record it is gone; the job does not fail for that.
    if (this.#isOver) return Promise.resolve();
    this.#count += 1;
    const number = this.#count;
    const told = new Promise<void>((resolve, reject) => {
      this.#open.set(number, (problem) => (problem === null ? resolve() : reject(new Error(problem))));
    });
    this.#send(number, data);
    return told;
  }

  settle(number: number, problem: string | null): void {
    this.#open.get(number)?.(problem);
    this.#open.delete(number);
  }

  /** Call it when the runner is gone: no answer will come. */
  settleAll(): void {
    this.#isOver = true;
    for (const number of [...this.#open.keys()]) this.settle(number, null);
  }
}

/** A warm child's connection to its runner. */
interface Channel {
  send(message: FromChild): void;
  /** @param isNeeded whether waiting for a message keeps the process alive */
  keepAlive(isNeeded: boolean): void;
}

/** Has a descriptor of its own, so a handler that uses `process.send` or the like does no harm. */
function openChannel(fd: number, onMessage: (message: ToChild) => void, onClose: () => void): Channel {
  // Loading it takes 5 ms, which a process with one job often saves.
  const { Socket } = process.getBuiltinModule('node:net');
  const socket = new Socket({ fd, readable: true, writable: true });
  socket.setEncoding('utf8');
  const take = splitLines((line) => onMessage(parse(line) as ToChild));
  socket.on('data', (piece) => take(piece as unknown as string));
  // Writing fails if the runner is gone; the end of its messages tells that already.
  socket.on('error', () => {});
  socket.once('close', onClose);
  return {
    send: (message) => socket.write(`${stringify(message)}\n`),
    keepAlive: (isNeeded) => (isNeeded ? socket.ref() : socket.unref()),
  };
}

function leaveStray(temporary: string, stray: Stray): void {
  try {
    writeFileSync(join(temporary, STRAY_FILE), JSON.stringify(stray), { mode: 0o600 });
  } catch {
    // On a full disk the file is missing, and the runner learns only that the process has ended.
  }
}

/** A run that has begun. Its timers and promises are recognized by it, even after its end. */
interface Run {
  readonly message: JobMessage;
  readonly measure: MeasureJob;
  /** The error that ends the process. */
  error: ProbeError | null;
  stray: Stray | null;
}

/** A run that has ended. */
interface EndedRun {
  readonly message: JobMessage;
  readonly result: ProbeResult;
}

/** Calls handlers in this process, one job after another, as the runner sends them. */
class HandlerServer {
  readonly #options: HostOptions;
  readonly #runs = new AsyncLocalStorage<Run>();
  readonly #updates: HandlerUpdates;
  readonly #ledger: Ledger;
  readonly #temporary: TemporaryFolder;
  readonly #channel: Channel;
  readonly #shelf: HandlerShelf;
  readonly #traces: Traces;
  readonly #exit: typeof process.exit;
  #current: Run | null = null;
  /** The runs whose end may be missing in the log, newest last. The last run always stays. */
  #ended: EndedRun[] = [];
  /** Nothing keeps the process alive any more, although the handler has not ended. */
  #hasRunOut = false;
  #isOrphan = false;
  #lastRssBytes: number | null = null;

  constructor(options: HostOptions) {
    this.#options = options;
    this.#ledger = new Ledger(options.ledger);
    this.#temporary = new TemporaryFolder(options.temporary);
    this.#exit = guardExit(() => !this.#isOver(this.#runs.getStore()));
    process.on('uncaughtException', (thrown) => this.#judgeUncaught(thrown));
    process.on('beforeExit', () => {
      this.#hasRunOut = true;
    });
    process.on('exit', (code) => this.#recordExit(code));
    // Create the shelf only now: it restores the process to its present state, which must include these listeners.
    this.#traces = new Traces(() => this.#runs.getStore() !== undefined);
    this.#shelf = new HandlerShelf(() => this.#traces.accept());
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
    } else void this.#serveAll(message);
  }

  /**
   * Serves the jobs one after the other. After a job that has not ended plainly, the rest is left for the runner to
   * send again.
   */
  async #serveAll({ jobs, first, unsettled, mostRssBytes }: JobsMessage): Promise<void> {
    const receivedAt = performance.now();
    this.#ended = unsettled === 0 ? [] : this.#ended.slice(-unsettled);
    const sizeBefore = jobs.length > 1 ? outputSize() : 0;
    for (const [index, message] of jobs.entries()) {
      const waitedMs = index === 0 ? 0 : Math.round(performance.now() - receivedAt);
      const isPlain = await this.#serve(message, first + index, index === 0, waitedMs);
      const left = jobs.length - index - (isPlain === null ? 0 : 1);
      if (left === 0) return;
      // Let anything that this job left behind fail now, while no job is running.
      await nextTurn();
      const mayGoOn = isPlain === true && (this.#lastRssBytes ?? 0) <= mostRssBytes;
      if (mayGoOn && outputSize() === sizeBefore) continue;
      this.#channel.send({ unbegun: left });
      return;
    }
  }

  /** Returns true if the job ended plainly, with nothing to check before the next one; null: it was revoked. */
  async #serve(message: JobMessage, number: number, isFirst: boolean, waitedMs: number): Promise<boolean | null> {
    const { key, script } = message;
    const keys = [...this.#ended.map((each) => each.message.key), key];
    if (!this.#ledger.begin(keys, number, isFirst)) return null;
    const job = { ...message.job, latenessMs: message.job.latenessMs + waitedMs };
    const run: Run = { message, measure: startMeter(!isFirst), error: null, stray: null };
    this.#current = run;
    Object.assign(process.env, runVariables({ ...job, key, script, job }));
    this.#keepAlive();
    const end = await this.#runs.run(run, () => this.#call({ ...message, job }));
    return this.#end(run, end);
  }

  async #call({ path, job }: JobMessage): Promise<HandlerEnd> {
    try {
      // Anything that a module starts on import belongs to no single job.
      const exported = await this.#runs.exit(() => this.#shelf.take(path));
      return await callHandler(exported, path, job, (data) => this.#update(data));
    } catch (error) {
      return endUnloaded(error);
    }
  }

  #update(data: string): Promise<void> {
    const told = this.#updates.send(data);
    this.#keepAlive();
    return told;
  }

  /**
   * During a run the channel must not keep the process alive: a promise that never settles would look like a slow one.
   */
  #keepAlive(): void {
    this.#channel.keepAlive(this.#current === null || this.#updates.isWaiting);
  }

  #end(run: Run, end: HandlerEnd): boolean {
    const measured = run.measure(end);
    const { end: result, rssBytes } = measured;
    this.#lastRssBytes = rssBytes;
    const loaded = this.#shelf.takeLoaded();
    const trace = this.#traces.find();
    // Node remembers a module that failed and would not load it again.
    const isSpoilt = !this.#shelf.has(run.message.path);
    this.#current = null;
    this.#ended.push({ message: run.message, result });
    if (this.#isOrphan) this.#leave();
    this.#channel.send({
      ...measured,
      ...(loaded && { loaded }),
      ...(isSpoilt && { isSpoilt }),
      ...(run.stray && { stray: run.stray }),
      ...(trace && { trace }),
    });
    this.#keepAlive();
    this.#shelf.restore();
    this.#temporary.empty();
    return result.exitCode === 0 && !isSpoilt && run.stray === null && trace === undefined;
  }

  /** Finishes the present job for the next runner. The messages sent last may not have arrived. */
  #loseRunner(): void {
    this.#isOrphan = true;
    this.#updates.settleAll();
    if (this.#current === null) this.#leave();
  }

  #leave(): never {
    this.#writeDownEnds();
    return this.#exit(0);
  }

  /** All output belongs to the last run: a run with output is settled before the next one begins. */
  #writeDownEnds(): void {
    const last = this.#ended.at(-1);
    if (last !== undefined) linkAnew(this.#options.output, last.message.outputPath);
    for (const { message, result } of this.#ended) writeResult(message.resultPath, result);
  }

  /** An error of a run that has ended is not the fault of the present run; any other error ends the process. */
  #judgeUncaught(thrown: unknown): void {
    const run = this.#current;
    const owner = this.#runs.getStore();
    const stray: Stray = {
      jobId: owner?.message.job.id ?? null,
      lastKey: (run ?? this.#ended.at(-1))?.message.key ?? null,
      sentence: errorSentence(describeError(thrown)),
    };
    if (run !== null && this.#isOver(owner)) run.stray ??= stray;
    // The handler has a listener of its own and deals with the error itself.
    else if (process.listenerCount('uncaughtException') === 1) this.#endByError(thrown, stray);
  }

  /** Code that no run has started counts as part of the present run. */
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
    const early = isEarly ? failure(describeUnsettled(this.#hasRunOut)) : null;
    const { end: result } = run.measure({ exitCode, error: run.error ?? early });
    // The runner may have died without this process noticing.
    this.#ended.push({ message: run.message, result });
    this.#writeDownEnds();
  }
}

/**
 * The end of a handler that could not be loaded. If its compiler is gone, the handler has not begun and is tried again.
 */
function endUnloaded(error: unknown): HandlerEnd {
  const isReplaced = (error as NodeJS.ErrnoException | null)?.code === PACKAGE_REPLACED;
  return { exitCode: 1, error: describeError(error), ...(isReplaced && { ask: { kind: 'retry', delay: '1s' } }) };
}

/**
 * Calls the handler of one job and ends the process with it, whatever else is left open. Nothing is kept for another
 * job; the result file and the exit code report the end.
 */
function serveAlone(): void {
  const { jobs } = JSON.parse(readLine(CHANNEL_FD)) as JobsMessage;
  const { path, job, resultPath } = jobs[0] as JobMessage;
  writeSync(CHANNEL_FD, READY);
  let hasRunOut = false;
  let end: HandlerEnd | null = null;
  process.on('beforeExit', () => {
    hasRunOut = true;
  });
  recordEnd(resultPath, () => ({ unsettled: end === null ? describeUnsettled(hasRunOut) : null, end }));
  const updates = openUpdates();
  const call = async (exported: unknown): Promise<never> => {
    end = await callHandler(exported, path, job, updates.send);
    await updates.settled();
    process.exit(end.exitCode);
  };
  void import(pathToFileURL(path).href).then(call, (error) => {
    end = endUnloaded(error);
    throw error;
  });
}

const READY = `${JSON.stringify({ ready: true } satisfies FromChild)}\n`;

/** Waits for a line; exits if the runner has ended. */
function readLine(fd: number): string {
  const pieces: Buffer[] = [];
  while (pieces.at(-1)?.at(-1) !== 0x0a) {
    const piece = Buffer.alloc(64 * 1024);
    const length = readSync(fd, piece);
    if (length === 0) process.exit();
    pieces.push(piece.subarray(0, length));
  }
  return Buffer.concat(pieces).toString();
}

/** The first update opens the channel. Updates are settled in the order in which they were sent. */
function openUpdates(): { send(data: string): Promise<void>; settled(): Promise<void> } {
  let channel: Channel | null = null;
  let last = Promise.resolve();
  const settle = (message: ToChild): void => {
    if ('updated' in message) updates.settle(message.updated, message.problem);
    channel?.keepAlive(updates.isWaiting);
  };
  const updates = new HandlerUpdates((update, data) => {
    channel ??= openChannel(CHANNEL_FD, settle, () => updates.settleAll());
    channel.send({ update, data });
    channel.keepAlive(true);
  });
  return {
    send: (data) => {
      last = updates.send(data);
      return last;
    },
    settled: () => last.catch(() => {}),
  };
}

const STDOUT_FD = 1;

/**
 * The size of the one file that takes all output of this process. NaN, which equals nothing, if a handler has closed
 * it.
 */
function outputSize(): number {
  try {
    return fstatSync(STDOUT_FD).size;
  } catch {
    return Number.NaN;
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

const variable = process.env[HANDLER_VARIABLE] as string;
delete process.env[HANDLER_VARIABLE];
closeSync(SIGN_OF_LIFE_FD);
const options = JSON.parse(variable) as HostOptions;
installTypeScript(options.cacheFolder);
if (options.isAlone) serveAlone();
else new HandlerServer(options);
