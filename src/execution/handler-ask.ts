import prettyMilliseconds from 'pretty-ms';
import type { HandlerAsk } from '../child/handler-contract.ts';
import type { SpokenAsk } from '../child/probe-contract.ts';
import { parseDurationMs } from '../config/duration.ts';

/** What a handler asked for; null: it asked wrongly. */
export interface AskReading {
  readonly ask: HandlerAsk | null;
  /** What it asked for, or why it cannot have it. */
  readonly sentence: string;
}

/** By which a program asks to be tried again, as sendmail and its like do (EX_TEMPFAIL). */
export const RETRY_EXIT_CODE = 75;

/** What programs and handlers ask for without more words. */
export const plainRetry = {
  ask: { kind: 'retry' },
  sentence: 'asked for another try',
} as const;

export function readAsk(spoken: SpokenAsk): AskReading {
  if (spoken.kind === 'fail') return { ask: spoken, sentence: spoken.reason };
  const { delay, priority, name, data } = spoken;
  const delayMs = delay === undefined ? 0 : parseDelayMs(delay);
  if (delayMs === null) return refuse('a duration such as 10m as delay', delay);
  if (priority !== undefined && !Number.isSafeInteger(priority)) {
    return refuse('a whole number as priority', priority);
  }
  if (name !== undefined && (typeof name !== 'string' || name === '')) {
    return refuse('the name of a handler as name', name);
  }
  const ask: HandlerAsk = {
    kind: 'retry',
    ...(delay !== undefined && { delayMs }),
    ...(priority !== undefined && { priority }),
    ...(name !== undefined && { name }),
    ...(data !== undefined && { data }),
  };
  return { ask, sentence: describeRetry(delayMs, name) };
}

function parseDelayMs(delay: unknown): number | null {
  return typeof delay === 'string' ? parseDurationMs(delay) : null;
}

function refuse(expected: string, found: unknown): AskReading {
  return { ask: null, sentence: `retry() expects ${expected}, found ${JSON.stringify(found)}` };
}

function describeRetry(delayMs: number, name: string | undefined): string {
  const when = delayMs === 0 ? '' : ` in ${prettyMilliseconds(delayMs)}`;
  const as = name === undefined ? '' : ` as ${name}`;
  return `${plainRetry.sentence}${when}${as}`;
}
