import { renameSync, rmSync, writeFileSync } from 'node:fs';
import type { InspectOptions } from 'node:util';
import type { HandlerEnd, Lingering, ProbeError, ProbeResult } from './contract.ts';
import { takeCounts } from './counts.ts';
import { nameSyntaxError } from './source-line.ts';

/** Node's own exit code for a top-level await that never settles. */
export const UNSETTLED_EXIT_CODE = 13;

/** What was called and has not come to its end. */
export interface Unsettled {
  /** `the promise of the script's default function never settled` */
  readonly sentence: string;
}

/**
 * Writes down how the script ends: also after an uncaught error, and after `process.exit()`.
 *
 * @param findUnsettled what must not be open when it ends by itself
 * @param findEnd how a handler ended
 * @param findNotes what else is to be told of it
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

/** What a promise was rejected with that is no error. */
let hidden: { readonly thrown: unknown } | null = null;

/** Node puts an error of its own in the place of such a value, and of an object that says `#<Object>` alone. */
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

/** A full disk, or a folder that is closed by now, must not change how the script ends; without the file the runner's samples serve. */
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

/** Loaded only when something was thrown. */
const inspect = (value: unknown, options: InspectOptions): string =>
  process.getBuiltinModule('node:util').inspect(value, { colors: false, ...options });

/** What was thrown, with its causes; anything can be thrown, and its getters can throw again. */
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
    // Shows nested causes and the errors of an AggregateError as well.
    stack: inspect(error, { depth: 4 }).slice(0, MAX_STACK_LENGTH),
  };
}

/** In one line, as the reason of a run is one. */
const IN_ONE_LINE: InspectOptions = { depth: 2, breakLength: Number.POSITIVE_INFINITY, maxStringLength: 500 };

/** `throw 'a text'`: there is no stack. */
function describeOther(thrown: unknown): ProbeError {
  const text = typeof thrown === 'string' ? thrown : inspect(thrown, IN_ONE_LINE);
  return {
    name: `thrown ${typeof thrown}`,
    message: cutMessage(text),
    stack: null,
  };
}

/** Why a handler fails its job, by its own words; anything can be given. */
export function describeReason(reason: unknown): string {
  const isNone = reason === undefined || reason === null || reason === '';
  return isNone ? 'its handler failed it, and gave no reason' : describeError(reason).message;
}

/** What is kept of an error's message, and of the reason that a handler gives. */
export function cutMessage(message: unknown): string {
  return String(message).slice(0, MAX_MESSAGE_LENGTH);
}
