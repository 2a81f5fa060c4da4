import { userInfo } from 'node:os';
import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import { cronPlace, runCommand } from '../support/command.ts';
import { queryLog, readJobs } from '../support/log.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';
import { checkAccess, keepScreenshot, openDashboard, openPage } from '../support/web/browser.ts';
import { startDashboard } from '../support/web/dashboard.ts';

const longUrl = `https://example.com/${'a-long-path/'.repeat(10)}`;
const hostile = '<img src=x onerror=alert(1)>';
const me = userInfo().username;

/** A queue with jobs in most states, a script that fails, and names and data that try to break out. */
async function fillRoot(): Promise<string> {
  const root = makeTemporaryRoot({
    'jobs/daily/backup.sh': executable('#!/bin/sh\necho saved\n'),
    'jobs/hourly/import.sh': executable("#!/bin/sh\necho 'no orders'; exit 3\n"),
    'jobs/queue/mail/welcome.sh': executable('#!/bin/sh\nexit 0\n'),
    'runner.config.json': JSON.stringify({ queue: { lease: '5m' } }),
  });
  const queue = await openQueue({ root });
  await queue.add('mail/welcome', { to: 'ada@example.org' });
  await queue.add('mail/welcome', { to: 'bob@example.org' }, { runAt: '+2 hours' });
  await queue.add('export', { customer: 7 });
  const claimed = await queue.claim('export');
  if (claimed !== null) await queue.fail(claimed, { reason: `no such customer ${hostile}` });
  await queue.add(`reprot?${hostile}`, { x: hostile }, { runAt: '+1 hour' });
  await queue.add('mail/welcome', { nightly: true }, { repeat: 'daily at 10:00' });
  await queue.close();
  runCommand(['--root', root, 'hourly'], cronPlace(root));
  return root;
}

/** What happened by the hand of somebody, in its order. */
function doneBy(root: string, actor: string): string[] {
  const events = queryLog<{ event: string }>(root, 'select event from events where actor = ? order by id', actor);
  return events.map(({ event }) => event);
}

const stateOf = (root: string, id: number) => readJobs(root).find((job) => job.id === id)?.state ?? 'deleted';

const button = (place: Page | Locator, name: string | RegExp) => place.getByRole('button', { name });

/** All that a person reads on a page, explanations of buttons included. */
async function readAll(page: Page): Promise<string> {
  const titles = "[...document.querySelectorAll('main [title]')].map(({ title }) => title).join()";
  return (await page.locator('main').innerText()) + (await page.evaluate<string>(titles));
}

/** The sentence that says what came of something. */
async function told(page: Page, text: string | RegExp): Promise<void> {
  await page.locator('.toast').getByText(text).waitFor();
}

test('jobs are kicked, deleted, and added: what is wrong is told at its field, and numbers stay exact', async () => {
  const root = await fillRoot();
  const { url } = await startDashboard(root);
  const page = await openPage(`${url}#/queue`, { expects: /status of 4\d\d/ });
  await page.getByLabel('Choose job 3').click();
  await page.getByRole('group', { name: 'Chosen jobs' }).getByRole('button', { name: 'Run now' }).click();
  await told(page, 'Job 3 (export) made due now.');
  expect(stateOf(root, 3)).toBe('queued');
  for (const [address, shown] of Object.entries({ '/jobs/3': '1 time run now', '/activity': 'made due now' })) {
    const other = await openPage(`${url}#${address}`);
    await other.getByText(shown).first().waitFor();
    expect(await readAll(other)).not.toMatch(/kick/i);
    await other.close();
  }
  expect(await readAll(page)).not.toMatch(/kick/i);

  await page.getByLabel('Choose job 4').click();
  await page.getByLabel('Choose job 2').click({ modifiers: ['Shift'] });
  await button(page, 'Delete').click();
  const dialog = page.getByRole('dialog');
  await keepScreenshot(page, 'queue-delete');
  await button(dialog, 'Delete 3 jobs').click();
  await told(page, '3 jobs deleted.');
  expect([2, 3, 4].map((id) => stateOf(root, id))).toEqual(['deleted', 'deleted', 'deleted']);

  await button(page, 'Add a job …').click();
  await dialog.getByLabel('Name').fill('mail/welcome');
  await dialog.getByLabel('Data').fill('{"id": 12345678901234567890');
  await dialog.getByText('is not JSON yet').waitFor();
  expect(await button(dialog, 'Add job').isDisabled()).toBe(true);
  await dialog.getByLabel('Data').fill(`{"id": 12345678901234567890, "url": "${longUrl}"}`);
  await dialog.getByLabel('Repeat').fill('now and then');
  await button(dialog, 'Add job').click();
  await dialog.locator('.field', { hasText: 'Repeat' }).getByText('is wrong').waitFor();
  await keepScreenshot(page, 'queue-add');
  await dialog.getByLabel('Repeat').fill('daily at 10:00');
  // As the clock of the one who types it has it, which is an hour before UTC.
  await dialog.getByLabel('Run at').fill('2036-12-24 18:00');
  await button(dialog, 'Add job').click();
  await told(page, 'mail/welcome is added:');
  await page.locator('.toast a').click();
  await page.getByLabel('Data as JSON').getByText('12345678901234567890').waitFor();
  await page.getByLabel('Data as JSON').locator('.key', { hasText: '"url"' }).waitFor();
  await page.getByLabel('Data as JSON').locator('.text', { hasText: longUrl }).waitFor();
  const data = `{"id":12345678901234567890,"url":"${longUrl}"}`;
  expect(readJobs(root).at(-1)).toMatchObject({ name: 'mail/welcome', data });
  expect(queryLog(root, 'select run_at from jobs order by id desc limit 1')).toEqual([
    { run_at: Date.UTC(2036, 11, 24, 17) },
  ]);
  await page.getByText(/^Times in Europe\/Berlin/).waitFor();
  expect(doneBy(root, me)).toEqual(['job-kicked', 'job-deleted', 'job-deleted', 'job-deleted', 'job-added']);
});

test('a tier is paused and resumed, a script runs now, an incident is acknowledged and muted', async () => {
  const root = await fillRoot();
  const { url } = await startDashboard(root);
  const page = await openPage(`${url}#/`);
  await button(page, /^Pause daily/).click();
  await page.getByRole('dialog').getByLabel('for 30 minutes').check();
  await keepScreenshot(page, 'overview-pause');
  await button(page.getByRole('dialog'), 'Pause').click();
  await told(page, 'Daily is paused for 30 minutes.');
  expect(queryLog(root, 'select name from pauses')).toEqual([{ name: 'daily' }]);
  await page.locator('.toast').getByRole('button', { name: 'Resume' }).click();
  await told(page, 'Daily is resumed.');
  expect(queryLog(root, 'select name from pauses')).toEqual([]);

  await page.goto(`${url}#/scripts/daily/backup`);
  await button(page, /^Run now/).click();
  await page.getByRole('heading', { name: /^Run \d+$/ }).waitFor();

  await page.goto(`${url}#/incidents`);
  const incident = page.getByRole('listitem', { name: /hourly\/import/ });
  await button(incident, /^Acknowledge/).click();
  await told(page, 'of hourly/import is acknowledged');
  await incident.getByText('acknowledged').waitFor();
  await button(incident, /^Mute/).click();
  await button(page.getByRole('dialog'), 'Mute').click();
  await told(page, 'Incidents of hourly/import are muted for 2 hours.');
  await button(page, /^Unmute hourly/).click();
  await told(page, 'hourly/import is unmuted.');
  await page.locator('.toast').waitFor({ state: 'detached' });
  const events = ['paused', 'resumed', 'run-requested', 'incident-acknowledged', 'muted', 'unmuted'];
  expect(doneBy(root, me)).toEqual(events);
  await page.goto(`${url}#/activity`);
  await page.getByText(`by ${me}`).first().waitFor();
  // What stands for a script in the log is no job of the queue.
  await page.locator('.happenings').getByRole('link', { name: 'hourly/import' }).first().waitFor();
});

/** By the keyboard alone, until it has the focus. */
async function tabTo(page: Page, wanted: Locator): Promise<void> {
  await wanted.waitFor();
  for (let presses = 0; presses < 80; presses += 1) {
    if ((await wanted.and(page.locator(':focus')).count()) === 1) return;
    await page.keyboard.press('Tab');
  }
  throw new Error('It is not reached by the keyboard.');
}

test('the keyboard is enough: jobs are chosen, the dialog is left and used', async () => {
  const root = await fillRoot();
  const page = await openDashboard(root, '#/queue?state=delayed');
  await tabTo(page, page.getByLabel('Choose job 2'));
  await page.keyboard.press('Space');
  const cancel = button(page, 'Cancel');
  await page.keyboard.press('Shift+Tab');
  await tabTo(page, page.getByLabel('Choose job 2'));
  for (let presses = 0; presses < 20 && !(await isFocused(cancel)); presses += 1)
    await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  expect(stateOf(root, 2)).toBe('queued');
  // The focus is back where it was.
  await expect.poll(() => isFocused(cancel)).toBe(true);
  await page.keyboard.press('Enter');
  await tabTo(page, button(page, 'Cancel 1 job'));
  await page.keyboard.press('Enter');
  await told(page, 'Job 2 (mail/welcome) cancelled.');
  expect(stateOf(root, 2)).toBe('cancelled');
});

async function isFocused(wanted: Locator): Promise<boolean> {
  return (await wanted.and(wanted.page().locator(':focus')).count()) === 1;
}

test('a reader sees no verbs, and the server refuses them', async () => {
  const root = await fillRoot();
  const added = runCommand(['--root', root, 'web', 'token', 'add', 'reader', '--read', '--json'], cronPlace(root));
  const { token } = JSON.parse(added.stdout) as { token: string };
  const { url } = await startDashboard(root);
  const page = await openPage(`${url}#/settings`);
  const authorization = `Bearer ${token}`;
  await page.setExtraHTTPHeaders({ authorization });
  for (const [place, text] of [
    ['queue', 'reprot'],
    ['jobs/3', 'customer'],
    ['incidents', 'hourly/import'],
    ['scripts/daily/backup', 'backup'],
  ] as const) {
    await page.goto(`${url}#/${place}`);
    if (place === 'queue') await page.reload();
    await page.locator('main').getByText(text).first().waitFor();
    const names = await page.locator('main button').allInnerTexts();
    expect(
      names.filter((name) => /kick|delete|bury|cancel|pause|run now|add a job|mute|acknowledge/i.test(name)),
    ).toEqual([]);
    expect(await page.locator('main input[type=checkbox]').count()).toBe(0);
  }
  const refused = await fetch(new URL('api/jobs/3', url), { method: 'DELETE', headers: { authorization } });
  expect(refused.status).toBe(403);
  expect(stateOf(root, 3)).toBe('failed');
});

test('each page can be used by everybody, at any size and in both schemes, and shows as text what is text', async () => {
  const root = await fillRoot();
  const { url } = await startDashboard(root);
  const pages = ['queue', 'jobs/3', 'jobs/5', 'workers', 'activity', 'incidents', 'settings'];
  for (const view of [{}, { size: 'phone', scheme: 'dark' }] as const) {
    const page = await openPage(`${url}#/queue?search=onerror`, view);
    await page.getByText('2 jobs found among 5').waitFor();
    for (const name of pages) {
      await page.goto(`${url}#/${name}`);
      await page.locator('main h1').waitFor();
      await page.locator('main:not(:has(.loading))').waitFor();
      await keepScreenshot(page, `${name.replace('/', '-')}${'size' in view ? '-phone-dark' : ''}`);
      expect(await page.locator('main img').count()).toBe(0);
      expect(await page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth'), name).toBe(true);
      if ('size' in view && name !== 'queue') continue;
      await checkAccess(page, name);
    }
  }
});
