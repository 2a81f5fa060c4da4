import { createHash } from 'node:crypto';
import { withoutParameters } from '../../discovery/script.ts';
import type { FinishedRun, JobRow } from '../../store/schema.ts';
import { incidentsOf } from '../../store/statements/monitor/incidents.ts';
import type { StoreSession } from '../../store/store.ts';
import { FAILING, SUSPECT } from '../../store/words.ts';

/** A run that has failed for good, or whose output contradicts its success. */
interface DoubtedRun {
  readonly script: string;
  readonly startedAt: number;
  /** Null: the run has no row, or no longer has one. */
  readonly runId: number | null;
  readonly end: Failure & Pick<FinishedRun, 'reason' | 'warning'>;
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** Whether the report comes late, from a spool: the trouble may be over. */
  readonly isLate: boolean;
}

/** Most open incidents of a subject: errors that differ each time would open thousands. */
const MOST_OPEN = 5;

/** The fingerprint under which all further errors of a subject count. */
const OTHERS = 'others';

const LONGEST_MESSAGE = 1_000;

/**
 * Opens an incident for a script or handler, or counts it. A suspect success has one such incident at most. Call it in
 * the settling transaction.
 */
export async function noteTrouble({ statements, runs }: StoreSession, run: DoubtedRun): Promise<void> {
  const incidents = incidentsOf(statements);
  const { script: subject, startedAt, end, runId, at, isLate } = run;
  const { lastSuccess } = isLate ? await runs.history(subject) : { lastSuccess: null };
  if (lastSuccess !== null && lastSuccess > startedAt) return;
  const isSuspect = end.outcome === 'succeeded';
  const message = (isSuspect ? end.warning : end.reason)?.slice(0, LONGEST_MESSAGE) ?? null;
  const sign = {
    ...{ subject, code: isSuspect ? SUSPECT : FAILING, fingerprint: isSuspect ? '' : fingerprintOf(end) },
    ...{ severity: 'warning' as const, at, runId, message, hint: null },
  };
  if (await incidents.count(sign)) return;
  const open = isSuspect ? [] : (await incidents.current([subject])).filter(({ code }) => code === FAILING);
  if (open.length < MOST_OPEN) return await incidents.open(sign);
  const others = { ...sign, fingerprint: OTHERS };
  if (!(await incidents.count(others))) await incidents.open(others);
}

/** The same for a job that fails without a failed run: before its first try, or because its rule gives no next time. */
export async function noteUnbegun(
  session: StoreSession,
  { name, tier }: Pick<JobRow, 'name' | 'tier'>,
  reason: string,
  at: number,
): Promise<void> {
  const end = {
    ...({ outcome: 'not-started', exit_code: null, signal: null, error_name: null, error_message: reason } as const),
    ...{ error_stack: null, output: null, reason, warning: null },
  };
  const script = tier === null ? `queue/${withoutParameters(name)}` : name;
  await noteTrouble(session, { script, startedAt: at, runId: null, end, at, isLate: false });
}

/** Characters of a line that suffice to distinguish it. */
const LONGEST_LINE = 300;

type Failure = Pick<
  FinishedRun,
  'outcome' | 'exit_code' | 'signal' | 'error_name' | 'error_message' | 'error_stack' | 'output'
>;

/**
 * Distinguishes errors; the same error has the same fingerprint at another time, at another place, or with other
 * values.
 */
export function fingerprintOf(run: Failure): string {
  const { outcome, exit_code, signal, error_name, error_message, output } = run;
  const cause = error_message === null ? normalize(lastLineOf(output ?? '')) : causeOf(error_message);
  const parts = [outcome, exit_code, signal, error_name, cause];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 12);
}

/** The first line of a message without the values in it. */
export function causeOf(message: string): string {
  return normalize(message.trim().split('\n', 1)[0] ?? '');
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

/** Parts that differ each time, the longest forms first: a date contains numbers, a path may contain anything. */
const variable: readonly (readonly [form: RegExp, stands: string])[] = [
  [/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, '<uuid>'],
  [/\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?/g, '<time>'],
  [/\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? [\w ]{3,12}\b/g, '<time>'],
  [/\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\b/g, '<time>'],
  [/(?:\.{0,2}|~)?(?:\/[\w.@%+~-]+)+\/?/g, '<path>'],
  [/\b0x[0-9a-f]+\b/gi, '<hex>'],
  // It must contain a digit: letters alone may be a word.
  [/\b(?=[a-f]*\d)[0-9a-f]{7,}\b/gi, '<hex>'],
  [/\d+(?:[.,_]\d+)*/g, '<n>'],
];

function normalize(line: string): string {
  return variable.reduce((text, [form, stands]) => text.replace(form, stands), line.slice(0, LONGEST_LINE));
}
