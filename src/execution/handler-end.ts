import type { HandlerAsk } from '../child/handler-contract.ts';
import type { ProbeResult } from '../child/probe-contract.ts';
import { plainRetry, RETRY_EXIT_CODE, readAsk } from './handler-ask.ts';
import { readLastJsonLine } from './last-json-line.ts';
import { describeError } from './make-end.ts';
import type { Masker } from './mask-secrets.ts';
import type { RunEnd } from './run-end.ts';
import type { RunRequest } from './run-request.ts';

/** What a handler itself says of its end. */
export interface HandlerWords {
  /** Why it did not finish; null: it said nothing. */
  readonly sentence: string | null;
  readonly warning: string | null;
  readonly ask?: HandlerAsk;
  /** JSON. */
  readonly result?: string;
  readonly rssChangeBytes?: number;
}

const noWords: HandlerWords = { sentence: null, warning: null };

/**
 * What a handler in a process of its own has left of words.
 *
 * @param fd its output file's
 */
export function readWords(
  { handler, script, masker }: RunRequest,
  exitCode: number | null,
  result: ProbeResult | null,
  fd: number,
): HandlerWords {
  if (handler === undefined) return noWords;
  if (script.launch.kind === 'program') return readProgramWords(exitCode, fd);
  return result === null ? noWords : readNodeWords(result, masker);
}

function readProgramWords(exitCode: number | null, fd: number): HandlerWords {
  if (exitCode === RETRY_EXIT_CODE) {
    const sentence = `exit code ${RETRY_EXIT_CODE}: ${plainRetry.sentence}`;
    return { ...noWords, sentence, ask: plainRetry.ask };
  }
  if (exitCode !== 0) return noWords;
  const { result, warning } = readLastJsonLine(fd);
  return { sentence: null, warning, ...(result !== null && { result }) };
}

export function readNodeWords(spoken: ProbeResult, masker: Masker): HandlerWords {
  const { ask, result, refusal, rssChangeBytes } = spoken;
  const asked = ask === undefined ? null : readAsk(ask);
  const sentence = asked?.sentence ?? refusal ?? describeError(spoken);
  return {
    sentence: sentence === null ? null : masker.text(sentence),
    warning: null,
    ...(asked?.ask && { ask: maskAsk(asked.ask, masker) }),
    ...(result !== undefined && { result }),
    ...(rssChangeBytes !== undefined && { rssChangeBytes }),
  };
}

function maskAsk(ask: HandlerAsk, masker: Masker): HandlerAsk {
  return ask.kind === 'fail' ? { ...ask, reason: masker.text(ask.reason) } : ask;
}

/** What it gave back counts only where nothing else has ended the run. */
export function fieldsOf(
  { ask, result, rssChangeBytes }: HandlerWords,
  outcome: RunEnd['outcome'],
): Pick<RunEnd, 'ask' | 'result' | 'rssChangeBytes'> {
  return {
    ...(ask && { ask }),
    ...(result !== undefined && outcome === 'succeeded' && { result }),
    ...(rssChangeBytes !== undefined && { rssChangeBytes }),
  };
}

export function joinWarnings(...warnings: readonly (string | null)[]): string | null {
  const all = warnings.filter((each) => each !== null);
  return all.length === 0 ? null : all.join('; ');
}
