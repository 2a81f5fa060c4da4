import { existsSync, lstatSync, readdirSync, type Stats } from 'node:fs';
import { join } from 'node:path';
import { describeDistrust, orAllow, orAllowOutside } from './describe-distrust.ts';
import { type Distrust, judgePath, OVERRIDE_VARIABLE } from './file-trust.ts';
import type { Settings } from './settings.ts';
import { shellWord } from './shell-word.ts';
import type { StateFolder } from './state-folder.ts';
import { UsageError } from './usage-error.ts';
import { findWebRoot } from './web-root.ts';

/**
 * Refuses to run anything where others could read the state folder, or have written it.
 *
 * @throws {UsageError} unless `allowUnsafe` is set
 */
export function checkPlace(root: string, state: StateFolder, settings: Settings): void {
  if (settings.allowUnsafe) return;
  refuseWebRoot(root);
  refuseUnsafeState(root, state, orAllow);
}

function refuseWebRoot(root: string): void {
  const webRoot = findWebRoot(root);
  if (webRoot === null) return;
  throw new UsageError(
    `${root} is inside ${webRoot}, which a web server probably hands out: anybody could read your scripts and ` +
      `what they print; move it beside that folder, such as with: mv ${shellWord(root)} ~/runner, and ` +
      `renew the crontab lines with \`runner cron --install\` there; ${orAllow}`,
  );
}

/**
 * The same for what only reads the log, and not the settings.
 *
 * @throws {UsageError} unless `RUNNER_ALLOW_UNSAFE` is set
 */
export function checkStateFolder(
  root: string,
  state: StateFolder,
  environment: NodeJS.ProcessEnv = process.env,
): void {
  if (environment[OVERRIDE_VARIABLE] !== '1') refuseUnsafeState(root, state, orAllowOutside);
}

/**
 * One's own folder that is only too open is left to be closed, which is done before it is written to,
 * unless others could have put something in already.
 */
function refuseUnsafeState(root: string, { path }: StateFolder, orElse: string): void {
  if (!existsSync(path)) return;
  const stats = lstatSync(path);
  const isOwn = stats.isDirectory() && stats.uid === process.geteuid?.();
  const [first] = isOwn ? judgeContent(root, path, stats) : judgePath(root, path);
  if (first !== undefined) throw new UsageError(describeDistrust(root, first, orElse));
}

function judgeContent(root: string, folder: string, { mode }: Stats): readonly Distrust[] {
  const couldOthersWrite = (mode & 0o022) !== 0;
  const names = couldOthersWrite ? readdirSync(folder) : [];
  return names.flatMap((name) => judgePath(root, join(folder, name)));
}
