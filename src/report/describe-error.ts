import { firstLine, lastLine } from './printable.ts';
import type { RunRecord } from './run-record.ts';

/**
 * One line that says why a run did not succeed: the error it threw, else how it ended and the last
 * line that it wrote.
 */
export function describeError(run: RunRecord, outputEnd: string): string | null {
  const { error } = run;
  if (error !== null) {
    const message = firstLine(error.message ?? error.stack ?? '');
    return [error.name && firstLine(error.name), message].filter(Boolean).join(': ') || null;
  }
  const reason = firstLine(run.reason ?? run.outcome);
  const line = lastLine(outputEnd);
  // A crash tells of its last line itself.
  return line === '' || reason.endsWith(line) ? reason : `${reason}: ${line}`;
}
