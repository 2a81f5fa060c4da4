import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { STRAY_FILE, type Stray } from '../child/handler-contract.ts';

/** Why a child that waited has ended itself; null: it has not. */
export function readStray(temporary: string): Stray | null {
  try {
    const stray: unknown = JSON.parse(readFileSync(join(temporary, STRAY_FILE), 'utf8'));
    return isStray(stray) ? stray : null;
  } catch {
    return null;
  }
}

/** A handler can write there, too. */
export function isStray(value: unknown): value is Stray {
  if (typeof value !== 'object' || value === null) return false;
  const { runId, lastRunId, sentence } = value as Record<string, unknown>;
  return [runId, lastRunId].every(isRunId) && typeof sentence === 'string';
}

function isRunId(value: unknown): boolean {
  return value === null || ['number', 'string'].includes(typeof value);
}
