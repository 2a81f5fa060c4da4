import { join } from 'node:path';
import type { Command } from 'commander';
import { findTier } from '../../discovery/discover.ts';
import { findScript } from '../../discovery/find-script.ts';
import { readPatterns } from '../../queue/add/values.ts';
import { settingsFilesOf } from '../../settings/load.ts';
import {
  type Reader,
  readByteSize,
  readDelayMs,
  readDurationMs,
  readPositiveNumber,
  readWholeNumber,
} from '../../settings/readers.ts';
import { defaultSettings } from '../../settings/settings.ts';
import { UsageError } from '../../system/base/errors.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';
import type { WorkRequest } from '../../worker/loop/queue-limits.ts';
import { readBudget } from './budget.ts';
import type { CommandContext } from './context.ts';

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
  readonly json?: boolean;
}

/** @throws {UsageError} that names the first wrong option */
export function readWorkOptions(patterns: readonly string[], options: WorkOptions): Omit<WorkRequest, 'watchedFiles'> {
  const forMs = read('--for', options.for, readDurationMs);
  read('--watch-file', options.watchFile, readPath);
  const waitMs = read('--wait', options.wait, readDelayMs);
  return {
    patterns: patterns.length === 0 ? [] : readPatterns(patterns),
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

/** Empty it would be the root's folder, which changes for other reasons. */
const readPath: Reader<string> = (found) =>
  typeof found === 'string' && found !== '' ? { value: found } : { expected: 'a path' };

function read<T>(name: string, found: string | undefined, reader: Reader<T>): T | null {
  if (found === undefined) return null;
  const reading = reader(found);
  if ('value' in reading) return reading.value;
  throw new UsageError(`${name} must be ${reading.expected}, found ${JSON.stringify(found)}.`);
}

/** Files that a deploy changes: who lives long ends then. */
export function filesOfDeploy({ distFolder }: CommandContext, root: string): string[] {
  return [join(stateFolderOf(root).path, 'restart'), ...settingsFilesOf(root), join(distFolder, 'cli.cjs')];
}

/**
 * Looks at what the parser leaves to the commands that cron may call: names, and the values of options.
 *
 * @param command parsed; the one without a parent is `runner <tier>`
 * @throws {UsageError} as the command itself would
 */
export async function checkArguments(root: string, command: Command): Promise<void> {
  const options = command.optsWithGlobals();
  const place = { root, settings: defaultSettings };
  const [name = ''] = command.args;
  readBudget(options.budget);
  if (command.parent === null) await findTier(place, name);
  if (command.name() === 'run') await findScript(place, name);
  if (command.name() === 'work') readWorkOptions(command.args, options);
}
