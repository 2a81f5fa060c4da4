import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { shellWord } from '../base/values.ts';
import type { StateFolder } from './state-folder.ts';
import { orAllow } from './trust.ts';

/** What is wrong with a root or its state folder inside a web root, and the cure; null: neither is in one. */
export function describeServedPlace(root: string, state: StateFolder): string | null {
  const webRoot = findWebRoot(root);
  return webRoot === null ? describeServedState(state) : describeServedRoot(root, webRoot);
}

function describeServedRoot(root: string, webRoot: string): string {
  return (
    `${root} is inside ${webRoot}, which a web server probably serves: anybody could read your scripts and ` +
    `their output; move it beside that folder, such as with: mv ${shellWord(root)} ~/runner, and ` +
    `renew the crontab lines with \`npx folder-runner cron --install\` there; ${orAllow}`
  );
}

/** The same of the state folder of a root beside the web root: then it is a link into it. */
export function describeServedState({ path }: StateFolder): string | null {
  const webRoot = findWebRoot(path);
  if (webRoot === null) return null;
  const [link, folder] = [shellWord(path), shellWord(realpathSync(path))];
  return (
    `${path} leads into ${webRoot}, which a web server probably serves: anybody could read the output of your ` +
    `scripts; put the folder in the link's place with: rm ${link} && mv ${folder} ${link}, ${orAllow}`
  );
}

/** What is wrong with a file for a copy of the log; null: nothing. */
export function describeServedCopy(path: string): string | null {
  const webRoot = findWebRoot(dirname(path));
  if (webRoot === null) return null;
  return (
    `${path} is inside ${webRoot}, which a web server probably serves: anybody could read the output of your ` +
    `scripts; name a file beside that folder, such as ~/activity.db, ${orAllow}`
  );
}

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
