import { lstatSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * The link on the way to a root that its user has made, such as `current` of a deploy, and can redirect; null: none. A
 * link to all homes of a host is the host's own.
 */
export function findOwnLink(path: string): string | null {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  const parent = dirname(path);
  if (parent === path || stats === undefined) return null;
  // An entry at the top of the file system belongs to the system, even if this user is root.
  const isOwn = stats.isSymbolicLink() && stats.uid === process.geteuid?.() && parent !== '/';
  return isOwn ? path : findOwnLink(parent);
}

/** The data that stays behind when such a link leads to another folder, and the cure; null: none. */
export function findUnshared(root: string): { readonly fault: string; readonly cure: string } | null {
  const link = findOwnLink(root);
  if (link === null || lstatSync(join(root, '.runner'), { throwIfNoEntry: false })?.isSymbolicLink()) return null;
  const left = join(realpathSync(root), '.runner');
  return {
    fault: `${link} is a link: when it leads to another release one day, the log and the waiting jobs stay behind in ${left}`,
    cure: 'Make .runner a link to one folder for all releases, as docs/cron.md shows.',
  };
}

/** Whether two paths lead to one folder, or to sibling releases of which a link of the user's names one. */
export function areAlike(root: string, other: string): boolean {
  const [real, realOther] = [root, other].map((path) => realpathSync(path)) as [string, string];
  if (real === realOther) return true;
  const isLinked = findOwnLink(root) !== null || findOwnLink(other) !== null;
  return isLinked && dirname(real) === dirname(realOther);
}
