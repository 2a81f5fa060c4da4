import { describeError } from './describe-error.ts';
import type { HandlerEnd, ProbeError } from './probe-contract.ts';
import { measureSelf, writeResult } from './write-result.ts';

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
 */
export function recordEnd(
  resultPath: string,
  findUnsettled: () => Unsettled | null,
  findEnd: () => HandlerEnd | null = () => null,
): void {
  let error: ProbeError | null = null;
  process.on('uncaughtExceptionMonitor', (thrown) => {
    error = describeError(thrown);
  });
  process.on('exit', (code) => {
    if (code === UNSETTLED_EXIT_CODE) error ??= failure('a top-level await never settled');
    const unsettled = code === 0 ? findUnsettled() : null;
    if (unsettled !== null) {
      error = failure(unsettled.sentence);
      process.exitCode = UNSETTLED_EXIT_CODE;
      process.stderr.write(`Error: ${error.message}\n`);
    }
    const exitCode = unsettled === null ? code : UNSETTLED_EXIT_CODE;
    const end = findEnd() ?? { exitCode, error };
    writeResult(resultPath, { ...measureSelf(), ...end, exitCode });
  });
}

export function failure(message: string): ProbeError {
  return { name: 'Error', message, stack: null };
}
