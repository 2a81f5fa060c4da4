import type { FromChild } from '../child/handler-contract.ts';
import { isProbeResult } from './probe-result.ts';
import { isStray } from './read-stray.ts';

/** Longer than any message of ours: a result of 1 MiB is written as JSON within JSON. */
export const LONGEST_MESSAGE = 8 * 1024 * 1024;

/** What a warm child says. Null: a handler has written there by its number, as into a file of its own. */
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
  return value.ready === true;
}

function isEnd({ end, rssBytes, loaded, stray }: Record<string, unknown>): boolean {
  const areFiles = loaded === undefined || (Array.isArray(loaded) && loaded.every(isFileState));
  const isTold = stray === undefined || isStray(stray);
  return isProbeResult(end) && Number.isFinite(rssBytes) && areFiles && isTold;
}

function isFileState(value: unknown): boolean {
  return isRecord(value) && typeof value.path === 'string';
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
