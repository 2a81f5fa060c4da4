import { UsageError } from '../config/usage-error.ts';
import { crontabBlock, installBlock, removeBlock } from './crontab-block.ts';
import { readCrontab, writeCrontab } from './crontab-program.ts';

/** Whether the crontab had to be changed. */
export type CrontabChange = 'changed' | 'unchanged';

/** Puts the block for this root into the user's crontab, or replaces it, and reads it back. */
export function installCrontab(
  root: string,
  lines: readonly string[],
  env: NodeJS.ProcessEnv,
): CrontabChange {
  const before = readCrontab(env);
  const after = installBlock(before, root, lines);
  if (after.equals(before)) return 'unchanged';
  writeCrontab(after, env);
  // Some hosts rewrite what they are given, so what must be there is the block, not the whole text.
  if (readCrontab(env).includes(crontabBlock(root, lines))) return 'changed';
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
  if (removeBlock(left, root).equals(left)) return 'changed';
  throw new UsageError(
    '`crontab -` took the new crontab without an error, but `crontab -l` still shows the lines: ' +
      "take them out on the cron page of your host's panel.",
  );
}
