import { expect, onTestFinished, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import { runner } from '../support/command.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';
import { lookAt, openPage } from '../support/web/browser.ts';
import { startDashboard } from '../support/web/dashboard.ts';

/** Two scripts, of which one fails, and three jobs. */
async function fillRoot() {
  const root = makeTemporaryRoot({
    'jobs/hourly/import-orders.sh': 'exit 3\n',
    'jobs/hourly/clean-uploads.sh': 'true\n',
    'jobs/queue/mail/welcome.sh': executable('#!/bin/sh\nexit 0\n'),
  });
  runner(root, 'hourly');
  const queue = await openQueue({ root });
  onTestFinished(() => queue.close());
  for (let index = 0; index < 3; index += 1) await queue.add('mail/welcome', { customer: `customer${4711 + index}` });
  return root;
}

test('one field finds scripts, runs and jobs while one types, and Enter opens the first', async () => {
  const { url } = await startDashboard(await fillRoot());
  const page = await openPage(url);
  const field = page.getByRole('searchbox', { name: 'Search scripts, runs, jobs' });
  await field.pressSequentially('import orders');
  await page.getByText('Nothing was found.').waitFor();
  expect(await field.inputValue()).toBe('import orders');
  await field.fill('import');
  await page.getByText('1 script, 1 run, 0 jobs').waitFor();
  await lookAt(page, 'search-found');
  await field.press('Escape');
  await page.locator('.found').waitFor({ state: 'detached' });
  expect(await field.inputValue()).toBe('');
  await field.fill('import');
  await field.press('Enter');
  await page.getByRole('heading', { name: 'hourly/import-orders' }).waitFor();
  expect(await field.inputValue()).toBe('');
  await field.fill('4712');
  await page.locator('.found').getByRole('link', { name: 'job 4' }).click();
  await page.getByRole('heading', { name: /job 4/i }).waitFor();
  expect(await page.locator('.found').count()).toBe(0);
});

test('keys lead from row to row, open one, search and list themselves; never while one types, or when switched off', async () => {
  const { url } = await startDashboard(await fillRoot());
  const page = await openPage(`${url}#/queue`);
  const { keyboard } = page;
  const focused = page.locator(':focus');
  const jobs = page.locator('table', { hasText: 'Tries' });
  await jobs.getByRole('link').first().waitFor();
  await keyboard.press('j');
  const first = await focused.innerText();
  await keyboard.press('j');
  expect(await focused.innerText()).not.toBe(first);
  await keyboard.press('k');
  expect(await focused.innerText()).toBe(first);
  await jobs.getByRole('link', { name: '4', exact: true }).focus();
  await keyboard.press('j');
  expect(await focused.innerText()).toBe('3');
  await keyboard.press('Control+k');
  expect(await focused.innerText()).toBe('3');
  await keyboard.press('o');
  await page.getByRole('heading', { name: /job 3/i }).waitFor();
  await keyboard.press('?');
  const dialog = page.getByRole('dialog', { name: 'Keys' });
  await dialog.waitFor();
  await lookAt(page, 'keys-dialog');
  await keyboard.press('/');
  expect(await focused.innerText()).toBe('Close');
  await keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  await keyboard.press('/');
  await keyboard.type('jo?/');
  const field = page.getByRole('searchbox', { name: 'Search scripts, runs, jobs' });
  expect(await field.inputValue()).toBe('jo?/');
  await page.goto(`${url}#/activity`);
  await page.locator('.happenings a').first().waitFor();
  await page.getByRole('heading', { name: 'Activity' }).focus();
  await keyboard.press('j');
  expect(await focused.evaluate((link) => link.closest('.happenings') !== null)).toBe(true);
  await page.getByRole('checkbox', { name: 'Keys' }).uncheck();
  await page.reload();
  await page.locator('.happenings a').first().waitFor();
  await keyboard.press('j');
  await keyboard.press('?');
  expect(await focused.count()).toBe(0);
  expect(await dialog.count()).toBe(0);
});
