import type { Unsettled } from './record-end.ts';

/** Why a handler has not ended although its process does, with exit code 0. */
export function describeUnsettled(hasRunOut: boolean): Unsettled {
  const sentence = hasRunOut
    ? "the handler's promise never settled"
    : 'process.exit(0) was called before the handler had ended';
  return { sentence };
}
