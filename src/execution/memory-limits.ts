import type { ScriptOptions } from '../config/script-options.ts';
import type { TreeUsage } from '../process/process-tree.ts';
import { readSharedRss } from '../process/shared-memory.ts';

/** How much resident memory the processes of a run may have together; null: no limit. */
export interface MemoryLimits {
  readonly warnBytes: number | null;
  readonly maxBytes: number | null;
  readonly sustainMs: number;
}

/** What a run is ended for. */
export interface MemoryExcess {
  readonly usedBytes: number;
  readonly forMs: number;
  readonly limitBytes: number;
}

const DEFAULT_SUSTAIN_MS = 5_000;

/** Null: none is set, and nobody need look at anything. */
export function memoryLimitsOf(options: ScriptOptions): MemoryLimits | null {
  const { warnRssBytes, maxRssBytes, rssSustainMs } = options;
  if (warnRssBytes === undefined && maxRssBytes === undefined) return null;
  return {
    warnBytes: warnRssBytes ?? null,
    maxBytes: maxRssBytes ?? null,
    sustainMs: rssSustainMs ?? DEFAULT_SUSTAIN_MS,
  };
}

export interface MemoryWatch {
  readonly limits: MemoryLimits;
  /** Takes a sample of the run's processes. */
  look(usage: TreeUsage, pids: readonly number[]): void;
  /** The most that was seen; null: nothing ever was. */
  peakBytes(): number | null;
  /** Set once the run has been above its limit for long enough. */
  excess(): MemoryExcess | null;
}

/**
 * @param onExcess called once, when the memory has been above its limit for the sustain time
 * @param now a monotonic clock
 */
export function watchMemory(
  limits: MemoryLimits,
  onExcess: () => void,
  now: () => number = () => performance.now(),
): MemoryWatch {
  const leastBytes = Math.min(limits.warnBytes ?? Infinity, limits.maxBytes ?? Infinity);
  let peakBytes: number | null = null;
  let aboveSince: number | null = null;
  let excess: MemoryExcess | null = null;
  const judge = (usedBytes: number): void => {
    const { maxBytes: limitBytes, sustainMs } = limits;
    if (limitBytes === null) return;
    aboveSince = usedBytes > limitBytes ? (aboveSince ?? now()) : null;
    const forMs = aboveSince === null ? null : now() - aboveSince;
    if (excess !== null || forMs === null || forMs < sustainMs) return;
    excess = { usedBytes, forMs, limitBytes };
    onExcess();
  };
  return {
    limits,
    look: (usage, pids) => {
      const usedBytes = weigh(usage.rssBytes, pids, leastBytes);
      peakBytes = Math.max(peakBytes ?? 0, usedBytes, usage.peakRssBytes);
      judge(usedBytes);
    },
    peakBytes: () => peakBytes,
    excess: () => excess,
  };
}

/** The sum counts shared pages several times, so it is never too low: only above a limit it pays to look closer. */
function weigh(rssBytes: number, pids: readonly number[], leastBytes: number): number {
  if (rssBytes <= leastBytes || pids.length === 1) return rssBytes;
  return readSharedRss(pids) ?? rssBytes;
}
