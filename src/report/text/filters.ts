import type { ListOptions } from '../../queue/api.ts';
import { parseDurationMs } from '../../settings/readers.ts';
import { isWaiting, type JobState, jobStates, type Outcome, outcomes, waitingStates } from '../../store/words.ts';
import { UsageError } from '../../system/base/errors.ts';
import { dayWords, type MeantTime, readLocalTime } from '../../system/base/local-time.ts';
import { nearestName } from '../../system/base/suggest.ts';
import { printableLine } from '../../system/base/text.ts';
import type { TimeWindow } from '../model/runs/runs.ts';

const DEFAULT_SINCE = '7d';

interface WindowOptions {
  readonly since?: string | undefined;
  readonly until?: string | undefined;
}

/**
 * The window that `--since` and `--until` name: a duration back from now, or a local date or time.
 * A date alone is that whole day, so that `--since 2026-11-01 --until 2026-11-01` is one day.
 *
 * @throws {UsageError} for what is neither, and for a window that ends before it begins
 */
export function parseTimeWindow(options: WindowOptions, nowMs: number): TimeWindow {
  const sinceMs = parseInstant('--since', options.since ?? DEFAULT_SINCE, nowMs).startMs;
  const untilMs = options.until === undefined ? nowMs + 1 : parseInstant('--until', options.until, nowMs).endMs;
  if (sinceMs < untilMs) return { sinceMs, untilMs };
  throw new UsageError(
    `--since ${options.since ?? DEFAULT_SINCE} is not before --until ${options.until ?? 'now'}, ` +
      'so there can be nothing between them: give an earlier --since.',
  );
}

/** The same without a default: undefined is open. */
export function parseOpenWindow(options: WindowOptions, nowMs: number): OpenWindow {
  const { sinceMs, untilMs } = parseTimeWindow({ ...options, since: options.since ?? EPOCH }, nowMs);
  return {
    sinceMs: options.since === undefined ? undefined : sinceMs,
    untilMs: options.until === undefined ? undefined : untilMs,
  };
}

/** From the first instant on, before the second one. */
export interface OpenWindow {
  readonly sinceMs: number | undefined;
  readonly untilMs: number | undefined;
}

const EPOCH = '1970-01-01 00:00Z';

function parseInstant(option: string, text: string, nowMs: number): MeantTime {
  const span = readTimeSpan(text, nowMs);
  if (span !== null) return span;
  const nearest = nearestName(text.trim(), dayWords);
  const hint = nearest === null ? '.' : `; did you mean ${nearest}?`;
  throw new UsageError(`${option} must be ${EXPECTED_TIME}, found ${JSON.stringify(text)}${hint}`);
}

/** The notation of a time, for messages. */
export const EXPECTED_TIME =
  'a duration back from now such as 7d or 12h, a day such as yesterday or monday, last night, ' +
  'or a local time such as 07:00, 2026-11-01 or "2026-11-01 10:00"';

/** From when to when a text's time goes, which only of a day or a night is not the same; null: it is no time. */
export function readTimeSpan(text: string, nowMs: number): MeantTime | null {
  const durationMs = parseDurationMs(text.trim());
  if (durationMs === null) return readLocalTime(text, nowMs, 'past');
  return { startMs: nowMs - durationMs, endMs: nowMs - durationMs };
}

/**
 * The outcomes that `--outcome failed,timed-out` names.
 *
 * @throws {UsageError} that names the nearest outcome
 */
export function parseOutcomes(text: string): Outcome[] {
  return text.split(',').map((word) => parseOutcome(word.trim()));
}

function parseOutcome(word: string): Outcome {
  const outcome = outcomes.find((each) => each === word);
  if (outcome !== undefined) return outcome;
  const nearest = nearestName(word, outcomes);
  throw new UsageError(
    `--outcome must be one of ${outcomes.join(', ')}, found ${JSON.stringify(printableLine(word))}` +
      (nearest === null ? '.' : `; did you mean ${nearest}?`),
  );
}

/**
 * The states that `--state failed,cancelled` names, or `ready` or `delayed`: what waits and is due, or not
 * yet.
 *
 * @throws {UsageError} that names the nearest one
 */
export function readJobStates(text: string): Pick<ListOptions, 'state' | 'due'> {
  const words = text.split(',').map((word) => word.trim());
  const isDue = (word: string): word is 'ready' | 'delayed' => word === 'ready' || word === 'delayed';
  const [due, other] = new Set(words.filter(isDue));
  const state = words.filter((word) => !isDue(word)).map(readState);
  if (due === undefined) return { state };
  if (state.length === 0 && other === undefined) return { due };
  const whole = state.find(isWaiting);
  if (whole !== undefined) throw new UsageError(`${due} is a part of ${whole}, so give one of them.`);
  return { state: [...waitingStates, ...state], ...(other === undefined && { due }) };
}

function readState(word: string): JobState {
  const state = jobStates.find((each) => each === word);
  if (state !== undefined) return state;
  const guess = nearestName(word, [...jobStates, 'ready', 'delayed']);
  const nearest = guess === word ? null : guess;
  throw new UsageError(
    `--state takes one or more of ${jobStates.join(', ')}, ready or delayed, ` +
      `found ${JSON.stringify(printableLine(word))}${nearest === null ? '.' : `; did you mean ${nearest}?`}`,
  );
}
