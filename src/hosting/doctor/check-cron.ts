import { existsSync } from 'node:fs';
import { type Check, note, ok } from './finding.ts';
import { listProcesses } from './processes.ts';

const daemons = new Set(['cron', 'crond', 'fcron', 'anacron', 'supercronic', 'systemd-cron']);

/** Only notes: a host can call cron from outside what this account sees. */
export const checkCron: Check = {
  name: 'cron',
  run: () => {
    const running = listProcesses().find(({ program }) => daemons.has(program));
    if (running !== undefined) return [ok(`${running.program} runs (pid ${running.pid})`)];
    if (!existsSync('/proc/1/stat')) return [ok('unknown: processes of others are not visible')];
    return [
      note(
        'no cron daemon runs among the processes that can be seen',
        'Ask the host whether cron runs; without it call the tiers by hand or by other means.',
      ),
    ];
  },
};
