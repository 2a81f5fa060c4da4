import { readLineOf } from './lines.ts';
import { type CrontabChange, readCrontab, removeFromCrontab } from './program.ts';
import { forgetRoot, placeScript } from './script.ts';

/** Takes the block of a root out of the user's crontab, with what the script knows of it unless other lines call it. */
export function removeLinesOf(root: string, env: NodeJS.ProcessEnv): CrontabChange {
  const change = removeFromCrontab(root, env);
  if (change === 'changed') forgetUncalled(root, env);
  return change;
}

/** Takes back what the script knows of a root that no line calls any more; with the last one the script itself. */
export function forgetUncalled(root: string, env: NodeJS.ProcessEnv): void {
  const left = readCrontab(env);
  const isCalled = left
    .toString()
    .split('\n')
    .some((line) => readLineOf(root, line) !== null);
  if (!isCalled) forgetRoot(placeScript(root, env, left), root);
}
