import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

/** What hosts call the folder whose files the web server hands out. */
const WEB_ROOT_NAMES = new Set(['public_html', 'www', 'htdocs', 'httpdocs']);

/** Where Plesk has its users' home folders, and what ISPConfig keeps for them beside the website. */
const UNSERVED = /^\/var\/www\/(?:vhosts\/|(?:clients\/[^/]+\/)?[^/]+\/private(?:\/|$))/;

/** The folder around a root, or the root itself, that a web server probably hands out; or null. */
export function findWebRoot(root: string): string | null {
  return webRootIn(root) ?? webRootIn(realPathOf(root));
}

/** The part of the path that a web server probably serves, or null. */
function webRootIn(path: string): string | null {
  const [home = ''] = UNSERVED.exec(path) ?? [];
  const parts = path.slice(home.length).split('/');
  const index = parts.findIndex((part) => WEB_ROOT_NAMES.has(part));
  return index === -1 ? null : home + parts.slice(0, index + 1).join('/');
}

/** `~/www` is often a link to `public_html`, and the root's own folder may not be there yet. */
function realPathOf(path: string): string {
  if (existsSync(path)) return realpathSync.native(path);
  return join(realPathOf(dirname(path)), basename(path));
}
