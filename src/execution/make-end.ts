import type { ProbeResult } from '../child/probe-contract.ts';
import { type KeptOutput, type Measurement, type RunEnd, unmeasured } from './run-end.ts';

export const noOutput: KeptOutput = {
  text: '',
  bytes: 0,
  droppedBytes: 0,
  file: null,
  fileBytes: null,
};

type Unmeasured = Pick<RunEnd, 'outcome' | 'finishedAt' | 'durationMs' | 'reason' | 'output'>;

/** A run of which nothing was measured. */
export function endUnmeasured(end: Unmeasured): RunEnd {
  return { ...unmeasured, exitCode: null, signal: null, warning: null, error: null, ...end };
}

/** A run that ended before it began: refused, or without an interpreter. */
export function endNotStarted(reason: string, durationMs: number): RunEnd {
  return endUnmeasured({
    outcome: 'not-started',
    finishedAt: Date.now(),
    durationMs: roundMs(durationMs),
    reason,
    output: noOutput,
  });
}

/** "TypeError: x is not a function", of what a Node script reported of itself. */
export function describeError(result: ProbeResult | null): string | null {
  if (!result?.error) return null;
  const { name, message } = result.error;
  const [firstLine = ''] = message.split('\n');
  return firstLine === '' ? name : `${name}: ${firstLine}`;
}

export function measureBySelf(result: ProbeResult): Measurement {
  const { userCpuMs, systemCpuMs, maxRssBytes } = result;
  return { userCpuMs, systemCpuMs, maxRssBytes, measuredBy: 'self' };
}

export function roundMs(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
