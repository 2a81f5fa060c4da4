import { isAbsolute } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { InspectOptions } from 'node:util';
import type { ProbeError } from './contract.ts';

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
export function nameSyntaxError(error: SyntaxError): void {
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
