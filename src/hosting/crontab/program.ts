import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '../../system/base/errors.ts';
import { printableLine } from '../../system/base/text.ts';
import { findOtherOwner } from '../../system/place/owner.ts';
import { stateFolderOf } from '../../system/place/state-folder.ts';
import { type BlockContent, CrontabTrouble, crontabBlock, endWithNewline, installBlock, removeBlock } from './block.ts';

/** Whether the crontab had to be changed. */
export type CrontabChange = 'changed' | 'unchanged';

/** Puts the block for this root into the user's crontab, or replaces it, and reads it back. */
export function installCrontab(root: string, content: BlockContent, env: NodeJS.ProcessEnv): CrontabChange {
  const before = readCrontab(env);
  const after = installBlock(before, root, content);
  if (after.equals(before)) return 'unchanged';
  writeCrontab(after, env);
  // Some hosts rewrite what they are given, so what must be there is the block, not the whole text.
  if (readCrontab(env).includes(crontabBlock(root, content))) {
    markChanged(root);
    return 'changed';
  }
  throw new UsageError(
    '`crontab -` took the new crontab without an error, but `crontab -l` does not show the lines: ' +
      "your host keeps its own crontab. Paste these lines into the cron page of your host's panel.",
  );
}

/** Takes this root's block out of the user's crontab, and reads it back. */
export function removeFromCrontab(root: string, env: NodeJS.ProcessEnv): CrontabChange {
  const before = readCrontab(env);
  const after = removeBlock(before, root);
  if (after.equals(before)) return 'unchanged';
  writeCrontab(after, env);
  const left = readCrontab(env);
  if (removeBlock(left, root).equals(left)) {
    markChanged(root);
    return 'changed';
  }
  throw new UsageError(
    '`crontab -` took the new crontab without an error, but `crontab -l` still shows the lines: ' +
      "take them out on the cron page of your host's panel.",
  );
}

/** Enough for a slow network home; a `crontab` that asks something would wait for ever. */
const TIMEOUT_MS = 30_000;

/** The messages of Debian, cronie, BSD, Solaris and BusyBox for a user who has no crontab yet. */
const NO_CRONTAB_YET = /no crontab for|can't open your crontab|can't open '[^']*': No such file or directory/;

/** The user's crontab, byte for byte; empty where there is none yet. */
export function readCrontab(env: NodeJS.ProcessEnv): Buffer {
  const result = runCrontab(['-l'], env);
  if (result.status === 0) return result.stdout;
  // Null where it could not even be started.
  if (NO_CRONTAB_YET.test(String(result.stderr))) return Buffer.alloc(0);
  throw failure('`crontab -l` could not show your crontab', result);
}

/** Replaces the user's crontab; a last line without a newline gets one. */
export function writeCrontab(crontab: Buffer, env: NodeJS.ProcessEnv): void {
  const result = runCrontab(['-'], env, endWithNewline(crontab));
  if (result.status !== 0) throw failure('`crontab -` refused the new crontab', result);
}

function runCrontab(
  options: readonly string[],
  env: NodeJS.ProcessEnv,
  input: Buffer = Buffer.alloc(0),
): SpawnSyncReturns<Buffer> {
  const result = spawnSync('crontab', options, {
    // The English messages tell the cases apart.
    env: { ...env, LC_ALL: 'C' },
    input,
    timeout: TIMEOUT_MS,
    maxBuffer: 64 * 1024 * 1024,
  });
  if (isCode(result.error, 'ENOENT')) {
    throw new CrontabTrouble(
      'There is no `crontab` program here',
      ', so cron cannot be set up from the command line: ' +
        "paste these lines into the cron page of your host's panel.",
    );
  }
  return result;
}

function failure(what: string, result: SpawnSyncReturns<Buffer>): UsageError {
  return new CrontabTrouble(
    `${what}: ${reasonOf(result)}`,
    ". Your crontab is unchanged; try again, or use the cron page of your host's panel.",
  );
}

function reasonOf({ error, stderr, status, signal }: SpawnSyncReturns<Buffer>): string {
  if (isCode(error, 'ETIMEDOUT')) return `no answer within ${TIMEOUT_MS / 1000} s`;
  const said = printableLine(
    String(stderr ?? '')
      .trim()
      .replace(/\s+/g, ' '),
  ).replace(/\.$/, '');
  if (said !== '') return said;
  if (signal !== null) return `killed by ${signal}`;
  return status === null ? (error?.message ?? 'not started') : `exit code ${status}, no message`;
}

function isCode(error: Error | undefined, code: string): boolean {
  return (error as NodeJS.ErrnoException | undefined)?.code === code;
}

/** Empty; its time tells when the lines of this root were last installed, changed or taken out. */
const markOf = (root: string): string => join(stateFolderOf(root).cache, 'crontab-changed');

/** Without it a line that was installed a minute ago looks as if its calls had been missed since ever. */
export function markChanged(root: string): void {
  // A file that root creates in another user's site would shut that user out.
  if (!existsSync(stateFolderOf(root).cache) || findOtherOwner(root) !== null) return;
  try {
    writeFileSync(markOf(root), '', { mode: 0o600 });
  } catch {
    // The crontab is changed all the same; that nothing can be written here each pass says.
  }
}

/** Null: not known, as with lines that were pasted. */
export function readChangedAt(root: string): number | null {
  return statSync(markOf(root), { throwIfNoEntry: false })?.mtimeMs ?? null;
}
