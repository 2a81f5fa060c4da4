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
