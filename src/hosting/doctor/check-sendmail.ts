import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';
import { type Check, note, ok } from './finding.ts';

const usualFolders = ['/usr/sbin', '/usr/lib', '/usr/bin', '/usr/local/sbin', '/usr/local/bin'];

export const checkSendmail: Check = {
  name: 'sendmail',
  run: ({ env }) => {
    const folders = [...usualFolders, ...(env.PATH ?? '').split(':').filter(Boolean)];
    const path = folders.map((folder) => join(folder, 'sendmail')).find(isExecutable);
    if (path !== undefined) return [ok(path)];
    return [
      note(
        'none: cron has no way to mail what a pass says about failures',
        'Look at `runner report` now and then, or ask the host how cron mails are sent.',
      ),
    ];
  },
};

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
