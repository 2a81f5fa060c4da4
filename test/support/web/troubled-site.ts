import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { openQueue } from '../../../src/index.ts';
import type { FinishedRun } from '../../../src/store/schema.ts';
import { inRoot, runner } from '../command.ts';
import { changeLog } from '../log.ts';
import { executable, writeFiles } from '../root.ts';
import { running } from '../written-log.ts';
import { brokenImport, writeHistory } from './dashboard.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Names as people have them: wide letters, one without a place to break it, and one that fills a line. */
export const longNames = {
  wide: 'hourly/日本語の名前のとても長いスクリプト',
  word: 'hourly/synchronizationOfTheWarehouseWithAllSuppliersAndTheirRepresentatives',
  line: 'hourly/import-orders-of-a-supplier-with-a-very-long-name-that-nobody-types-without-completion',
  handler: 'mail/newsletter-of-the-month-for-customers-who-have-bought-something-within-the-last-year',
};

const stopped: Partial<FinishedRun> = {
  ...{ outcome: 'stopped', exit_code: null, signal: 'SIGTERM', duration_us: 65_000_000 },
  ...{ reason: 'stopped by ada after 1m 5s, ended with SIGTERM', output: 'half of it is done\n' },
};

/** The numbers of what pages show one of. */
export interface TroubledSite {
  readonly root: string;
  readonly runs: Readonly<Record<'good' | 'failed' | 'stopped' | 'running' | 'ofJob', number>>;
  readonly jobs: Readonly<Record<'failed' | 'repeating' | 'waiting', number>>;
}

/** A site in which most things are wrong, with names as long as they can be: what each page has to bear. */
export async function makeTroubledSite(): Promise<TroubledSite> {
  const { root, log } = await writeHistory({
    scripts: 12,
    failing: { 'hourly/import-orders': brokenImport, 'hourly/clean-uploads-001': brokenImport },
    running: { 'daily/send-newsletter': 65_000, [longNames.word]: 20_000 },
  });
  const file = executable('#!/bin/sh\nexit 0\n');
  writeFiles(root, {
    ...Object.fromEntries([longNames.wide, longNames.word, longNames.line].map((name) => [`jobs/${name}.sh`, file])),
    'jobs/hourly/wrong.sh': '# @timeout soon\n# @retires 3\ntrue\n',
    'jobs/hourly/nightly.sh': executable('#!/bin/sh\n# @schedule daily at 02:30\n'),
    'jobs/daily/old-and-unused.sh.disabled': file,
    'jobs/monthly/invoices.sh': file,
    'jobs/weekly/fetch.sh': file,
    'jobs/weekly/load.sh': executable(`#!/bin/sh\n# @after fetch ${longNames.word}\n`),
    'jobs/weekly/report.sh': executable('#!/bin/sh\n# @after load\n# @always fetch\n'),
    'jobs/weekly/alarm.sh': executable('#!/bin/sh\n# @after-failure fetch load\n'),
    [`jobs/queue/${longNames.handler}.sh`]: executable('#!/bin/sh\n# @tries 1\necho sent to nobody; exit 3\n'),
    'jobs/queue/export.sh': file,
  });
  writeFileSync(join(root, 'runner.config.json'), JSON.stringify({ siteName: 'shop.example.org, the old one' }));
  const now = Date.now();
  await log.addRun(longNames.wide, now - 3 * HOUR_MS);
  await log.addRun(longNames.line, now - 2 * HOUR_MS, { ...brokenImport, outcome: 'timed-out', exit_code: null });
  await log.addPass('hourly', now - 30 * MINUTE_MS, {
    state: 'skipped',
    reason: 'another pass of hourly was running: pid 4711 on web2',
  });
  for (let day = 24; day > 0; day -= 1) {
    const duration_us = day > 4 ? 6_400_000 : 30_000_000;
    await log.addRun('daily/slowed-down', now - day * DAY_MS, { duration_us, content_hash: 'aa'.repeat(32) });
  }
  writeFiles(root, { 'jobs/daily/slowed-down.sh': file });
  const stoppedRun = await log.addRun('hourly/clean-uploads', now - 12 * MINUTE_MS, stopped);
  const runningRun = await log.addRun('hourly/clean-uploads-001', now - 15_000, { ...running, pid: process.pid });
  const jobs = await fillQueue(root);
  for (const args of [
    ['pause', '15min', '--for', '2h'],
    ['pause', `queue/${longNames.handler}`],
    ['mute', 'hourly/clean-uploads-001', '--for', '1d'],
    ['disable', 'daily/backup-database-002'],
    // It is skipped, refuses what is wrong, and takes down what else is to be told.
    ['hourly'],
    // Its chain waits.
    ['weekly'],
  ])
    await inRoot(root, ...args);
  const { stdout } = await inRoot(root, 'report', 'hourly/import-orders', '--json');
  const runsOf = JSON.parse(stdout).runs as readonly { id: number; outcome: string }[];
  const idOf = (outcome: string): number => runsOf.find((run) => run.outcome === outcome)?.id as number;
  const handled = await inRoot(root, 'show', `queue/${longNames.handler}`, '--json');
  return {
    root,
    runs: {
      ...{ good: idOf('succeeded'), failed: idOf('failed'), stopped: stoppedRun, running: runningRun },
      ofJob: JSON.parse(handled.stdout).id,
    },
    jobs,
  };
}

/** Jobs in each state, some of which nobody ever processes. */
async function fillQueue(root: string): Promise<TroubledSite['jobs']> {
  const queue = await openQueue({ root });
  for (let customer = 0; customer < 20; customer += 1) await queue.add(longNames.handler, { customer });
  await queue.close();
  runner(root, 'work');
  const again = await openQueue({ root });
  const data = {
    to: 'ada.with.a.long.name@mail.example.org',
    lines: Array.from({ length: 30 }, (_, line) => ({ line })),
  };
  const failed = await again.add('export', data);
  await again.fail((await again.claim('export')) ?? 0, {
    reason: `no such customer: https://example.org/${'a-long-path/'.repeat(12)}`,
  });
  for (let customer = 0; customer < 30; customer += 1) await again.add('reprot', { customer });
  const waiting = await again.add(`${longNames.handler}?customer=4711`, data, {
    runAt: '+2 hours',
    group: longNames.line,
  });
  const repeating = await again.add('export', { nightly: true }, { repeat: 'daily at 03:10' });
  await again.close();
  changeLog(
    root,
    `update jobs set created_at = ?, run_at = ? where name = 'reprot'`,
    Date.now() - HOUR_MS,
    Date.now() - HOUR_MS,
  );
  return { failed, waiting, repeating };
}

/** A page of the site, in the state that a visitor has brought it to. */
export interface ShownPage {
  readonly address: string;
  /** Left out: as it comes. */
  readonly state?: string;
  readonly open?: (page: Page) => Promise<void>;
}

/** All pages of the site, each list, item and dialog of which there is one. */
export function pagesOf({ runs, jobs }: TroubledSite): readonly ShownPage[] {
  const addresses = [
    ...['/', '/scripts', '/scripts?state=failing', '/scripts/hourly/import-orders', `/scripts/${longNames.word}`],
    ...[
      `/scripts/${longNames.line}`,
      `/scripts/queue/${longNames.handler}`,
      '/scripts/hourly/wrong',
      '/scripts/weekly/load',
    ],
    ...[
      '/scripts/daily/old-and-unused',
      '/scripts/nobody/knows',
      '/runs',
      '/runs?search=columns',
      `/runs/${runs.good}`,
    ],
    ...[`/runs/${runs.failed}`, `/runs/${runs.failed}?with=${runs.good}`, `/runs/${runs.stopped}`],
    ...[`/runs/${runs.running}`, `/runs/${runs.ofJob}`, '/runs/999999', '/queue', '/queue?state=failed&search=ada'],
    ...[`/jobs/${jobs.failed}`, `/jobs/${jobs.waiting}`, `/jobs/${jobs.repeating}`, '/jobs/999999', '/incidents'],
    ...['/next', '/next?for=7d', '/workers', '/activity', '/metrics', '/settings', '/nowhere'],
  ].map((address): ShownPage => ({ address }));
  const dialog = (address: string, name: string | RegExp, before?: (page: Page) => Promise<void>): ShownPage => ({
    ...{ address, state: `dialog of ${name}` },
    open: async (page) => {
      await before?.(page);
      await page.getByRole('button', { name }).first().click();
      await page.getByRole('dialog').waitFor();
    },
  });
  const chooseJobs = async (page: Page): Promise<void> => await page.getByLabel('Choose all 50 shown').check();
  return [
    ...addresses,
    dialog('/', /^Pause hourly/),
    dialog('/', /^Stop/),
    dialog('/', /^Mute/),
    dialog('/scripts/hourly/import-orders', /^Run with arguments/),
    dialog('/queue', /^Add a job/),
    dialog('/queue', /that match/),
    dialog('/queue', /^Delete/, chooseJobs),
    dialog(`/jobs/${jobs.failed}`, /^Delete/),
    {
      ...{ address: '/', state: 'keys' },
      open: async (page) => {
        await page.getByRole('heading', { name: 'Overview' }).focus();
        await page.keyboard.press('?');
        await page.getByRole('dialog', { name: 'Keys' }).waitFor();
      },
    },
    {
      ...{ address: '/scripts', state: 'search' },
      open: async (page) => {
        await page.getByRole('searchbox', { name: 'Search scripts, runs, jobs' }).fill('import');
        await page.locator('.found li').first().waitFor();
      },
    },
    {
      ...{ address: '/scripts/hourly/import-orders', state: 'all unfolded' },
      open: async (page) => {
        for (const fold of await page.locator('summary').all()) await fold.click();
        await page.locator('details[open] table').first().waitFor();
      },
    },
    {
      ...{ address: '/queue', state: 'chosen' },
      open: chooseJobs,
    },
  ];
}

/** Opens a page at the width of a desk, and waits until all of it is there; its name. */
export async function showPage(page: Page, url: string, { address, state, open }: ShownPage): Promise<string> {
  await page.setViewportSize({ width: 1440, height: 900 });
  // Otherwise a dialog of the page before would stay.
  await page.goto('about:blank');
  await page.goto(`${url}#${address}`);
  await page.locator('main h1').waitFor();
  await page.locator('main:not(:has([aria-busy=true], .loading))').waitFor();
  await open?.(page);
  return state === undefined ? address : `${address}, ${state}`;
}
