import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Fault } from '../base/errors.ts';
import { shellWord } from '../base/values.ts';
import type { StateFolder } from './state-folder.ts';
import { orAllow } from './trust.ts';

/** Explains that a root or its state folder is inside a web root, with the cure; null: neither is. */
export function describeServedPlace(root: string, state: StateFolder): Fault | null {
  const webRoot = findWebRoot(root);
  return webRoot === null ? describeServedState(state) : describeServedRoot(root, webRoot);
}

function describeServedRoot(root: string, webRoot: string): Fault {
  return {
    found: `${root} is inside ${webRoot}, ${SERVED} your scripts and their output`,
    cure:
      `move it beside that folder, such as with: mv ${shellWord(root)} ~/runner, and ` +
      `renew the crontab lines with \`npx folder-runner cron --install\` there; ${orAllow}`,
  };
}

export const SERVED = 'which a web server probably serves: anybody could read';

/** Explains that the state folder is in a web root while its root is not: it is a link into the web root. */
export function describeServedState({ path }: StateFolder): Fault | null {
  const webRoot = findWebRoot(path);
  if (webRoot === null) return null;
  const [link, folder] = [shellWord(path), shellWord(realpathSync(path))];
  return {
    found: `${path} leads into ${webRoot}, ${SERVED} the output of your scripts`,
    cure: `put the folder in the link's place with: rm ${link} && mv ${folder} ${link}, ${orAllow}`,
  };
}

/** Explains that a file for a copy of the log is inside a web root; null: it is not. */
export function describeServedCopy(path: string): Fault | null {
  const webRoot = findWebRoot(dirname(path));
  if (webRoot === null) return null;
  return {
    found: `${path} is inside ${webRoot}, ${SERVED} the output of your scripts`,
    cure: `name a file beside that folder, such as ~/activity.db, ${orAllow}`,
  };
}

/** Names that hosts give to the folder whose files the web server serves. */
const WEB_ROOT_NAMES = new Set(['public_html', 'www', 'htdocs', 'httpdocs']);

/** Plesk's parent folder of users' homes, and ISPConfig's private folders beside a website. */
const UNSERVED = /^\/var\/www\/(?:vhosts\/|(?:clients\/[^/]+\/)?[^/]+\/private(?:\/|$))/;

/** The root or the folder around it that a web server probably serves; null: none. */
export function findWebRoot(root: string): string | null {
  return webRootIn(root) ?? webRootIn(realPathOf(root));
}

/** The part of the path that a web server probably serves; null: none. */
function webRootIn(path: string): string | null {
  const [home = ''] = UNSERVED.exec(path) ?? [];
  const parts = path.slice(home.length).split('/');
  const index = parts.findIndex((part) => WEB_ROOT_NAMES.has(part));
  return index === -1 ? null : home + parts.slice(0, index + 1).join('/');
}

/** Resolves links, because `~/www` is often a link to `public_html`. The root itself may not exist yet. */
function realPathOf(path: string): string {
  if (existsSync(path)) return realpathSync.native(path);
  return join(realPathOf(dirname(path)), basename(path));
}
