import formatBytes from 'bytes';
import { readStartTicks } from '../process/process-identity.ts';
import type { MemoryWatch } from './memory-limits.ts';

/** What is noted of a run though it did not end it. */
export interface WarningFacts {
  /** Null: it has no limit of resident memory. */
  readonly memory: MemoryWatch | null;
  /** The peak that a Node script measured itself. */
  readonly selfPeakBytes: number | null;
  /** Whether the disk of its output has no room left. */
  readonly isDiskFull: boolean;
  /** How many processes it left running. */
  readonly leftProcesses: number;
  /** Why it had to be started a second time. */
  readonly firstFailure: string | null;
  /** Why that failed, too. */
  readonly startFailure: string | null;
}

/** All of them in one line; null: nothing to note. */
export function describeWarnings(facts: WarningFacts): string | null {
  const all = [
    describeSecondStart(facts),
    facts.memory === null ? null : describeMemory(facts.memory, facts.selfPeakBytes),
    facts.isDiskFull ? 'the disk was full when it ended: some of its output may be missing' : null,
    describeLeft(facts.leftProcesses),
  ].filter((each) => each !== null);
  return all.length === 0 ? null : all.join('; ');
}

/** Of one that failed both times, the reason tells. */
function describeSecondStart({ firstFailure, startFailure }: WarningFacts): string | null {
  if (firstFailure === null) return null;
  return startFailure === null
    ? `was started a second time; the first time: ${firstFailure}`
    : 'was started twice';
}

function describeMemory(memory: MemoryWatch, selfPeakBytes: number | null): string | null {
  const { warnBytes } = memory.limits;
  const peakBytes = Math.max(memory.peakBytes() ?? 0, selfPeakBytes ?? 0);
  if (readStartTicks(process.pid) === null)
    return 'its limits of resident memory could not be watched: there is no /proc';
  if (warnBytes === null || peakBytes <= warnBytes) return null;
  return `used ${size(peakBytes)} of resident memory, more than its warning limit of ${size(warnBytes)}`;
}

function describeLeft(count: number): string | null {
  if (count === 0) return null;
  const processes = count === 1 ? '1 process' : `${count} processes`;
  return `left ${processes} running, whose further output is kept nowhere`;
}

const size = (bytes: number): string =>
  formatBytes(bytes, { unitSeparator: ' ', decimalPlaces: 0 }) ?? `${bytes} bytes`;
