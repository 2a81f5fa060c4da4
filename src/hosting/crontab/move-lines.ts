import { join } from 'node:path';
import { UsageError } from '../../system/base/errors.ts';
import { findOwnNode } from '../../system/process/programs.ts';
import { type BlockContent, hasBlock, readBlock, readChosenTiers } from './block.ts';
import { readLineOf } from './lines.ts';
import { writeOwnLine } from './own-line.ts';
import { readCrontabIfAny } from './plan.ts';
import { installCrontab } from './program.ts';
import { forgetRoot, type OwnPackage, placeScript, writeCronScript } from './script.ts';

/**
 * Has the lines of a root name its new folder; all else in them stays, their times, too. Killed before that, the script
 * says each day that the old folder is gone.
 *
 * @param own from before the move: it may have moved with the root
 * @returns whether there were lines
 */
export function moveLines(root: string, target: string, own: OwnPackage, env: NodeJS.ProcessEnv): boolean {
  const crontab = readCrontabIfAny(env);
  if (!hasBlock(crontab, root)) return false;
  const moved = (path: string): string => (path.startsWith(`${root}/`) ? join(target, path.slice(root.length)) : path);
  const [former, script] = [placeScript(root, env, crontab), placeScript(target, env, crontab)];
  const lines = readBlock(crontab, root).map((text) => {
    const line = readLineOf(root, text);
    return line === null ? text : writeOwnLine({ ...line, script: script.written, root: target });
  });
  const content: BlockContent = { lines, chosenTiers: readChosenTiers(crontab, root) };
  try {
    writeCronScript(script, target, { ...own, distFolder: moved(own.distFolder), node: moved(findOwnNode()) });
    installCrontab(target, content, env, root);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    throw new UsageError(
      'The crontab lines still name the old folder: call `npx folder-runner cron --install` in the new one. ' +
        error.message,
    );
  }
  forgetRoot(former, root);
  return true;
}
