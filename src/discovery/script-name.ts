import { statSync } from 'node:fs';
import { basename, dirname, extname, join, relative, resolve, sep } from 'node:path';
import { listNames, printableName } from '../system/base/values.ts';
import { DISABLED } from './disabled.ts';
import { reasonToIgnore } from './jobs-folder.ts';
import { QUEUE_TIER } from './place.ts';

interface From {
  readonly root: string;
  readonly cwd: string;
}

/**
 * The name of the script or handler whose file is meant, as seen from the current folder, the root or `jobs/`:
 * `hourly/x` for `jobs/hourly/x.sh`, `./x.sh`, or `x.sh` where only one tier has it. Any other word stays as it is.
 */
export function scriptNameOf(word: string, { root, cwd }: From): string {
  if (!/[/.]/.test(word)) return word;
  try {
    return findName(word, { root, cwd }) ?? word;
  } catch {
    // Of what cannot be read tells whoever looks the name up.
    return word;
  }
}

function findName(word: string, { root, cwd }: From): string | null {
  const jobs = join(root, 'jobs');
  const paths = [cwd, root, jobs].map((folder) => resolve(folder, word));
  const [name] = paths.filter((path) => path.startsWith(jobs + sep)).flatMap((path) => nameOfPath(jobs, path) ?? []);
  return name ?? nameInTiers(jobs, word);
}

/** Of several, what they have in common: whoever looks that up tells which they are. */
function nameInTiers(jobs: string, file: string): string | null {
  if (file.includes('/')) return null;
  const [name = null, ...others] = listNames(jobs).flatMap((tier) => nameOfPath(jobs, join(jobs, tier, file)) ?? []);
  return others.length === 0 ? name : basename(name as string);
}

/** Null: no script lies there. */
function nameOfPath(jobs: string, path: string): string | null {
  const parts = relative(jobs, path).split(sep);
  if (parts.length < 2) return null;
  const [tier = ''] = parts;
  const folder = dirname(path);
  const names = listNames(folder).filter((name) => reasonToIgnore(withoutDisabled(name)) === null);
  const file = basename(path);
  const nameUpTo = (end: number, label = '') => printableName(join(...parts.slice(0, end), label));
  if (isFolder(path))
    return listNames(path).some((name) => isMain(tier, file, name)) ? nameUpTo(-1, withoutDisabled(file)) : null;
  if (!names.includes(file)) return names.some((name) => labelOf(name) === file) ? nameUpTo(-1, file) : null;
  return parts.length > 2 && isMain(tier, basename(folder), file) ? nameUpTo(-1) : nameUpTo(-1, labelOf(file));
}

/** What makes a folder one script; each other file of a handlers' folder is one of its own. */
function isMain(tier: string, folder: string, file: string): boolean {
  const isCalledAlike = tier !== QUEUE_TIER && [file, labelOf(file)].includes(withoutDisabled(folder));
  return isCalledAlike || labelOf(file) === 'index';
}

function labelOf(file: string): string {
  const name = withoutDisabled(file);
  return name.slice(0, name.length - extname(name).length);
}

function withoutDisabled(name: string): string {
  return name.endsWith(DISABLED) ? name.slice(0, -DISABLED.length) : name;
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
