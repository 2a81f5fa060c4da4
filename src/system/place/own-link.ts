import { lstatSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * The link on the way to a root that its user has made, such as `current` of a deploy, and can make lead elsewhere;
 * null: there is none. One that leads to all homes of a host is the host's own.
 */
export function findOwnLink(path: string): string | null {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  const parent = dirname(path);
  if (parent === path || stats === undefined) return null;
  // What lies at the top belongs to the system, also to a user root.
  const isOwn = stats.isSymbolicLink() && stats.uid === process.geteuid?.() && parent !== '/';
  return isOwn ? path : findOwnLink(parent);
}

/** What such a link leaves behind when it leads to another folder, and the cure; null: nothing. */
export function findUnshared(root: string): { readonly fault: string; readonly cure: string } | null {
  const link = findOwnLink(root);
  if (link === null || lstatSync(join(root, '.runner'), { throwIfNoEntry: false })?.isSymbolicLink()) return null;
  const left = join(realpathSync(root), '.runner');
  return {
    fault: `${link} is a link: when it leads to another release one day, the log and the waiting jobs stay behind in ${left}`,
    cure: 'Make .runner a link to one folder for all releases, as docs/cron.md shows.',
  };
}

/** Whether two paths lead to one folder, or to releases side by side of which a link of the user's names one. */
export function areAlike(root: string, other: string): boolean {
  const [real, realOther] = [root, other].map((path) => realpathSync(path)) as [string, string];
  if (real === realOther) return true;
  const isLinked = findOwnLink(root) !== null || findOwnLink(other) !== null;
  return isLinked && dirname(real) === dirname(realOther);
}
