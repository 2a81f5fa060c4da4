import { findProgram } from '../../process/find-program.ts';
import { type Check, note, ok } from './finding.ts';

const usualFolders = ['/usr/sbin', '/usr/lib', '/usr/bin', '/usr/local/sbin', '/usr/local/bin'];

export const checkSendmail: Check = {
  name: 'sendmail',
  run: ({ env }) => {
    const folders = [...usualFolders, ...(env.PATH ?? '').split(':').filter(Boolean)];
    const path = findProgram('sendmail', folders.join(':'));
    if (path !== null) return [ok(path)];
    return [
      note(
        'none: cron has no way to mail what a pass says about failures',
        'Look at `runner report` now and then, or ask the host how cron mails are sent.',
      ),
    ];
  },
};
