import { join } from 'node:path';
import { type FromChild, STRAY_FILE, type Stray, type Trace } from '../../child/contract.ts';
import { readPlainFile } from '../../system/base/plain-file.ts';
import { isProbeResult } from '../result/report.ts';

/** Longer than any valid message: a result of 1 MiB is written as JSON within JSON. */
export const LONGEST_MESSAGE = 8 * 1024 * 1024;

/**
 * Reads a warm child's message. Null: a handler has written to the descriptor by its number, as to a file of its own.
 */
export function readChildMessage(line: string): FromChild | null {
  try {
    const message: unknown = JSON.parse(line);
    return isFromChild(message) ? message : null;
  } catch {
    return null;
  }
}

function isFromChild(value: unknown): value is FromChild {
  if (!isRecord(value)) return false;
  if ('end' in value) return isEnd(value);
  if ('update' in value) return Number.isInteger(value.update) && typeof value.data === 'string';
  if ('unbegun' in value) return Number.isInteger(value.unbegun);
  return value.ready === true;
}

function isEnd(message: Record<string, unknown>): boolean {
  const { end, durationMs, rssBytes, loaded, stray, trace } = message;
  const areFiles = loaded === undefined || (Array.isArray(loaded) && loaded.every(isFileState));
  const isTold = (stray === undefined || isStray(stray)) && (trace === undefined || isTrace(trace));
  const areNumbers = (rssBytes === null || Number.isFinite(rssBytes)) && Number.isFinite(durationMs);
  return isProbeResult(end) && areNumbers && areFiles && isTold;
}

function isFileState(value: unknown): boolean {
  return isRecord(value) && typeof value.path === 'string';
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function isTrace(value: unknown): value is Trace {
  return isRecord(value) && (value.kind === 'changed' || value.kind === 'running') && typeof value.what === 'string';
}

/** Why a waiting child has ended itself; null: it has not. */
export function readStray(temporary: string): Stray | null {
  try {
    const stray: unknown = JSON.parse(readPlainFile(join(temporary, STRAY_FILE)));
    return isStray(stray) ? stray : null;
  } catch {
    return null;
  }
}

/** A handler can write there, too. */
function isStray(value: unknown): value is Stray {
  if (typeof value !== 'object' || value === null) return false;
  const { jobId, lastKey, sentence } = value as Record<string, unknown>;
  const isJob = jobId === null || typeof jobId === 'number';
  return isJob && (lastKey === null || typeof lastKey === 'string') && typeof sentence === 'string';
}

/** Whether the promise has settled in time. */
export async function settleWithin(promise: Promise<unknown>, withinMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, withinMs, false);
  });
  const isInTime = await Promise.race([promise.then(() => true), late]);
  clearTimeout(timer);
  return isInTime;
}
