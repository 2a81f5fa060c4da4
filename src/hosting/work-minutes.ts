import { parseDurationMs } from '../config/duration.ts';
import { UsageError } from '../config/usage-error.ts';
import { findBlock } from './crontab-block.ts';
import { readCrontab } from './crontab-program.ts';

const MINUTE_MS = 60_000;

/**
 * Every how many minutes `--work` asks for; null: `--no-work`.
 *
 * @throws {UsageError} if cron's fields cannot say it: what begins anew each hour has to fit into one
 */
export function readWorkMinutes(option: string | boolean): number | null {
  if (typeof option === 'boolean') return option ? 1 : null;
  return parseMinutes(option);
}

function parseMinutes(word: string): number {
  const minutes = (parseDurationMs(word.trim()) ?? 0) / MINUTE_MS;
  if (Number.isInteger(minutes) && 60 % minutes === 0) return minutes;
  throw new UsageError(
    `--work expects how often a worker begins, in minutes that an hour is a multiple of, ` +
      `such as 1m, 5m, 15m or 1h, found ${JSON.stringify(word)}.`,
  );
}

const workLine = /^(\*|\d+(?:-59\/(\d+))?) \* \* \* \* .* work --for \w+$/m;

/** Every how many minutes the installed block calls `runner work`; null: it doesn't, or cannot be read. */
export function findInstalledWork(root: string, env: NodeJS.ProcessEnv): number | null {
  const [, minute, step = minute === '*' ? '1' : '60'] = workLine.exec(readBlock(root, env)) ?? [];
  return minute === undefined ? null : Number(step);
}

/** Who writes to a crontab that cannot be read is told so then. */
function readBlock(root: string, env: NodeJS.ProcessEnv): string {
  try {
    return findBlock(readCrontab(env), root);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return '';
  }
}
