import { realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { orAllow } from './describe-distrust.ts';
import { shellWord } from './shell-word.ts';
import type { StateFolder } from './state-folder.ts';
import { findWebRoot } from './web-root.ts';

/** What is wrong with a root or its state folder inside a web root, and the cure; null: neither is in one. */
export function describeServedPlace(root: string, state: StateFolder): string | null {
  const webRoot = findWebRoot(root);
  return webRoot === null ? describeServedState(state) : describeServedRoot(root, webRoot);
}

function describeServedRoot(root: string, webRoot: string): string {
  return (
    `${root} is inside ${webRoot}, which a web server probably hands out: anybody could read your scripts and ` +
    `what they print; move it beside that folder, such as with: mv ${shellWord(root)} ~/runner, and ` +
    `renew the crontab lines with \`runner cron --install\` there; ${orAllow}`
  );
}

/** The same of the state folder of a root beside the web root: then it is a link into it. */
export function describeServedState({ path }: StateFolder): string | null {
  const webRoot = findWebRoot(path);
  if (webRoot === null) return null;
  const [link, folder] = [shellWord(path), shellWord(realpathSync(path))];
  return (
    `${path} leads into ${webRoot}, which a web server probably hands out: anybody could read what your ` +
    `scripts print; put the folder in the link's place with: rm ${link} && mv ${folder} ${link}, ${orAllow}`
  );
}

/** What is wrong with a file for a copy of the log; null: nothing. */
export function describeServedCopy(path: string): string | null {
  const webRoot = findWebRoot(dirname(path));
  if (webRoot === null) return null;
  return (
    `${path} is inside ${webRoot}, which a web server probably hands out: anybody could read what your ` +
    `scripts print; name a file beside that folder, such as ~/activity.db, ${orAllow}`
  );
}
