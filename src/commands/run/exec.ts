import { spawn } from 'node:child_process';
import {
  closeSync,
  existsSync,
  constants as fileFlags,
  fstatSync,
  openSync,
  readSync,
  type Stats,
  statSync,
} from 'node:fs';
import { constants } from 'node:os';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { optionsOfExec, scriptOfExec } from '../../discovery/exec.ts';
import type { CallersPlace } from '../../discovery/script.ts';
import type { RunEnd } from '../../execution/result/result.ts';
import { openLiveBytes } from '../../report/model/runs/output.ts';
import { scriptSettings } from '../../settings/script-settings.ts';
import type { ScriptOptions } from '../../settings/settings.ts';
import { describeStoreFailure } from '../../store/describe-failure.ts';
import { isFailure } from '../../store/words.ts';
import { errorCode, UsageError } from '../../system/base/errors.ts';
import { EXEC, isExecLabel, isExecName, LONGEST_LABEL_BYTES, nthName } from '../../system/base/exec-name.ts';
import { formatBytes, formatDuration } from '../../system/base/format.ts';
import { firstLine, printableLine } from '../../system/base/text.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';
import { isCalledByHand } from '../../system/process/identity.ts';
import type { RunFinished, WorkerEvents } from '../../worker/invocation/invocation.ts';
import { runExec } from '../../worker/pass/run-exec.ts';
import type { Call } from '../shared/command.ts';
import { type CommandContext, openRunner } from '../shared/context.ts';
import type { Given } from '../table.ts';
import { runAndShow } from './run-tier.ts';

type Command = readonly [string, ...string[]];

/** `runner exec <name> -- <command>`: a command as a run of a script that has no file. */
export async function execCommand(context: CommandContext, given: Given<'exec'>, { words }: Call): Promise<void> {
  const command = readCommand(words, given.name);
  const name = readName(given.name);
  const environment = environmentOf(context);
  const state = { hasBegun: false };
  try {
    await runRecorded(context, given, { name, command, environment, state });
  } catch (error) {
    if (state.hasBegun || error instanceof EndlessInput) throw error;
    // A wrapped line of a crontab must not depend on the log, or on the settings.
    const reason =
      error instanceof UsageError ? error.message : describeStoreFailure(error, stateFolderOf(context.cwd));
    context.stderr.write(`runner: ${printableLine(firstLine(reason))} ${printableLine(name)} runs without a record.\n`);
    context.setExitCode(await runPlainly(context, command, environment));
  }
}

/** @throws {UsageError} */
function readName(word: string): string {
  const label = isExecName(word) ? word.slice(EXEC.length + 1) : word;
  if (isExecLabel(label)) return `${EXEC}/${label}`;
  throw new UsageError(
    `The name of a command has letters, digits, - and _, and at most ${LONGEST_LABEL_BYTES} bytes, ` +
      `found ${JSON.stringify(printableLine(word))}.`,
  );
}

/** @throws {UsageError} */
function readCommand(words: readonly string[], name: string): Command {
  const at = words.indexOf('--');
  const [program, ...args] = at === -1 ? [] : words.slice(at + 1);
  // Without a name, the parser takes the command's first word for it.
  if (program !== undefined && program !== '' && words.indexOf(name) < at) return [program, ...args];
  throw new UsageError(
    '`exec` needs a name, and a command after `--`: `npx folder-runner exec backup -- mysqldump --all-databases`.',
  );
}

/** The caller's environment, without what the crontab's script says to the runner. */
function environmentOf({ env, caller }: CommandContext): NodeJS.ProcessEnv {
  const { RUNNER_CRON_SCRIPT: _, RUNNER_CRON_VERSION: __, TZ: ___, ...others } = env;
  return { ...others, ...(caller.zone !== undefined && { TZ: caller.zone }) };
}

interface Recorded {
  readonly name: string;
  readonly command: Command;
  readonly environment: NodeJS.ProcessEnv;
  /** Says whether the command may have begun. */
  readonly state: { hasBegun: boolean };
}

async function runRecorded(
  context: CommandContext,
  given: Given<'exec'>,
  { name, command, environment, state }: Recorded,
): Promise<void> {
  const runner = await openRunner(context, given.root);
  const options = await optionsOfExec(runner.settings, name, optionsOfCall({ ...given }));
  const isByHand = context.stdout.isTTY || isCalledByHand(context.env);
  const streams = chooseStreams(isByHand);
  const input = (options.retries ?? 0) > 0 ? await readInput(name) : null;
  const { cwd, caller } = context;
  const asCaller: CallersPlace = { cwd, umask: caller.umask, input, writesTo: streams.writesTo };
  const scriptAt = (nth: number) =>
    scriptOfExec({ name: nth === 1 ? name : nthName(name, nth), command, asCaller, options, root: runner.root });
  let last: RunEnd | null = null;
  const exitCodeOf = (): number => (last === null ? 0 : exitCodeOfEnd(last, command, cwd));
  const show = { isAwaited: isByHand, isTold: given.alert, isShownByCaller: isByHand, environment, exitCodeOf };
  await runAndShow(context, runner, show, async (call) => {
    call.events.on('run-started', () => {
      state.hasBegun = true;
    });
    call.events.on('run-finished', ({ end }) => {
      last = end;
    });
    if (streams.shown !== null) showOutput(call.events, context[streams.shown]);
    if (isByHand) tellEnd(context, call.events);
    return await runExec(call, scriptAt, given.overlap === true);
  });
}

function optionsOfCall(given: Readonly<Record<string, unknown>>): ScriptOptions {
  const own = scriptSettings.filter(({ ofExec, key }) => typeof ofExec === 'object' && given[key] !== undefined);
  return Object.fromEntries(own.map(({ key, name }) => [name, given[key]]));
}

interface Streams extends Pick<CallersPlace, 'writesTo'> {
  /** Stream that shows the recorded output as it comes; null: none. */
  readonly shown: 'stdout' | 'stderr' | null;
}

/**
 * A stream that leads to a file or into another program stays the command's own: it may be data. All else is recorded.
 * A scheduler gives both streams alike, to mail what they say.
 */
function chooseStreams(isByHand: boolean): Streams {
  const [stdout, stderr] = [fstatSync(1), fstatSync(2)];
  const isSame = (['dev', 'ino', 'rdev'] as const).every((key) => stdout[key] === stderr[key]);
  if (isSame) {
    const isFile = stdout.isFile();
    return { writesTo: { stdout: isFile, stderr: isFile }, shown: isByHand && !isFile ? 'stdout' : null };
  }
  if (!isByHand) {
    return { writesTo: { stdout: !isNothing(stdout), stderr: stderr.isFile() }, shown: null };
  }
  const isRecorded = stdout.isCharacterDevice() && !isNothing(stdout);
  const isOwnError = isRecorded || stderr.isFile() || isNothing(stderr);
  const shown = isRecorded ? 'stdout' : isOwnError ? null : 'stderr';
  return { writesTo: { stdout: !isRecorded, stderr: isOwnError }, shown };
}

function isNothing(stream: Stats): boolean {
  return stream.isCharacterDevice() && stream.rdev === statSync('/dev/null').rdev;
}

/** How long a pipe may be silent before it counts as one that nobody writes to or ends. */
const SILENT_MS = 1_000;
/** Within both it is read whole, before the first try. */
const LONGEST_MS = 5 * 60_000;
const MOST_BYTES = 64 * 1024 * 1024;

/** Input that has been read cannot be put back, so the command does not run. */
class EndlessInput extends UsageError {}

/**
 * All that a command reads, for each of its tries; null: they have the caller's own, a terminal or a silent pipe.
 *
 * @throws {EndlessInput}
 */
async function readInput(name: string): Promise<Buffer | null> {
  const stats = fstatSync(0);
  if (stats.isCharacterDevice()) return null;
  const { readPiece, close } = stats.isSocket() ? openSocket() : openFile(stats);
  const pieces: Buffer[] = [];
  const start = performance.now();
  let bytes = 0;
  try {
    for (;;) {
      const piece = readPiece();
      if (piece?.length === 0) return Buffer.concat(pieces);
      if (piece !== null) pieces.push(piece);
      bytes += piece?.length ?? 0;
      const lastedMs = performance.now() - start;
      if (bytes === 0 && lastedMs > SILENT_MS) return null;
      if (bytes > MOST_BYTES) throw describeEndless(name, `it has more than ${formatBytes(MOST_BYTES)}`);
      if (lastedMs > LONGEST_MS) throw describeEndless(name, `it has not ended within ${formatDuration(LONGEST_MS)}`);
      if (piece === null) await sleep(POLL_MS);
    }
  } finally {
    close();
  }
}

function describeEndless(name: string, why: string): EndlessInput {
  return new EndlessInput(
    `${name} was not run: retries need its whole input before the first try, and ${why}. ` +
      'Leave the retries out, or let the command open a file.',
  );
}

interface OpenInput {
  /** Empty at the end; null: there is nothing yet. */
  readPiece(): Buffer | null;
  close(): void;
}

/** Its reads do not wait, while those of others who have the pipe still do. */
function openFile(stats: Stats): OpenInput {
  const fd = stats.isFIFO() ? openOnceMore(0) : 0;
  return { readPiece: () => readPieceOf(fd), close: () => fd !== 0 && closeSync(fd) };
}

/** Reads that do not wait would be those of the command, too, so another process waits. */
function openSocket(): OpenInput {
  const pieces: Buffer[] = [];
  const cat = spawn('cat', { stdio: [0, 'pipe', 'ignore'] });
  cat.stdout?.on('data', (piece) => pieces.push(piece));
  for (const event of ['close', 'error']) cat.once(event, () => pieces.push(Buffer.alloc(0)));
  return { readPiece: () => pieces.shift() ?? null, close: () => cat.kill() };
}

function openOnceMore(fd: number): number {
  try {
    return openSync(`/proc/self/fd/${fd}`, fileFlags.O_RDONLY | fileFlags.O_NONBLOCK);
  } catch {
    return fd;
  }
}

const PIECE_BYTES = 65_536;

function readPieceOf(fd: number): Buffer | null {
  const piece = Buffer.allocUnsafe(PIECE_BYTES);
  try {
    return piece.subarray(0, readSync(fd, piece));
  } catch (error) {
    if (errorCode(error) === 'EAGAIN') return null;
    throw error;
  }
}

const POLL_MS = 40;

/** Writes what the command prints as it comes. */
function showOutput(events: WorkerEvents, stream: NodeJS.WriteStream): void {
  const { signal } = new AbortController();
  const running = new Set<string>();
  let shown = Promise.resolve();
  events.on('run-started', ({ key, output: path }) => {
    if (path === null) return;
    running.add(key);
    const pieces = openLiveBytes({ path, isRunning: async () => running.has(key), signal, pollMs: POLL_MS });
    if (pieces !== null) shown = shown.then(() => writeAll(pieces, stream));
  });
  events.on('run-finished', ({ key }) => void running.delete(key));
  events.on('closing', (waits) => void waits.push(shown));
}

async function writeAll(pieces: AsyncIterable<Buffer>, stream: NodeJS.WriteStream): Promise<void> {
  for await (const piece of pieces) {
    if (!stream.write(Buffer.from(piece))) await sleep(POLL_MS);
  }
}

/** Says how a run has failed, once its output is shown. */
function tellEnd({ stderr }: CommandContext, events: WorkerEvents): void {
  const failed: RunFinished[] = [];
  events.on('run-finished', (run) => void (isFailure(run.end.outcome) && failed.push(run)));
  events.on('closing', (waits) => {
    const shown = Promise.all(waits);
    waits.push(shown.then(() => void failed.map((run) => stderr.write(`runner: ${describeFailed(run)}\n`))));
  });
}

function describeFailed({ script, runId, end }: RunFinished): string {
  const { outcome, durationMs, reason } = end;
  const more = runId === null ? '' : `; npx folder-runner show ${runId} has all of it`;
  return `${printableLine(script)} ${outcome} after ${formatDuration(durationMs)}: ${printableLine(firstLine(reason ?? ''))}${more}`;
}

/** As a shell tells it, and `timeout` for a command that was ended at its limit. */
function exitCodeOfEnd({ outcome, exitCode, signal }: RunEnd, [program]: Command, cwd: string): number {
  if (outcome === 'not-started') return program.includes('/') && existsSync(resolve(cwd, program)) ? 126 : 127;
  if (outcome === 'timed-out') return 124;
  if (signal !== null) return 128 + (constants.signals[signal as NodeJS.Signals] ?? 0);
  return exitCode !== null && exitCode !== 0 ? exitCode : isFailure(outcome) ? 1 : 0;
}

/** Runs the command as if it was called without the runner. */
async function runPlainly(
  { cwd, caller }: CommandContext,
  [program, ...args]: Command,
  env: NodeJS.ProcessEnv,
): Promise<number> {
  process.umask(caller.umask);
  const child = spawn(program, args, { cwd, env, stdio: 'inherit' });
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
  return await new Promise((done) => {
    child.once('error', ({ message, code }: NodeJS.ErrnoException) => {
      process.stderr.write(`runner: ${message}\n`);
      done(code === 'EACCES' ? 126 : 127);
    });
    child.once('exit', (code, signal) => done(signal === null ? (code ?? 1) : 128 + constants.signals[signal]));
  });
}
