import { existsSync, lstatSync, readdirSync, type Stats } from 'node:fs';
import { join } from 'node:path';
import { errorCode, UsageError } from '../system/base/errors.ts';
import type { StateFolder } from '../system/place/state-folder.ts';
import {
  type Distrust,
  describeDistrust,
  judgePath,
  OVERRIDE_VARIABLE,
  orAllow,
  orAllowOutside,
} from '../system/place/trust.ts';
import { describeServedCopy, describeServedPlace } from '../system/place/web-exposure.ts';

import type { Settings } from './settings.ts';

/**
 * Refuses to run anything where others could read the state folder, or have written it.
 *
 * @throws {UsageError} unless `allowUnsafe` is set
 */
export function checkPlace(root: string, state: StateFolder, settings: Settings): void {
  if (settings.allowUnsafe) return;
  refuse(describeServedPlace(root, state));
  refuseUnsafeState(root, state, orAllow);
}

function refuse(reason: string | null): void {
  if (reason !== null) throw new UsageError(reason);
}

/**
 * The same for what only reads the log, and not the settings.
 *
 * @throws {UsageError} unless `RUNNER_ALLOW_UNSAFE` is set
 */
export function checkStateFolder(root: string, state: StateFolder, environment: NodeJS.ProcessEnv = process.env): void {
  if (environment[OVERRIDE_VARIABLE] !== '1') refuseUnsafeState(root, state, orAllowOutside);
}

/**
 * The same for what makes the log or writes it, and has to work with wrong settings, too.
 *
 * @throws {UsageError} unless `RUNNER_ALLOW_UNSAFE` is set; inside a web root, also unless the settings
 *   allow it
 */
export async function checkWritable(
  root: string,
  state: StateFolder,
  environment: NodeJS.ProcessEnv = process.env,
): Promise<void> {
  checkStateFolder(root, state, environment);
  await refuseUnlessAllowed(root, describeServedPlace(root, state), environment);
}

/** The same for a copy of the log. @throws {UsageError} where a web server probably hands it out */
export async function checkCopy(
  root: string,
  path: string,
  environment: NodeJS.ProcessEnv = process.env,
): Promise<void> {
  await refuseUnlessAllowed(root, describeServedCopy(path), environment);
}

async function refuseUnlessAllowed(root: string, reason: string | null, environment: NodeJS.ProcessEnv): Promise<void> {
  if (reason === null) return;
  const { loadSettings } = await import('./load.ts');
  if (!(await loadSettings(root, environment)).allowUnsafe) throw new UsageError(reason);
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
  return names.flatMap((name) => {
    try {
      return judgePath(root, join(folder, name));
    } catch (error) {
      // It has gone, or is a link that leads nowhere or in a circle: nobody could read anything by it.
      if (/^(ENOENT|ENOTDIR|ELOOP)$/.test(errorCode(error))) return [];
      throw error;
    }
  });
}
