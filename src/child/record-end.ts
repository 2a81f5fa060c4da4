import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { InspectOptions } from 'node:util';
import type { HandlerEnd, Lingering, ProbeError, ProbeResult } from './contract.ts';
import { takeCounts } from './counts.ts';

/** An error that nothing has thrown. */
export function failure(message: string): ProbeError {
  return { name: 'Error', message, stack: null };
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

/** "TypeError: x is not a function" */
export function errorSentence({ name, message }: ProbeError): string {
  const [line = ''] = message.split('\n');
  return line === '' ? name : `${name}: ${line}`;
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

/**
 * Makes Node print an error as it is. Otherwise Node prints the line that throws above it, which belongs to Node or to
 * the runner when a module is looked for or compiled.
 */
export function withoutSourceLine(error: Error): Error {
  const { stack } = error;
  decorate(error);
  if (stack !== undefined) error.stack = stack;
  return error;
}

/**
 * A syntax error of JavaScript has only frames of Node, and Node keeps its place for the moment of printing. This puts
 * the place into the stack, as the compiler of TypeScript does.
 */
function nameSyntaxError(error: SyntaxError): void {
  const { stack = '' } = error;
  const frames = stack.split(FRAME).slice(1);
  if (frames.length === 0 || !frames.every((frame) => /\(?node:[\w/]+:\d/.test(frame))) return;
  decorate(error);
  const [head = ''] = String(error.stack).split(FRAME);
  const place = /^(.+:\d+)\n/.exec(head)?.[1];
  const path = place?.startsWith('file:') ? fileURLToPath(place) : place;
  error.stack = path === undefined || !isAbsolute(path) ? stack : `${head}${FRAME}${path}`;
}

const FRAME = '\n    at ';

/** Node adds the line to the stack of an error thrown by a script of `node:vm`, and only once. */
function decorate(error: Error): void {
  const { runInNewContext } = process.getBuiltinModule('node:vm');
  try {
    runInNewContext('throw error', { error });
  } catch {
    // It is the given error; what counts is what Node has done to it.
  }
}

/** Node's own exit code for a top-level await that never settles. */
export const UNSETTLED_EXIT_CODE = 13;

/** The state of a script, or of a handler that has a process of its own, when its process ends. */
interface EndState extends Pick<ProbeResult, 'lingering' | 'uncalled'> {
  /** Why the process must not end by itself: a call has not ended. Null: none. */
  readonly unsettled: string | null;
  /** How the handler ended; null: it has not, or this is a script. */
  readonly end?: HandlerEnd | null;
}

/** Records how the script ends, also after an uncaught error and after `process.exit()`. */
export function recordEnd(resultPath: string, readState: () => EndState): void {
  let error: ProbeError | null = null;
  process.on('uncaughtExceptionMonitor', (thrown) => {
    if (thrown instanceof SyntaxError) nameSyntaxError(thrown);
    error = describeError(hidden !== null && isStandIn(thrown) ? hidden.thrown : thrown);
  });
  process.on('exit', (code) => {
    const { unsettled, end, ...notes } = readState();
    let exitCode = code;
    const isUnsettled = code === 0 && unsettled !== null;
    if (code === UNSETTLED_EXIT_CODE) error ??= failure(UNSETTLED_AWAIT);
    if (isUnsettled) {
      error = failure(unsettled);
      exitCode = UNSETTLED_EXIT_CODE;
      process.exitCode = exitCode;
      process.stderr.write(`Error: ${unsettled}\n`);
    }
    writeResult(resultPath, {
      ...measureSelf(),
      ...takeCounts(),
      ...notes,
      ...(end ?? { error }),
      exitCode,
      ...(isUnsettled && { isUnsettled }),
    });
  });
}

const UNSETTLED_AWAIT =
  'a top-level await never settled. Did the script wait for input? Scripts have no keyboard (stdin is empty).';

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

/**
 * A full disk, or a folder that is closed by now, must not change how the script ends. Without the file the runner uses
 * its samples.
 */
export function writeResult(path: string, content: ProbeResult | { readonly lingering: Lingering }): void {
  const temporary = `${path}.${process.pid}`;
  try {
    writeFileSync(temporary, JSON.stringify(content), { mode: 0o600, flag: 'wx' });
    renameSync(temporary, path);
  } catch {
    try {
      rmSync(temporary, { force: true });
    } catch {
      // The folder is closed: the runner sweeps it later.
    }
  }
}

function measureSelf(): Pick<ProbeResult, 'userCpuMs' | 'systemCpuMs' | 'maxRssBytes'> {
  const usage = process.resourceUsage();
  return {
    userCpuMs: usage.userCPUTime / 1000,
    systemCpuMs: usage.systemCPUTime / 1000,
    maxRssBytes: usage.maxRSS * 1024,
  };
}
