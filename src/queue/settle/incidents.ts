import { createHash } from 'node:crypto';
import { withoutParameters } from '../../settings/readers.ts';
import type { StoreSession } from '../../store/contract/store.ts';
import type { FinishedRun, JobRow } from '../../store/schema.ts';
import { DOUBTFUL, FAILING } from '../../store/words.ts';

/** A run that has failed for good. */
interface FailedRun {
  readonly script: string;
  readonly startedAt: number;
  /** Null: it has no row, or none any more. */
  readonly runId: number | null;
  readonly end: Failure & Pick<FinishedRun, 'reason' | 'warning'>;
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** Whether it is told late, from a spool: it may be over long since. */
  readonly isLate: boolean;
}

/** Of errors that are different each time, one incident each would be thousands. */
const MOST_OPEN = 5;

/** What all further errors of a subject count under. */
const OTHERS = 'others';

/** Opens an incident of a script or handler that has failed, or counts it. To be called in the settling transaction. */
export async function noteFailure({ incidents, runs }: StoreSession, run: FailedRun): Promise<void> {
  const { script: subject, startedAt, end, runId, at, isLate } = run;
  if (isLate && isAfter((await runs.history(subject)).lastSuccess, startedAt)) return;
  const sign = {
    ...{ subject, code: FAILING, fingerprint: fingerprintOf(end), severity: 'warning' as const },
    ...{ at, runId, message: end.reason?.slice(0, LONGEST_MESSAGE) ?? null, hint: null },
  };
  if (await incidents.count(sign)) return;
  const open = (await incidents.current([subject])).filter(({ code }) => code === sign.code);
  if (open.length < MOST_OPEN) return await incidents.open(sign);
  const others = { ...sign, fingerprint: OTHERS };
  if (!(await incidents.count(others))) await incidents.open(others);
}

/** The same of a job that fails, though no run of it has: before its first try, or as its rule gives no next time. */
export async function noteUnbegun(
  session: StoreSession,
  { name }: Pick<JobRow, 'name'>,
  reason: string,
  at: number,
): Promise<void> {
  const end = {
    ...({ outcome: 'not-started', exit_code: null, signal: null, error_name: null, error_message: reason } as const),
    ...{ error_stack: null, output: null, reason, warning: null },
  };
  const script = `queue/${withoutParameters(name)}`;
  await noteFailure(session, { script, startedAt: at, runId: null, end, at, isLate: false });
}

/** The same of one that succeeded, though its output says otherwise: of a script there is one such incident. */
export async function noteDoubt({ incidents, runs }: StoreSession, run: FailedRun): Promise<void> {
  const { script: subject, startedAt, end, runId, at, isLate } = run;
  if (isLate && isAfter((await runs.history(subject)).lastSuccess, startedAt)) return;
  const message = end.warning?.slice(0, LONGEST_MESSAGE) ?? null;
  const sign = {
    subject,
    code: DOUBTFUL,
    fingerprint: '',
    severity: 'warning' as const,
    at,
    runId,
    message,
    hint: null,
  };
  if (!(await incidents.count(sign))) await incidents.open(sign);
}

function isAfter(lastSuccess: number | null, startedAt: number): boolean {
  return lastSuccess !== null && lastSuccess > startedAt;
}

const LONGEST_MESSAGE = 1_000;

/** What is enough of a line to tell it from others. */
const LONGEST_LINE = 300;

type Failure = Pick<
  FinishedRun,
  'outcome' | 'exit_code' | 'signal' | 'error_name' | 'error_message' | 'error_stack' | 'output'
>;

/** Tells one error from another, and is the same for the same error at another time, place or with other values. */
export function fingerprintOf(run: Failure): string {
  const { outcome, exit_code, signal, error_name, error_message, output } = run;
  const said = error_message === null ? lastLineOf(output ?? '') : (error_message.trim().split('\n', 1)[0] ?? '');
  const parts = [outcome, exit_code, signal, error_name, normalize(said)];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 12);
}

function lastLineOf(output: string): string {
  return (
    output
      .slice(-4 * LONGEST_LINE)
      .trimEnd()
      .split('\n')
      .at(-1)
      ?.trim() ?? ''
  );
}

/** What differs each time, the longest forms first: a date holds numbers, a path may hold anything. */
const variable: readonly (readonly [form: RegExp, stands: string])[] = [
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '<uuid>'],
  [/\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?/g, '<time>'],
  [/\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? [\w ]{3,12}\b/g, '<time>'],
  [/\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\b/g, '<time>'],
  [/(?:\.{0,2}|~)?(?:\/[\w.@%+~-]+)+\/?/g, '<path>'],
  [/\b0x[0-9a-f]+\b/gi, '<hex>'],
  // With a digit in it: what holds letters alone may be a word.
  [/\b(?=[a-f]*\d)[0-9a-f]{7,}\b/gi, '<hex>'],
  [/\d+(?:[.,_]\d+)*/g, '<n>'],
];

function normalize(line: string): string {
  return variable.reduce((text, [form, stands]) => text.replace(form, stands), line.slice(0, LONGEST_LINE));
}
