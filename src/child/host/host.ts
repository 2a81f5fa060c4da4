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
import { describeError, failure, recordEnd, UNSETTLED_EXIT_CODE, writeResult } from '../record-end.ts';
import { PACKAGE_REPLACED } from '../typescript/compile.ts';
import { installTypeScript } from '../typescript/hooks.ts';
import { guardExit, HandlerShelf, Ledger, linkAnew, type Meter, startMeter, TemporaryFolder } from './sandbox.ts';
import { Traces } from './traces.ts';

/** Kept from before any job: one that replaces them still has its end told. */
const { parse, stringify } = JSON;

/** Updates that were sent and of which nothing has been heard yet. */
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

  /** Fulfilled once the runner says that it is in the log. */
  send(data: string): Promise<void> {
    // Nobody is there to write it down; that is no reason for the job to fail.
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

  /** Nobody is there any more who could say. */
  settleAll(): void {
    this.#isOver = true;
    for (const number of [...this.#open.keys()]) this.settle(number, null);
  }
}

/** The way from a warm child to its runner. */
interface Channel {
  send(message: FromChild): void;
  /** Whether waiting for a message keeps the process alive. */
  keepAlive(isNeeded: boolean): void;
}

/** A descriptor of its own: what a handler does with `process.send` and its like is no matter. */
function openChannel(fd: number, onMessage: (message: ToChild) => void, onClose: () => void): Channel {
  // Loading it takes 5 ms, and a process with one job may do without.
  const { Socket } = process.getBuiltinModule('node:net');
  const socket = new Socket({ fd, readable: true, writable: true });
  socket.setEncoding('utf8');
  const take = splitLines((line) => onMessage(parse(line) as ToChild));
  socket.on('data', (piece) => take(piece as unknown as string));
  // Writing to a runner that is gone; that it is gone is told by the end of what it sends.
  socket.on('error', () => {});
  socket.once('close', onClose);
  return {
    send: (message) => socket.write(`${stringify(message)}\n`),
    keepAlive: (isNeeded) => (isNeeded ? socket.ref() : socket.unref()),
  };
}

/** On a full disk the runner learns only that the process has ended. */
function leaveStray(temporary: string, stray: Stray): void {
  try {
    writeFileSync(join(temporary, STRAY_FILE), JSON.stringify(stray), { mode: 0o600 });
  } catch {}
}

/** A run that has begun: also what its timers and promises are known by after its end. */
interface Run {
  readonly message: JobMessage;
  readonly meter: Meter;
  /** What ends the process. */
  error: ProbeError | null;
  stray: Stray | null;
}

/** A run that has ended. */
interface EndedRun {
  readonly message: JobMessage;
  readonly result: ProbeResult;
}

/** Calls handlers in this process, one job after another, as the runner says. */
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
  /** The runs whose end may not be in the log yet, newest last; the last one stays. */
  #ended: EndedRun[] = [];
  /** Nothing is left that keeps it alive, and the handler has not ended. */
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
    // Only now: what it puts the process back to has these listeners.
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

  /** One after the other; the rest is left to be sent anew once one has not ended plainly. */
  async #serveAll({ jobs, first, unsettled, mostRssBytes }: JobsMessage): Promise<void> {
    const receivedAt = performance.now();
    this.#ended = unsettled === 0 ? [] : this.#ended.slice(-unsettled);
    const sizeBefore = jobs.length > 1 ? outputSize() : 0;
    for (const [index, message] of jobs.entries()) {
      const waitedMs = index === 0 ? 0 : Math.round(performance.now() - receivedAt);
      const isPlain = await this.#serve(message, first + index, index === 0, waitedMs);
      const left = jobs.length - index - (isPlain === null ? 0 : 1);
      if (left === 0) return;
      // What this one has left behind fails now, while no job is there.
      await nextTurn();
      const mayGoOn = isPlain === true && (this.#lastRssBytes ?? 0) <= mostRssBytes;
      if (mayGoOn && outputSize() === sizeBefore) continue;
      this.#channel.send({ unbegun: left });
      return;
    }
  }

  /** Whether it has ended as most do, with nothing to be looked at before the next; null: it was revoked. */
  async #serve(message: JobMessage, number: number, isFirst: boolean, waitedMs: number): Promise<boolean | null> {
    const { key, script } = message;
    const keys = [...this.#ended.map((each) => each.message.key), key];
    if (!this.#ledger.begin(keys, number, isFirst)) return null;
    const job = { ...message.job, latenessMs: message.job.latenessMs + waitedMs };
    const run: Run = { message, meter: startMeter(!isFirst), error: null, stray: null };
    this.#current = run;
    Object.assign(process.env, runVariables({ ...job, key, script, job }));
    this.#keepAlive();
    const end = await this.#runs.run(run, () => this.#call({ ...message, job }));
    return this.#end(run, end);
  }

  async #call({ path, job }: JobMessage): Promise<HandlerEnd> {
    try {
      // Whatever a module begins is no single job's.
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

  /** During a run the channel alone would let a promise that never settles look like one that takes long. */
  #keepAlive(): void {
    this.#channel.keepAlive(this.#current === null || this.#updates.isWaiting);
  }

  #end(run: Run, end: HandlerEnd): boolean {
    const { result, durationMs, rssBytes } = run.meter.measure(end);
    this.#lastRssBytes = rssBytes;
    const loaded = this.#shelf.takeLoaded();
    const trace = this.#traces.find();
    // Node remembers a module that failed, and would not try it again.
    const isSpoilt = !this.#shelf.has(run.message.path);
    this.#current = null;
    this.#ended.push({ message: run.message, result });
    if (this.#isOrphan) this.#leave();
    this.#channel.send({
      end: result,
      durationMs,
      rssBytes,
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

  /** The job in hand is finished for whoever comes next; what was told last may not have arrived. */
  #loseRunner(): void {
    this.#isOrphan = true;
    this.#updates.settleAll();
    if (this.#current === null) this.#leave();
  }

  #leave(): never {
    this.#writeDownEnds();
    return this.#exit(0);
  }

  /** A job whose run has written anything is settled before the next: all output is the last one's. */
  #writeDownEnds(): void {
    const last = this.#ended.at(-1);
    if (last !== undefined) linkAnew(this.#options.output, last.message.outputPath);
    for (const { message, result } of this.#ended) writeResult(message.resultPath, result);
  }

  /** Of a run that has ended, the one that is under way is not to blame; all else ends the process. */
  #judgeUncaught(thrown: unknown): void {
    const run = this.#current;
    const owner = this.#runs.getStore();
    const stray: Stray = {
      jobId: owner?.message.job.id ?? null,
      lastKey: (run ?? this.#ended.at(-1))?.message.key ?? null,
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
    this.#ended.push({ message: run.message, result });
    this.#writeDownEnds();
  }
}

/** A handler that could not be loaded. It has not begun where what compiles it is gone: another try is as good. */
function endUnloaded(error: unknown): HandlerEnd {
  const isReplaced = (error as NodeJS.ErrnoException | null)?.code === PACKAGE_REPLACED;
  return { exitCode: 1, error: describeError(error), ...(isReplaced && { ask: { kind: 'retry', delay: '1s' } }) };
}

/**
 * Calls the handler of one job, and ends the process with it, whatever else it left open. Nothing is kept for a
 * next one, and the end is told by the result file and the exit code.
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
  recordEnd(
    resultPath,
    () => (end === null ? describeUnsettled(hasRunOut) : null),
    () => end,
  );
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

/** Waits for it; there is none if the runner has ended. */
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

/** Only the first update opens the channel; they are settled in the order in which they were sent. */
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

/** All output of this process goes to one file. NaN where a handler has closed it: no number is equal to that. */
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

function sentenceOf({ name, message }: ProbeError): string {
  const [line = ''] = message.split('\n');
  return line === '' ? name : `${name}: ${line}`;
}

const variable = process.env[HANDLER_VARIABLE] as string;
delete process.env[HANDLER_VARIABLE];
closeSync(SIGN_OF_LIFE_FD);
const options = JSON.parse(variable) as HostOptions;
installTypeScript(options.cacheFolder);
if (options.isAlone) serveAlone();
else new HandlerServer(options);
