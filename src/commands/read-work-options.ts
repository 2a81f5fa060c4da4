import { parseDurationMs } from '../config/duration.ts';
import {
  type Reader,
  readByteSize,
  readPositiveNumber,
  readWholeNumber,
} from '../config/reading.ts';
import { UsageError } from '../config/usage-error.ts';
import type { WorkRequest } from '../worker/queue/work-request.ts';

/** As they stand on the command line. */
export interface WorkOptions {
  readonly root?: string;
  readonly for?: string;
  readonly wait?: string;
  readonly maxJobs?: string;
  readonly maxMemory?: string;
  readonly maxLoad?: string;
  readonly concurrency?: string;
  readonly adaptive?: boolean;
  readonly failUnknown?: boolean;
  readonly watchFile?: string;
}

const readDuration: Reader<number> = (found) => {
  const durationMs = typeof found === 'string' ? parseDurationMs(found.trim()) : null;
  if (durationMs !== null) return { value: durationMs };
  return { expected: 'a duration such as 55s, 14m or 2h' };
};

/** @throws {UsageError} that names the first wrong option */
export function readWorkOptions(
  patterns: readonly string[],
  options: WorkOptions,
): Omit<WorkRequest, 'watchedFiles'> {
  const forMs = read('--for', options.for, readDuration);
  const waitMs = read('--wait', options.wait, readDuration);
  return {
    patterns,
    forMs,
    // With a time to fill it waits that long; without, it ends when nothing is due.
    waitMs: waitMs ?? (forMs === null ? 0 : null),
    maxJobs: read('--max-jobs', options.maxJobs, readWholeNumber(1, 1_000_000_000)),
    maxMemoryBytes: read('--max-memory', options.maxMemory, readByteSize('1mb')),
    maxLoad: read('--max-load', options.maxLoad, readPositiveNumber(10_000)),
    concurrency: read('--concurrency', options.concurrency, readWholeNumber(1, 64)) ?? 1,
    isAdaptive: options.adaptive === true,
    failsUnknown: options.failUnknown === true,
  };
}

function read<T>(name: string, found: string | undefined, reader: Reader<T>): T | null {
  if (found === undefined) return null;
  const reading = reader(found);
  if ('value' in reading) return reading.value;
  throw new UsageError(`${name} expects ${reading.expected}, found ${JSON.stringify(found)}.`);
}
