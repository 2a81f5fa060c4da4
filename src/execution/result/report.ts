import { join } from 'node:path';
import {
  type FromChild,
  type Lingering,
  type ProbeError,
  type ProbeResult,
  STRAY_FILE,
  type Stray,
} from '../../child/contract.ts';
import { addCount, type Counts, MOST_COUNTS } from '../../child/counts.ts';
import { errorCode } from '../../system/base/errors.ts';
import { readPlainFile } from '../../system/base/plain-file.ts';
import { describeFound } from '../../system/base/values.ts';
import type { Masker } from '../secrets.ts';

/**
 * Reads the record that a Node script's probe left at its end; null: none, because the script was killed or is no Node
 * script. Errors are masked.
 */
export function readProbeResult(path: string, masker: Masker): ProbeResult | null {
  const result = readReport(path);
  return isProbeResult(result) ? maskResult(result, masker) : null;
}

/** Whether the file tells how a script ended: while the script runs, the file only says what keeps it running. */
export function tellsEnd(path: string): boolean {
  return hasForm({ exitCode: isNumber })(readReport(path));
}

/** The resources that kept a Node script running before it was ended, by its own record; null: no record. */
export function readLingering(path: string): Lingering | null {
  const { lingering } = (readReport(path) ?? {}) as { readonly lingering?: unknown };
  return isLingering(lingering) ? lingering : null;
}

/** Reads JSON that a process has written, unchecked; null: there is none. */
function readReport(path: string): unknown {
  try {
    return JSON.parse(readPlainFile(path));
  } catch {
    return null;
  }
}

export function maskResult(result: ProbeResult, masker: Masker): ProbeResult {
  const { error, counts, uncalled } = result;
  if (error === null && counts === undefined && uncalled === undefined) return result;
  return {
    ...result,
    ...(uncalled !== undefined && { uncalled: masker.text(uncalled) }),
    error: error && maskError(error, masker),
    ...(counts && { counts: maskCounts(counts, masker) }),
  };
}

function maskError(error: ProbeError, { text }: Masker): ProbeError {
  const { name, message, stack } = error;
  return { name: text(name), message: text(message), stack: stack === null ? null : text(stack) };
}

/** Whether a value has a form. Handlers and scripts can write where the child's runtime does, so each field is checked. */
type Form = (value: unknown) => boolean;

/** Whether a value is an object with fields of these forms. */
function hasForm(fields: Readonly<Record<string, Form>>): Form {
  const checks = Object.entries(fields);
  return (value) =>
    typeof value === 'object' &&
    value !== null &&
    checks.every(([key, fits]) => fits((value as Record<string, unknown>)[key]));
}

const isText: Form = (value) => typeof value === 'string';
const isNumber: Form = (value) => Number.isFinite(value);
const isOneOf =
  (...words: readonly unknown[]): Form =>
  (value) =>
    words.includes(value);
const isNullOr =
  (fits: Form): Form =>
  (value) =>
    value === null || fits(value);
const orAbsent =
  (fits: Form): Form =>
  (value) =>
    value === undefined || fits(value);
const areAll =
  (fits: Form): Form =>
  (value) =>
    Array.isArray(value) && value.every(fits);

const isJson: Form = (value) => {
  try {
    JSON.parse(value as string);
    return isText(value);
  } catch {
    return false;
  }
};

const isFail = hasForm({ kind: isOneOf('fail'), reason: isText });
const isRetry = hasForm({ kind: isOneOf('retry'), failure: orAbsent(isText), data: orAbsent(isJson) });
const isFunctionEnd = hasForm({ isFunction: isOneOf(true), afterMs: isNumber });
const isFileEnd = hasForm({ isFunction: isOneOf(false), afterMs: isOneOf(null) });
const areResources = hasForm({ resources: areAll((kind) => isText(kind) && /^\w{1,40}$/.test(kind as string)) });

function isLingering(value: unknown): value is Lingering {
  return (isFunctionEnd(value) || isFileEnd(value)) && areResources(value);
}

const isResult = hasForm({
  exitCode: isNumber,
  userCpuMs: isNumber,
  systemCpuMs: isNumber,
  maxRssBytes: isNullOr(isNumber),
  rssDeltaBytes: orAbsent(isNumber),
  isUnsettled: orAbsent(isOneOf(true, false)),
  error: isNullOr(hasForm({ name: isText, message: isText, stack: isNullOr(isText) })),
  result: orAbsent(isJson),
  refusal: orAbsent(isText),
  ask: orAbsent((value) => isFail(value) || isRetry(value)),
  counts: orAbsent(areCounts),
  lingering: orAbsent(isLingering),
  uncalled: orAbsent(isText),
});

/** Whether a value has the form that the child's runtime writes. */
export function isProbeResult(value: unknown): value is ProbeResult {
  return isResult(value);
}

const isStray = hasForm({ jobId: isNullOr(isNumber), lastKey: isNullOr(isText), sentence: isText });

/** The forms of messages, by the field that tells them apart. */
const forms: readonly (readonly [string, Form])[] = [
  ['update', hasForm({ update: Number.isInteger, data: isText })],
  [
    'end',
    hasForm({
      end: isProbeResult,
      durationMs: isNumber,
      rssBytes: isNullOr(isNumber),
      loaded: orAbsent(areAll(hasForm({ path: isText }))),
      stray: orAbsent(isStray),
      trace: orAbsent(hasForm({ kind: isOneOf('changed', 'running'), what: isText })),
    }),
  ],
  ['unbegun', hasForm({ unbegun: Number.isInteger })],
  ['ready', hasForm({ ready: isOneOf(true) })],
];

/**
 * Reads a warm child's message. Null: a handler has written to the descriptor by its number, as to a file of its own.
 */
export function readChildMessage(line: string): FromChild | null {
  try {
    const message = JSON.parse(line);
    const [, isOfForm] = forms.find(([field]) => field in message) ?? [];
    return isOfForm?.(message) ? message : null;
  } catch {
    return null;
  }
}

/** Why a waiting child has ended itself; null: it has not. A handler can write there, too. */
export function readStray(temporary: string): Stray | null {
  const stray = readReport(join(temporary, STRAY_FILE));
  return isStray(stray) ? (stray as Stray) : null;
}

/** The file named by the variable RUNNER_COUNTS: `name number` on each line. */
export function countsFileOf({ temporary }: { readonly temporary: string }): string {
  return `${temporary}/.counts`;
}

/**
 * Combines the counts in a run's file with those that its Node process has made itself.
 *
 * @param own the counts of the Node process
 * @returns the sums; `warning` names the first line that could not be understood
 */
export function readCounts(
  files: { readonly temporary: string },
  own: Counts | undefined,
  masker: Masker,
): { readonly counts?: Counts; readonly warning: string | null } {
  const text = readIfThere(countsFileOf(files));
  if (text === null || text instanceof Error) {
    return { ...(own && { counts: own }), warning: text && `RUNNER_COUNTS was ignored: ${text.message}` };
  }
  const counts = new Map(Object.entries(own ?? {}));
  let problem: string | null = null;
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const expected = addLine(counts, line.trim());
    if (expected === null) continue;
    const found = describeFound(masker.text(line.trim().slice(0, 80)));
    problem ??= `line ${index + 1} of RUNNER_COUNTS was ignored: it must be ${expected}, found ${found}`;
  }
  const isNone = counts.size === 0;
  return { ...(!isNone && { counts: maskCounts(Object.fromEntries(counts), masker) }), warning: problem };
}

/** Masks the names, which may contain a secret. */
function maskCounts(counts: Counts, masker: Masker): Counts {
  return Object.fromEntries(Object.entries(counts).map(([name, value]) => [masker.text(name), value]));
}

function addLine(counts: Map<string, number>, line: string): string | null {
  const [, name, number] = /^(\S+)\s+(\S+)$/.exec(line) ?? [];
  if (name === undefined || number === undefined) return 'a name and a number, as in: orders 12';
  return addCount(counts, name, /^[-+]?[\d.]+(?:e[-+]?\d+)?$/i.test(number) ? Number(number) : null);
}

/** Null: there is no file, which is usual. */
function readIfThere(path: string): string | Error | null {
  try {
    return readPlainFile(path);
  } catch (error) {
    return ['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '') ? null : (error as Error);
  }
}

function areCounts(value: unknown): value is Counts {
  if (typeof value !== 'object' || value === null || Object.keys(value).length > MOST_COUNTS) return false;
  return Object.entries(value).every(([name, number]) => addCount(new Map(), name, number) === null);
}
