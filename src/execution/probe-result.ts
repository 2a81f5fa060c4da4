import { readFileSync } from 'node:fs';
import type { ProbeError, ProbeResult } from '../child/probe-contract.ts';
import type { Masker } from './mask-secrets.ts';

/**
 * What a Node script's probe left at its end; null where it left nothing: it was killed, or it is
 * no Node script. A script can write there too, so nothing is taken for granted. What it says of an
 * error is masked.
 */
export function readProbeResult(path: string, masker: Masker): ProbeResult | null {
  try {
    const result: unknown = JSON.parse(readFileSync(path, 'utf8'));
    return isProbeResult(result) ? { ...result, error: maskError(result.error, masker) } : null;
  } catch {
    return null;
  }
}

function maskError(error: ProbeError | null, { text }: Masker): ProbeError | null {
  if (error === null) return null;
  const { name, message, stack } = error;
  return { name: text(name), message: text(message), stack: stack === null ? null : text(stack) };
}

function isProbeResult(value: unknown): value is ProbeResult {
  if (typeof value !== 'object' || value === null) return false;
  const result = value as Record<string, unknown>;
  const figures = ['exitCode', 'userCpuMs', 'systemCpuMs', 'maxRssBytes'];
  return figures.every((key) => Number.isFinite(result[key])) && isProbeError(result.error);
}

function isProbeError(value: unknown): boolean {
  if (value === null) return true;
  if (typeof value !== 'object') return false;
  const error = value as Record<string, unknown>;
  const { name, message, stack } = error;
  const isStack = stack === null || typeof stack === 'string';
  return typeof name === 'string' && typeof message === 'string' && isStack;
}
