import { existsSync, lstatSync, readdirSync, type Stats } from 'node:fs';
import { join } from 'node:path';
import { errorCode, type Fault, UsageError } from '../system/base/errors.ts';
import type { StateFolder } from '../system/place/state-folder.ts';
import {
  type Distrust,
  faultOf,
  judgePath,
  OVERRIDE_VARIABLE,
  orAllow,
  orAllowOutside,
} from '../system/place/trust.ts';
import { describeServedCopy, describeServedPlace } from '../system/place/web-exposure.ts';

import type { Settings } from './settings.ts';

/**
 * Refuses to run anything if others could read the state folder, or could have written to it.
 *
 * @throws {UsageError} unless `allowUnsafe` is set
 */
export function checkPlace(root: string, state: StateFolder, settings: Settings): void {
  if (settings.allowUnsafe) return;
  refuse(describeServedPlace(root, state));
  refuseUnsafeState(root, state, orAllow);
}

function refuse(fault: Fault | null): void {
  if (fault !== null) throw new UsageError([fault]);
}

/**
 * Like `checkPlace`, for commands that only read the log and load no settings.
 *
 * @throws {UsageError} unless `RUNNER_ALLOW_UNSAFE` is set
 */
export function checkStateFolder(root: string, state: StateFolder, environment: NodeJS.ProcessEnv = process.env): void {
  if (environment[OVERRIDE_VARIABLE] !== '1') refuseUnsafeState(root, state, orAllowOutside);
}

/**
 * Like `checkPlace`, for commands that create or write the log, and must work with wrong settings, too.
 *
 * @throws {UsageError} unless `RUNNER_ALLOW_UNSAFE` is set; inside a web root, also unless the settings allow it
 */
export async function checkWritable(
  root: string,
  state: StateFolder,
  environment: NodeJS.ProcessEnv = process.env,
): Promise<void> {
  checkStateFolder(root, state, environment);
  await refuseUnlessAllowed(root, describeServedPlace(root, state), environment);
}

/** Like `checkPlace`, for a copy of the log. @throws {UsageError} if a web server probably serves the path */
export async function checkCopy(
  root: string,
  path: string,
  environment: NodeJS.ProcessEnv = process.env,
): Promise<void> {
  await refuseUnlessAllowed(root, describeServedCopy(path), environment);
}

async function refuseUnlessAllowed(root: string, fault: Fault | null, environment: NodeJS.ProcessEnv): Promise<void> {
  if (fault === null) return;
  const { loadSettings } = await import('./load.ts');
  if (!(await loadSettings(root, environment)).allowUnsafe) throw new UsageError([fault]);
}

/**
 * This user's own folder with a too open mode is accepted, because it is closed before anything is written to it; but
 * not if others could have put something in already.
 */
function refuseUnsafeState(root: string, { path }: StateFolder, orElse: string): void {
  if (!existsSync(path)) return;
  const stats = lstatSync(path);
  const isOwn = stats.isDirectory() && stats.uid === process.geteuid?.();
  const [first] = isOwn ? judgeContent(root, path, stats) : judgePath(root, path);
  if (first !== undefined) throw new UsageError([faultOf(root, first, orElse)]);
}

function judgeContent(root: string, folder: string, { mode }: Stats): readonly Distrust[] {
  const couldOthersWrite = (mode & 0o022) !== 0;
  const names = couldOthersWrite ? readdirSync(folder) : [];
  return names.flatMap((name) => {
    try {
      return judgePath(root, join(folder, name));
    } catch (error) {
      // The entry is gone, or is a link that leads nowhere or in a circle: nobody could read anything through it.
      if (/^(ENOENT|ENOTDIR|ELOOP)$/.test(errorCode(error))) return [];
      throw error;
    }
  });
}
