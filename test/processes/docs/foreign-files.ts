import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeBedrock, makeLaterJob } from '../../support/foreign.ts';
import type { ExamplePlace } from '../../support/site.ts';

/** What the reader of a page brings along: the queue that they come from, or a home for what scripts write there. */
const bringers: Readonly<Record<string, (folder: string, home: string) => void>> = {
  'docs/coming-from.md': bringQueues,
  'docs/cron.md': bringHome,
};

export function bringForeignFiles(page: string, { root, env }: ExamplePlace): void {
  bringers[page]?.(root, env.HOME as string);
}

/** That of a script is the user's, whoever calls: the test has no user of its own. */
function bringHome(folder: string, home: string): void {
  writeFileSync(join(folder, 'runner.config.json'), JSON.stringify({ env: { HOME: home } }));
}

function bringQueues(folder: string): void {
  bringBedrock(folder);
  bringLaterJob(folder);
}

function bringBedrock(folder: string): void {
  makeBedrock({ folder, journal: 'wal' }, [
    { jobID: 1, name: 'Mail', state: 'FAILED' },
    { jobID: 2, name: 'CheckLiveness', repeat: 'HOURLY', nextRun: '2036-03-01 08:00:00' },
    { jobID: 3, name: 'Mail', state: 'RUNNING', retryAfter: '+5 MINUTES' },
    { jobID: 4, name: 'Export', state: 'PAUSED' },
    { jobID: 5, name: 'Export/part', parentJobID: 4 },
    { jobID: 6, name: 'Export/part', parentJobID: 4, state: 'FINISHED' },
  ]);
}

const UUID_END = '-8bf9-3888-9912-ace4e6543002';

function bringLaterJob(folder: string): void {
  const job_data = '{"to":"a@example.org"}';
  makeLaterJob(
    { folder, file: 'app.db' },
    {
      jobs: [
        { job_id: `1b0c2e5f${UUID_END}`, state_id: 4, retry_count: 2, job_data },
        { job_id: `2c1d3f60${UUID_END}`, state_id: 2, job_data },
        { job_id: `3d2e4f71${UUID_END}`, job_data: 'a:1:{s:2:"to";s:1:"a";}' },
        { job_id: `4e3f5082${UUID_END}`, state_id: 5, retry_count: 0, job_data },
      ],
    },
  );
}
