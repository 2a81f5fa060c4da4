import prettyMilliseconds from 'pretty-ms';
import type { HandlerAsk } from '../child/handler-contract.ts';
import type { SpokenAsk } from '../child/probe-contract.ts';
import { describeFound } from '../config/describe-found.ts';
import { expectedDuration, parseDelayMs } from '../config/duration.ts';
import { describeExcess } from '../config/job-json.ts';
import { readJobName } from '../config/job-name.ts';

/** What a handler asked for; null: it asked wrongly. */
export interface AskReading {
  readonly ask: HandlerAsk | null;
  /** What it asked for, or why it cannot have it. */
  readonly sentence: string;
}

type SpokenRetry = Extract<SpokenAsk, { readonly kind: 'retry' }>;

/** By which a program asks to be tried again, as sendmail and its like do (EX_TEMPFAIL). */
export const RETRY_EXIT_CODE = 75;

/** What programs and handlers ask for without more words. */
export const plainRetry = {
  ask: { kind: 'retry' },
  sentence: 'asked for another try',
} as const;

export function readAsk(spoken: SpokenAsk): AskReading {
  if (spoken.kind === 'fail') return { ask: spoken, sentence: spoken.reason };
  const problem = findProblem(spoken);
  if (problem !== null) return { ask: null, sentence: problem };
  const { delay, priority, name, data } = spoken;
  const delayMs = readDelayMs(delay) ?? 0;
  const ask: HandlerAsk = {
    kind: 'retry',
    ...(delay !== undefined && { delayMs }),
    ...(priority !== undefined && { priority }),
    ...(name !== undefined && { name }),
    ...(data !== undefined && { data }),
  };
  return { ask, sentence: describeRetry(delayMs, name) };
}

/** What the log would refuse, or nobody could take: the handler has failed then like any other. */
function findProblem({ delay, priority, name, data }: SpokenRetry): string | null {
  if (delay !== undefined && readDelayMs(delay) === null) {
    return describeWrong(`${expectedDuration(delay, '10m')} as delay`, delay);
  }
  if (priority !== undefined && !Number.isSafeInteger(priority)) {
    return describeWrong('a whole number as priority', priority);
  }
  const named = name === undefined ? null : readJobName(name);
  if (named !== null && 'expected' in named)
    return describeWrong(`${named.expected} as name`, name);
  const excess = data === undefined ? null : describeExcess(data);
  return excess === null ? null : `the data of retry() expects ${excess}`;
}

function readDelayMs(delay: unknown): number | null {
  return typeof delay === 'string' ? parseDelayMs(delay.trim()) : null;
}

function describeWrong(expected: string, found: unknown): string {
  return `retry() expects ${expected}, found ${describeFound(found)}`;
}

function describeRetry(delayMs: number, name: string | undefined): string {
  const when = delayMs === 0 ? '' : ` in ${prettyMilliseconds(delayMs)}`;
  const as = name === undefined ? '' : ` as ${name}`;
  return `${plainRetry.sentence}${when}${as}`;
}
