import { fstatSync, readSync } from 'node:fs';
import prettyMilliseconds from 'pretty-ms';
import {
  describeExcess,
  type HandlerDecision,
  MAX_JSON_BYTES,
  type ProbeResult,
  RETRY_EXIT_CODE,
  type SpokenAsk,
} from '../../child/contract.ts';
import { errorSentence } from '../../child/record-end.ts';
import { readJobName } from '../../discovery/script.ts';
import { expectedDuration, parseDelayMs } from '../../settings/readers.ts';
import { describeFound, isInstant } from '../../system/base/values.ts';
import { ifPossible } from '../run-files.ts';
import type { Masker } from '../secrets.ts';
import type { RunRequest } from '../start/process.ts';
import type { RunEnd } from './result.ts';

/** The reply of a handler at its end. */
export interface HandlerReply {
  /** Why it did not finish; null: it gave no reason. */
  readonly sentence: string | null;
  readonly warning: string | null;
  readonly ask?: HandlerDecision;
  /** JSON. */
  readonly result?: string;
  readonly rssDeltaBytes?: number;
}

export const noWords: HandlerReply = { sentence: null, warning: null };

/**
 * Reads the reply of a program that is a handler.
 *
 * @param fd descriptor of its output file
 */
export function readProgramWords({ job }: RunRequest, exitCode: number | null, fd: number): HandlerReply {
  if (job === undefined) return noWords;
  if (exitCode === RETRY_EXIT_CODE) {
    return { ...noWords, sentence: `exit code ${RETRY_EXIT_CODE}: ${ASKED_AGAIN}`, ask: { kind: 'retry' } };
  }
  if (exitCode !== 0) return noWords;
  return { sentence: null, ...readLastJsonLine(fd) };
}

export function readNodeWords(spoken: ProbeResult, masker: Masker): HandlerReply {
  const { ask, result, refusal, rssDeltaBytes } = spoken;
  const asked = ask === undefined ? null : readAsk(ask);
  const sentence = asked?.sentence ?? refusal ?? describeScriptError(spoken);
  return {
    sentence: sentence === null ? null : masker.text(sentence),
    warning: null,
    ...(asked?.ask && { ask: maskAsk(asked.ask, masker) }),
    ...(result !== undefined && { result }),
    ...(rssDeltaBytes !== undefined && { rssDeltaBytes }),
  };
}

function maskAsk(ask: HandlerDecision, masker: Masker): HandlerDecision {
  if (ask.kind === 'fail') return { ...ask, reason: masker.text(ask.reason) };
  return ask.failure === undefined ? ask : { ...ask, failure: masker.text(ask.failure) };
}

/** The handler's result counts only if nothing else has ended the run. */
export function fieldsOf(
  { ask, result, rssDeltaBytes }: HandlerReply,
  outcome: RunEnd['outcome'],
): Pick<RunEnd, 'ask' | 'result' | 'rssDeltaBytes'> {
  return {
    ...(ask && { ask }),
    ...(result !== undefined && outcome === 'succeeded' && { result }),
    ...(rssDeltaBytes !== undefined && { rssDeltaBytes }),
  };
}

/** "TypeError: x is not a function", from the report of a Node script. */
export function describeScriptError(result: ProbeResult | null): string | null {
  if (!result?.error) return null;
  return errorSentence(result.error);
}

export function joinWarnings(...warnings: readonly (string | null)[]): string | null {
  const all = warnings.filter((each) => each !== null);
  return all.length === 0 ? null : all.join('; ');
}

type SpokenRetry = Extract<SpokenAsk, { readonly kind: 'retry' }>;

const ASKED_AGAIN = 'asked for another try';

/** Reads a handler's request, and puts it into words; if `ask` is null, the words say why it is refused. */
export function readAsk(spoken: SpokenAsk): { readonly ask: HandlerDecision | null; readonly sentence: string } {
  if (spoken.kind === 'fail') return { ask: spoken, sentence: spoken.reason };
  const problem = findProblem(spoken);
  if (problem !== null) return { ask: null, sentence: problem };
  const { delay, runAt, failure, priority, name, data } = spoken;
  const delayMs = readDelayMs(delay) ?? 0;
  const ask: HandlerDecision = {
    kind: 'retry',
    ...(delay !== undefined && { delayMs }),
    ...(runAt !== undefined && { runAt: Date.parse(runAt) }),
    ...(failure !== undefined && { failure }),
    ...(priority !== undefined && { priority }),
    ...(name !== undefined && { name }),
    ...(data !== undefined && { data }),
  };
  return { ask, sentence: failure ?? describeRetry(runAt ?? delayMs, name) };
}

/** Why the log would refuse the retry, or no worker could take it: the handler has failed then like any other. */
function findProblem({ delay, runAt, priority, name, data }: SpokenRetry): string | null {
  if (delay !== undefined && runAt !== undefined) return 'retry() takes a delay or runAt, not both';
  if (runAt !== undefined && !isInstantText(runAt)) return describeWrong('a Date as runAt', runAt);
  if (delay !== undefined && readDelayMs(delay) === null) {
    return describeWrong(`${expectedDuration(delay, '10m')} as delay`, delay);
  }
  if (priority !== undefined && !Number.isSafeInteger(priority)) {
    return describeWrong('a whole number as priority', priority);
  }
  const named = name === undefined ? null : readJobName(name);
  if (named !== null && 'expected' in named) return describeWrong(`${named.expected} as name`, name);
  const excess = data === undefined ? null : describeExcess(data);
  return excess === null ? null : `the data of retry() must be ${excess}`;
}

/** The form of a valid `Date` in JSON. */
function isInstantText(text: unknown): boolean {
  return typeof text === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(text) && isInstant(Date.parse(text));
}

function readDelayMs(delay: unknown): number | null {
  return typeof delay === 'string' ? parseDelayMs(delay.trim()) : null;
}

function describeWrong(expected: string, found: unknown): string {
  return `retry() needs ${expected}, found ${describeFound(found)}`;
}

/** @param next how long to wait in milliseconds, or the time to wait for */
function describeRetry(next: number | string, name: string | undefined): string {
  const until = typeof next === 'string' ? ` at ${next}` : ` in ${prettyMilliseconds(next)}`;
  const when = next === 0 ? '' : until;
  const as = name === undefined ? '' : ` as ${name}`;
  return `${ASKED_AGAIN}${when}${as}`;
}

const PIECE_BYTES = 64 * 1024;

/**
 * Reads the last line of an output that is not blank as the result, if it is a JSON object or array: a number or a word
 * may stand there by chance.
 */
function readLastJsonLine(fd: number): Pick<HandlerReply, 'result' | 'warning'> {
  let line = '';
  const isRead = ifPossible(() => {
    line = readLastLine(fd);
  });
  if (!isRead) return { warning: UNREAD };
  if (!/^[[{]/.test(line)) return { warning: null };
  if (Buffer.byteLength(line) > MAX_JSON_BYTES) return { warning: TOO_LONG };
  return ifPossible(() => JSON.parse(line)) ? { result: line, warning: null } : { warning: null };
}

const UNREAD = 'its output cannot be read, so its result is not known';

const TOO_LONG = `its last line is longer than a result may be (${MAX_JSON_BYTES} bytes), and was ignored`;

/** Trims white space. It reads only the end of a line that is longer than a result may be. */
function readLastLine(fd: number): string {
  const { size } = fstatSync(fd);
  let text = Buffer.alloc(0);
  for (let start = size; start > 0 && text.length <= MAX_JSON_BYTES + PIECE_BYTES; ) {
    const length = Math.min(PIECE_BYTES, start);
    start -= length;
    const piece = Buffer.alloc(length);
    readSync(fd, piece, 0, length, start);
    text = Buffer.concat([piece, text]);
    const trimmed = text.toString('latin1').trimEnd();
    const lineFeed = trimmed.lastIndexOf('\n');
    if (lineFeed !== -1) return text.toString('utf8', lineFeed + 1).trim();
  }
  return text.toString('utf8').trim();
}
