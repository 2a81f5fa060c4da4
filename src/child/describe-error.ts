import type { ProbeError } from './probe-contract.ts';

const MAX_MESSAGE_LENGTH = 8 * 1024;
const MAX_STACK_LENGTH = 32 * 1024;

/** Loaded only when something was thrown. */
const inspect = (value: unknown, depth: number): string =>
  process.getBuiltinModule('node:util').inspect(value, { depth, colors: false });

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
    stack: inspect(error, 4).slice(0, MAX_STACK_LENGTH),
  };
}

/** `throw 'a text'`: there is no stack. */
function describeOther(thrown: unknown): ProbeError {
  const text = typeof thrown === 'string' ? thrown : inspect(thrown, 2);
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
