import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { compareBytes, printableName } from '../system/base/values.ts';
import { reasonToIgnore, tierNames } from './jobs-folder.ts';
import { isScriptExtension } from './launch.ts';
import { QUEUE_TIER } from './place.ts';
import { isExecutableFile } from './script-file.ts';

/** The ending of a file, or of a script's folder, that must not run. */
export const DISABLED = '.disabled';

/** A script or handler that `runner disable` has renamed: `clean-tmp.sh.disabled`. */
export interface DisabledScript {
  /** Its name once it is enabled: `hourly/clean-tmp`. */
  readonly name: string;
  readonly tier: string;
  /** Absolute, with the ending. */
  readonly path: string;
}

/**
 * The disabled scripts of all tiers, then the disabled handlers, each in the order of their names.
 *
 * @throws {UsageError} if `jobs/` cannot be read
 */
export function findDisabled(root: string): readonly DisabledScript[] {
  return [...tierNames(root), QUEUE_TIER].flatMap((tier) => {
    const folder = join(root, 'jobs', tier);
    return listNames(folder, tier === QUEUE_TIER)
      .filter((file) => isScriptOnceEnabled(folder, file))
      .map((file) => ({ name: nameOf(tier, file), tier, path: join(folder, file) }));
  });
}

/** Discovery reports a folder that cannot be read. */
function listNames(folder: string, isDeep: boolean): readonly string[] {
  try {
    const names = readdirSync(folder, { recursive: isDeep, encoding: 'utf8' });
    return names.filter((name) => name.endsWith(DISABLED)).toSorted(compareBytes);
  } catch {
    return [];
  }
}

/** False if the enabled script exists as well, perhaps after a deploy. */
function isScriptOnceEnabled(folder: string, file: string): boolean {
  const enabled = withoutEnding(file);
  if (enabled.split('/').some((part) => part === '' || reasonToIgnore(part) !== null)) return false;
  if (existsSync(join(folder, enabled))) return false;
  const path = join(folder, file);
  return isScriptExtension(extname(enabled)) || isExecutableFile(path) || hasIndex(path);
}

function hasIndex(path: string): boolean {
  return listAll(path).some((name) => name.startsWith('index.'));
}

function listAll(path: string): readonly string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function nameOf(tier: string, file: string): string {
  const enabled = withoutEnding(file);
  return `${tier}/${printableName(join(dirname(enabled), basename(enabled, extname(enabled))))}`;
}

function withoutEnding(file: string): string {
  return file.slice(0, -DISABLED.length);
}
