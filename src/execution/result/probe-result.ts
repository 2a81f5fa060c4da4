import type { Lingering, ProbeError, ProbeResult } from '../../child/contract.ts';
import { readPlainFile } from '../../system/base/plain-file.ts';
import type { Masker } from '../secrets.ts';
import { areCounts, maskCounts } from './counts.ts';

/**
 * Reads the record that a Node script's probe left at its end; null: none, because the script was killed or is no Node
 * script. A script can write there too, so every field is checked. Errors are masked.
 */
export function readProbeResult(path: string, masker: Masker): ProbeResult | null {
  try {
    const result: unknown = JSON.parse(readPlainFile(path));
    return isProbeResult(result) ? maskResult(result, masker) : null;
  } catch {
    return null;
  }
}

/** Whether the file tells how a script ended: while the script runs, the file only says what keeps it running. */
export function tellsEnd(path: string): boolean {
  try {
    return 'exitCode' in (JSON.parse(readPlainFile(path)) as object);
  } catch {
    return false;
  }
}

/** The resources that kept a Node script running before it was ended, by its own record; null: no record. */
export function readLingering(path: string): Lingering | null {
  try {
    const { lingering } = JSON.parse(readPlainFile(path)) as { readonly lingering?: unknown };
    return isLingering(lingering) ? lingering : null;
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

/** Whether a value has the form that the child's runtime writes: a handler can write there, too. */
export function isProbeResult(value: unknown): value is ProbeResult {
  if (typeof value !== 'object' || value === null) return false;
  const result = value as Record<string, unknown>;
  const figures = ['exitCode', 'userCpuMs', 'systemCpuMs'];
  const isPeak = result.maxRssBytes === null || Number.isFinite(result.maxRssBytes);
  const areFigures = isPeak && figures.every((key) => Number.isFinite(result[key]));
  const isCounted = result.counts === undefined || areCounts(result.counts);
  return areFigures && isCounted && isProbeError(result.error) && areHandlerFields(result) && areNotes(result);
}

function areNotes({ lingering, uncalled }: Record<string, unknown>): boolean {
  return (lingering === undefined || isLingering(lingering)) && ['string', 'undefined'].includes(typeof uncalled);
}

function isLingering(value: unknown): value is Lingering {
  if (typeof value !== 'object' || value === null) return false;
  const { isFunction, afterMs, resources } = value as Record<string, unknown>;
  const isTime = isFunction === true ? Number.isFinite(afterMs) : afterMs === null;
  return typeof isFunction === 'boolean' && isTime && Array.isArray(resources) && resources.every(isKind);
}

function isKind(value: unknown): boolean {
  return typeof value === 'string' && /^\w{1,40}$/.test(value);
}

function areHandlerFields({ result, refusal, ask, rssDeltaBytes }: Record<string, unknown>): boolean {
  const areTexts = [result, refusal].every((text) => ['string', 'undefined'].includes(typeof text));
  const isFigure = rssDeltaBytes === undefined || Number.isFinite(rssDeltaBytes);
  return areTexts && isFigure && isJson(result) && (ask === undefined || isAsk(ask));
}

function isJson(text: unknown): boolean {
  if (text !== undefined) JSON.parse(text as string);
  return true;
}

function isAsk(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { kind, reason, data, failure = '' } = value as Record<string, unknown>;
  if (kind === 'fail') return typeof reason === 'string';
  return (
    kind === 'retry' &&
    typeof failure === 'string' &&
    (data === undefined || (typeof data === 'string' && isJson(data)))
  );
}

function isProbeError(value: unknown): boolean {
  if (value === null) return true;
  if (typeof value !== 'object') return false;
  const error = value as Record<string, unknown>;
  const { name, message, stack } = error;
  const isStack = stack === null || typeof stack === 'string';
  return typeof name === 'string' && typeof message === 'string' && isStack;
}
