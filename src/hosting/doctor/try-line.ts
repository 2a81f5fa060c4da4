import { shellWord } from '../../config/shell-word.ts';
import { askProgram, describeFailure } from './ask-program.ts';
import type { CrontabLine } from './crontab-line.ts';

/** What came of a line that was tried as cron would run it. */
export type Trial =
  | { readonly works: true; readonly version: string }
  | { readonly works: false; readonly reason: string };

const PATIENCE_MS = 20_000;

/**
 * Runs a line's own words with `--version` after them, by its own shell and in cron's bare
 * environment: that Node and the command are found is proven, and no script is run. What else stands
 * in the line (`&& curl …`) is left out, as it would be done for nothing.
 */
export async function tryLine({ words, env }: CrontabLine): Promise<Trial> {
  const command = [...words, '--version'].map(shellWord).join(' ');
  const answer = await askProgram([env.SHELL ?? '/bin/sh', '-c', command], {
    env,
    cwd: env.HOME ?? '/',
    timeoutMs: PATIENCE_MS,
  });
  const version = answer.stdout.trim();
  if (answer.exitCode === 0 && /^\d+\.\d+\.\d+\S*$/.test(version)) return { works: true, version };
  return { works: false, reason: describeFailure(answer) };
}
