import { statSync, writeSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import packageJson from '../../package.json' with { type: 'json' };
import { QueueError } from '../queue/errors.ts';
import { StoreUnavailable } from '../store/failures.ts';
import { preferNodesOwn } from '../store/sqlite/driver.ts';
import { now } from '../system/base/clock.ts';
import { isCommandName } from '../system/base/command-names.ts';
import { errorCode, toPackageIncomplete, UsageError } from '../system/base/errors.ts';
import { printableName } from '../system/base/values.ts';
import { leaveCallersZone } from '../system/base/zone.ts';
import { keepPackageAfter } from '../system/process/package-files.ts';
import type { CommandLine } from './program.ts';
import { runTierCommand } from './run/run-tier.ts';
import type { CommandContext } from './shared/context.ts';
import type { Complaint } from './wrong-use.ts';

/** Runs the command line: 0 succeeded, 1 some run failed, 2 wrong use. */
export async function main(distFolder: string, umask: number): Promise<void> {
  const caller = { umask, zone: leaveCallersZone() };
  // Settings are code and may print. Their output goes to stderr, so that a program can parse the answer.
  console.log = console.info = console.debug = console.error;
  keepPackageAfter(Math.max(LASTING_MS, 2 * sinceStartMs()), distFolder);
  await runCommandLine(process.argv.slice(2), createContext(distFolder, caller));
  endSoon();
}

/** A pass over nothing is over by then, or on a slow machine after twice the time that the start has taken. */
const LASTING_MS = 50;

const sinceStartMs = (): number => process.uptime() * 1000;

/** A call in a world of its caller's, which is all that it reads and writes besides files. */
export async function runCommandLine(args: readonly string[], context: CommandContext): Promise<void> {
  const line = { args, context };
  try {
    const call = readTierCall(args);
    if (call !== null) await runTierCommand(context, call.tier, call);
    else await (await import('./program.ts')).runProgram(line);
  } catch (error) {
    // An upgrade may have removed the module that describes errors; the missing module is then the error to describe.
    const { message, exitCode } = await describeError(error, line).catch((gone) => describeError(gone, line));
    if (message !== null) await complain(`runner: ${message}\n`, context.stderr);
    context.setExitCode(exitCode);
  }
}

async function complain(text: string, stderr: CommandContext['stderr']): Promise<void> {
  const columns = stderr.isTTY ? stderr.columns : 0;
  // They may have gone with the package.
  const shown = (await import('../system/base/text.ts').catch(() => null))?.printable(text) ?? text;
  const fit = columns > 0 ? await import('./program.ts').catch(() => null) : null;
  stderr.write(fit?.fitMessage(shown, Math.max(40, columns)) ?? shown);
}

/** `<tier>` or `--root <folder> <tier>`, as in a crontab: these load no library that parses arguments. */
function readTierCall(args: readonly string[]): { tier: string; root?: string } | null {
  const [tier = '', root, option, ...others] = args.toReversed();
  const isTier = /^\w/.test(tier) && !isCommandName(tier);
  if (!isTier || others.length > 0) return null;
  if (root === undefined) return { tier };
  return option === '--root' && !root.startsWith('-') ? { tier, root } : null;
}

/** A timer or a connection of the settings would keep the process for ever, and each call's of cron. */
function endSoon(): void {
  const isWritten = () => process.stdout.writableLength + process.stderr.writableLength === 0;
  setTimeout(() => (isWritten() ? process.exit() : endSoon()), END_MS).unref();
}

/** Nothing of the runner's own is left by then. */
const END_MS = 100;

function createContext(distFolder: string, caller: CommandContext['caller']): CommandContext {
  const context: CommandContext = {
    cwd: currentFolder(),
    env: process.env,
    caller,
    // Not before they are used: a pass under cron writes nothing, and each takes 2 ms to set up.
    get stdout() {
      return withHandler(process.stdout, endQuietlyWithoutReader);
    },
    get stderr() {
      return withHandler(process.stderr, goOnWithoutReader);
    },
    now,
    distFolder,
    version: packageJson.version,
    setExitCode: (code) => {
      process.exitCode = code;
    },
    asksLittle: preferNodesOwn,
    findWrongUse: async (root, args) => {
      const { findWrongUse } = await import('./wrong-use.ts');
      return await findWrongUse({ args, context: { ...context, cwd: root } });
    },
  };
  return context;
}

/**
 * By the name that it has in the shell, which may lead through a link (`current` of a deploy) or, of a folder that was
 * removed under it, may be all that is left.
 */
function currentFolder(): string {
  const { PWD } = process.env;
  try {
    const cwd = process.cwd();
    return PWD === undefined || PWD === cwd || !isSameFolder(PWD, cwd) ? cwd : PWD;
  } catch {
    return PWD ?? '/';
  }
}

function isSameFolder(one: string, other: string): boolean {
  if (!isAbsolute(one)) return false;
  const [a, b] = [one, other].map((path) => statSync(path, { throwIfNoEntry: false }));
  return a !== undefined && a.ino === b?.ino && a.dev === b?.dev;
}

/** Says what is wrong in a sentence; only a defect of the runner itself shows its stack. */
async function describeError(error: unknown, line: CommandLine): Promise<Complaint> {
  if (error instanceof UsageError || errorCode(error).startsWith('commander.')) {
    return await (await import('./wrong-use.ts')).describeWrongUse(error, line);
  }
  if (error instanceof QueueError) return describeQueueError(error);
  const incomplete = toPackageIncomplete(error);
  if (incomplete !== null) return { message: incomplete.message, exitCode: 1 };
  if (error instanceof StoreUnavailable) return { message: error.message, exitCode: 1 };
  if (isSystemError(error)) {
    const { describeSystemError } = await import('./shared/system-error.ts');
    return describeSystemError(error);
  }
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { message, exitCode: 70 };
}

/** It may quote names and data, which come from anywhere; wrong settings are a line each. */
function describeQueueError({ message, code, cause }: QueueError): Complaint {
  if (cause instanceof UsageError) return { message: cause.message, exitCode: 2 };
  return { message: printableName(message), exitCode: code === 'invalid' ? 2 : 1 };
}

/** An error of the operating system or of SQLite (disk, rights, lock), not a defect. */
function isSystemError(error: unknown): error is Error {
  const code = errorCode(error);
  return /^(E[A-Z0-9]+|SQLITE_\w+)$/.test(code) && !code.startsWith('ERR_');
}

type ErrorHandler = (error: NodeJS.ErrnoException) => void;

function withHandler(stream: NodeJS.WriteStream, handle: ErrorHandler): NodeJS.WriteStream {
  return stream.listenerCount('error', handle) === 0 ? stream.on('error', handle) : stream;
}

/** `runner report | head`: the reader has what it wanted. */
function endQuietlyWithoutReader(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE') process.exit(0);
  goOnWithoutReader(error);
}

/** EIO: the terminal was closed; SIGHUP has said so, and what runs is still to be ended and recorded. */
function goOnWithoutReader(error: NodeJS.ErrnoException): void {
  if (error.code === 'EPIPE' || error.code === 'EIO') return;
  if (!isSystemError(error)) throw error;
  // The disk is full. The command has done its work, but cannot print its result.
  writeSync(2, `runner: its output could not be written: ${error.message}\n`);
  process.exit(1);
}
