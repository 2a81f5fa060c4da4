import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { inRoot } from '../support/command.ts';
import { executable, makeFakeCrontab, makeTemporaryRoot } from '../support/root.ts';
import { lookAt, openPage } from '../support/web/browser.ts';
import { startDashboard, startDashboardWith } from '../support/web/dashboard.ts';
import { writeLog } from '../support/written-log.ts';

const file = executable('#!/bin/sh\n');
const MINUTE = 60_000;

/** 15min and hourly have been called regularly, daily never; two jobs of the queue come, and one waits in vain. */
async function makeSite(): Promise<string> {
  const root = makeTemporaryRoot({
    'jobs/15min/check.sh': file,
    'jobs/15min/sync.sh': file,
    'jobs/hourly/clean.sh': file,
    'jobs/hourly/nightly.sh': executable('#!/bin/sh\n# @schedule daily at 02:30\n'),
    'jobs/hourly/old.sh.disabled': file,
    'jobs/daily/backup.sh': file,
    'jobs/queue/mail.sh': file,
  });
  const log = await writeLog(root);
  const now = Date.now();
  for (const minutes of [17, 2]) await log.addPass('15min', now - minutes * MINUTE);
  for (const minutes of [80, 20]) await log.addPass('hourly', now - minutes * MINUTE);
  await log.addRun('hourly/clean', now - 20 * MINUTE, { duration_us: 900_000_000 });
  await inRoot(root, 'add', 'mail', '--at', '+2 hours');
  await inRoot(root, 'add', 'mail', '--at', '+26 hours');
  await inRoot(root, 'add', 'nobody');
  return root;
}

test('Next shows what did not come, a timeline of what comes, and the same as a table', async () => {
  // A crontab that can be read, and has no line for any of it.
  const { url } = await startDashboardWith(makeFakeCrontab().env, await makeSite());
  const page = await openPage(`${url}#/`);
  await page.getByRole('link', { name: 'What runs next' }).click();
  await page.getByRole('heading', { name: 'Next', exact: true }).waitFor();
  const late = page.getByRole('table', { name: 'What should have run by now' });
  await late.getByText('no crontab line calls it').waitFor();
  expect((await late.locator('tbody tr').allInnerTexts()).map((row) => row.split(/\s/)[0])).toEqual([
    'daily',
    'nobody',
  ]);
  const rows = await page.locator('.next-name').allInnerTexts();
  expect(rows.toSorted()).toEqual(['15min', 'hourly', 'hourly/nightly', 'mail']);
  expect(await page.locator('.next-row', { hasText: '15min' }).locator('.next-bar').count()).toBe(96);
  const barOf = (name: string) => page.locator(`.next-row:has(.next-name bdi:text-is("${name}")) .next-bar`).first();
  const hour = await barOf('hourly').boundingBox();
  const track = await page.locator('.next-track').first().boundingBox();
  // A quarter of an hour of a day.
  expect((hour?.width ?? 0) / (track?.width ?? 1)).toBeCloseTo(1 / 96, 2);
  await lookAt(page, 'next');
  await barOf('hourly/nightly').click();
  await page.waitForURL(/#\/scripts\/hourly\/nightly$/);
});

test('the window stays in the address, and the keyboard reaches all that the timeline shows', async () => {
  const { url } = await startDashboard(await makeSite());
  const page = await openPage(`${url}#/next`);
  const table = page.getByRole('table', { name: 'What comes, in the order of time' });
  await table.waitFor();
  const mails = table.getByRole('link', { name: 'mail', exact: true });
  expect(await mails.count()).toBe(1);
  await page.getByRole('button', { name: 'Week' }).press('Enter');
  const bars = page.locator('.next-row:has(.next-name bdi:text-is("mail")) .next-bar');
  await expect.poll(() => bars.count()).toBe(2);
  await page.waitForURL(/#\/next\?for=7d$/);
  await page.reload();
  await expect.poll(() => bars.count()).toBe(2);
  await page.getByText('50 of 8').waitFor();
  await page.getByRole('button', { name: 'Show more' }).press('Enter');
  await page.getByText('100 of 8').waitFor();
  expect(await page.getByRole('button', { name: 'Week' }).getAttribute('aria-pressed')).toBe('true');
  expect(await page.locator('.next-bar:not([tabindex="-1"])').count()).toBe(0);
  await mails.first().focus();
  await page.keyboard.press('Enter');
  await page.waitForURL(/#\/jobs\/\d+$/);
});

test('a phone has the table alone, and an empty site says why nothing comes', async () => {
  const { url } = await startDashboard(await makeSite());
  const phone = await openPage(`${url}#/next?for=6h`, { size: 'phone' });
  await phone.getByRole('link', { name: 'mail', exact: true }).waitFor();
  expect(await phone.locator('.next-line').isVisible()).toBe(false);
  const empty = await startDashboard(makeTemporaryRoot({ 'jobs/.keep': '' }));
  const page = await openPage(`${empty.url}#/next`);
  await page.getByText('Nothing is expected in this time.').waitFor();
  await page.getByText('There is no tier in jobs/').waitFor();
  const root = await makeSite();
  writeFileSync(join(root, '.runner/activity.db'), 'no database');
  const broken = await startDashboard(root);
  const unread = await openPage(`${broken.url}#/next`);
  await unread.getByText('The log cannot be read').waitFor();
});
