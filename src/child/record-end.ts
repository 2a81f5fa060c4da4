import { renameSync, rmSync, writeFileSync } from 'node:fs';
import type { InspectOptions } from 'node:util';
import type { HandlerEnd, Lingering, ProbeError, ProbeResult } from './contract.ts';
import { takeCounts } from './counts.ts';
import { nameSyntaxError } from './source-line.ts';

/** Node's own exit code for a top-level await that never settles. */
export const UNSETTLED_EXIT_CODE = 13;

/** A call that has not ended. */
export interface Unsettled {
  /** `the promise of the script's default function never settled` */
  readonly sentence: string;
}

/**
 * Records how the script ends, also after an uncaught error and after `process.exit()`.
 *
 * @param findUnsettled returns a call that should have ended before the process ends by itself
 * @param findEnd returns how a handler ended
 * @param findNotes returns further notes for the record
 */
export function recordEnd(
  resultPath: string,
  findUnsettled: () => Unsettled | null,
  findEnd: () => HandlerEnd | null = () => null,
  findNotes: () => Pick<ProbeResult, 'lingering' | 'uncalled'> = () => ({}),
): void {
  let error: ProbeError | null = null;
  process.on('uncaughtExceptionMonitor', (thrown) => {
    if (thrown instanceof SyntaxError) nameSyntaxError(thrown);
    error = describeError(hidden !== null && isStandIn(thrown) ? hidden.thrown : thrown);
  });
  process.on('exit', (code) => {
    if (code === UNSETTLED_EXIT_CODE)
      error ??= failure(
        'a top-level await never settled. Did the script wait for input? Scripts have no keyboard (stdin is empty).',
      );
    const unsettled = code === 0 ? findUnsettled() : null;
    if (unsettled !== null) {
      error = failure(unsettled.sentence);
      process.exitCode = UNSETTLED_EXIT_CODE;
      process.stderr.write(`Error: ${error.message}\n`);
    }
    const exitCode = unsettled === null ? code : UNSETTLED_EXIT_CODE;
    const end = findEnd() ?? { exitCode, error };
    writeResult(resultPath, { ...measureSelf(), ...takeCounts(), ...findNotes(), ...end, exitCode });
  });
}

/** The rejected value of a promise if it may not be an error; null: none. */
let hidden: { readonly thrown: unknown } | null = null;

/**
 * Keeps the value: Node replaces one that is not an error, or an object that prints only `#<Object>`, by its own error.
 */
export function noteRejection(thrown: unknown): void {
  hidden = { thrown };
}

function isStandIn(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && thrown.code === 'ERR_UNHANDLED_REJECTION';
}

export function failure(message: string): ProbeError {
  return { name: 'Error', message, stack: null };
}

export function writeResult(path: string, result: ProbeResult): void {
  writeResultFile(path, result);
}

/**
 * A full disk, or a folder that is closed by now, must not change how the script ends. Without the file the runner uses
 * its samples.
 */
export function writeResultFile(path: string, content: ProbeResult | { readonly lingering: Lingering }): void {
  const temporary = `${path}.${process.pid}`;
  try {
    writeFileSync(temporary, JSON.stringify(content), { mode: 0o600, flag: 'wx' });
    renameSync(temporary, path);
  } catch {
    removeIfPossible(temporary);
  }
}

function removeIfPossible(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {}
}

function measureSelf(): Pick<ProbeResult, 'userCpuMs' | 'systemCpuMs' | 'maxRssBytes'> {
  const usage = process.resourceUsage();
  return {
    userCpuMs: usage.userCPUTime / 1000,
    systemCpuMs: usage.systemCPUTime / 1000,
    maxRssBytes: usage.maxRSS * 1024,
  };
}

const MAX_MESSAGE_LENGTH = 8 * 1024;
const MAX_STACK_LENGTH = 32 * 1024;

/** Loads the module only when something was thrown. */
const inspect = (value: unknown, options: InspectOptions): string =>
  process.getBuiltinModule('node:util').inspect(value, { colors: false, ...options });

/** Describes a thrown value, with its causes. Anything can be thrown, and its getters can throw again. */
export function describeError(thrown: unknown): ProbeError {
  try {
    return thrown instanceof Error ? describeRealError(thrown) : describeOther(thrown);
  } catch {
    return { name: typeof thrown, message: 'an error that cannot be described', stack: null };
  }
}

function describeRealError(error: Error): ProbeError {
  return {
    name: cutMessage(error.name),
    message: cutMessage(error.message),
    // Includes nested causes and the errors of an AggregateError.
    stack: inspect(error, { depth: 4 }).slice(0, MAX_STACK_LENGTH),
  };
}

/** One line, as the reason of a run must be. */
const IN_ONE_LINE: InspectOptions = { depth: 2, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 500 };

/** `throw 'a text'` has no stack. */
function describeOther(thrown: unknown): ProbeError {
  const text = typeof thrown === 'string' ? thrown : inspect(thrown, IN_ONE_LINE);
  return {
    name: `thrown ${typeof thrown}`,
    message: cutMessage(text),
    stack: null,
  };
}

/** The handler's own reason for failing its job; it may be any value. */
export function describeReason(reason: unknown): string {
  const isNone = reason === undefined || reason === null || reason === '';
  return isNone ? 'its handler failed it, and gave no reason' : describeError(reason).message;
}

/** Cuts an error's message, or a handler's reason, to the length that is kept. */
export function cutMessage(message: unknown): string {
  return String(message).slice(0, MAX_MESSAGE_LENGTH);
}
