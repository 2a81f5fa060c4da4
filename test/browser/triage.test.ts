import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import { readJobs } from '../support/log.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';
import { checkAccess, openDashboard, openPage } from '../support/web/browser.ts';
import { brokenImport, startDashboard, writeHistory } from '../support/web/dashboard.ts';

/** A night in which 60 mails have failed with two causes, and each job carries its customer. */
async function fillRoot() {
  const root = makeTemporaryRoot({ 'jobs/queue/mail/welcome.sh': executable('#!/bin/sh\nexit 0\n') });
  const queue = await openQueue({ root });
  onTestFinished(() => queue.close());
  for (let index = 0; index < 60; index += 1) {
    const customer = `customer${4700 + index}`;
    const job = await queue.claimJob(await queue.add('mail/welcome', { to: `${customer}@example.org`, index }));
    await queue.fail(job, { reason: index % 6 === 0 ? 'SMTP 421' : `${customer} is no address` });
  }
  await queue.add('export', { customer: 7 });
  return { root, queue };
}

test('all failed mails of today are kicked with four clicks, and the dialog tells how many and why', async () => {
  const { root } = await fillRoot();
  const page = await openDashboard(root, '#/queue');
  let clicks = 0;
  const click = async (name: string | RegExp, role: 'link' | 'button' = 'button') => {
    clicks += 1;
    await page.getByRole(role, { name }).first().click();
  };
  await page.getByRole('table', { name: 'Jobs by name' }).getByRole('link', { name: '60', exact: true }).click();
  clicks += 1;
  await page.getByLabel('Added').selectOption('today');
  clicks += 1;
  await page.getByText('50 of 60 jobs').waitFor();
  await click('All 60 that match …');
  const dialog = page.getByRole('dialog');
  await dialog.getByText('60 jobs', { exact: true }).waitFor();
  expect(await dialog.locator('.causes li').allTextContents()).toEqual([
    expect.stringMatching(/^50 customer\d+ is no address$/),
    '10 SMTP 421',
  ]);
  await checkAccess(page, 'triage-all-that-match');
  await click('Run 60 jobs now');
  await page.locator('.toast').getByText('60 jobs made due now.').waitFor();
  expect(clicks).toBe(4);
  expect(readJobs(root).filter(({ state }) => state === 'failed')).toEqual([]);
});

test('rows stay in their places while one is chosen, and new ones are shown on request', async () => {
  const { root, queue } = await fillRoot();
  const page = await openDashboard(root, '#/queue');
  await page.getByLabel('Choose job 61').click();
  const first = page.locator('table', { hasText: 'Tries' }).locator('tbody tr').first();
  await first.getByText('customer 7').waitFor();
  await queue.add('export', { customer: 8 });
  await queue.add('export', { customer: 9 });
  await page.getByRole('button', { name: '2 new' }).waitFor();
  expect(await first.textContent()).toContain('customer 7');
  expect(await page.getByText('1 job chosen').count()).toBe(1);
  await page.getByRole('button', { name: '2 new' }).click();
  await first.getByText('customer 9').waitFor();
  expect(await page.getByText('1 job chosen').count()).toBe(1);
});

test('a job is found by its data, which the rows show with the found text marked', async () => {
  const { root } = await fillRoot();
  const page = await openDashboard(root, '#/queue');
  await page.getByLabel('Search in data').fill('4711');
  await page.keyboard.press('Enter');
  await until('one is left', async () => (await page.locator('mark').allTextContents()).join() === '4711');
  await checkAccess(page, 'triage-found');
});

test('runs and activity are filtered without an error while one types, and the address has all of it', async () => {
  const { root } = await fillRoot();
  const { url } = await startDashboard(root);
  const page = await openPage(`${url}#/runs`);
  await page.getByLabel('Script, error or number').pressSequentially('421');
  await page.getByText('10 runs', { exact: true }).waitFor();
  expect(page.url()).toContain('search=421');
  await page.getByLabel('Started').selectOption('last night');
  expect(page.url()).toContain('since=last+night&until=last+night');
  await page.getByLabel('Started').selectOption('between');
  await page.getByLabel('from').fill('2026-01-01T00:00');
  await page.getByLabel('from').blur();
  expect(page.url()).toContain('since=2026-01-01T00%3A00');
  await page.goto(`${url}#/activity`);
  await page.getByLabel('Text').pressSequentially('SMTP');
  await page.getByText('10 entries', { exact: true }).waitFor();
  await checkAccess(page, 'triage-filters');
});

test('the order of a table stands in the address: a link has it, Back and other filters keep it', async () => {
  const { root } = await writeHistory({ failing: { 'hourly/import-orders': brokenImport } });
  const { url } = await startDashboard(root);
  const page = await openPage(`${url}#/scripts`);
  const headerOf = (on: Page, name: string) => on.getByRole('columnheader', { name, exact: true });
  const rows = async (on: Page) =>
    (await on.locator('tbody tr:not(.note)').allInnerTexts()).map((row) => row.split('\t')[0]);
  await headerOf(page, 'Memory').waitFor();
  const byDefault = await rows(page);
  await headerOf(page, 'Memory').getByRole('button').click();
  await expect.poll(() => headerOf(page, 'Memory').getAttribute('aria-sort')).toBe('descending');
  expect(new URL(page.url()).hash).toBe('#/scripts?sort=-memory');
  const sorted = await rows(page);
  expect(sorted).not.toEqual(byDefault);
  await page.getByRole('link', { name: 'hourly/import-orders' }).click();
  await page.getByRole('heading', { name: 'hourly/import-orders' }).waitFor();
  await page.goBack();
  await expect.poll(() => headerOf(page, 'Memory').getAttribute('aria-sort')).toBe('descending');
  expect(await rows(page)).toEqual(sorted);
  await page.getByLabel('Tier').selectOption('hourly');
  expect(new URL(page.url()).hash).toBe('#/scripts?sort=-memory&tier=hourly');
  const other = await openPage(`${url}#/scripts?sort=-memory`);
  await expect.poll(() => headerOf(other, 'Memory').getAttribute('aria-sort')).toBe('descending');
  expect(await rows(other)).toEqual(sorted);
  const unknown = await openPage(`${url}#/scripts?sort=nonsense`);
  await expect.poll(() => headerOf(unknown, 'State').getAttribute('aria-sort')).toBe('ascending');
  expect(await rows(unknown)).toEqual(byDefault);
});

test('two tables of a page have an order of their own, and so has the span of its charts', async () => {
  const { root } = await writeHistory();
  const page = await openDashboard(root, '#/scripts/hourly/import-orders');
  await page.getByText('These runs as a table').click();
  const orderIn = async (table: string) =>
    await page
      .getByRole('table', { name: table })
      .getByRole('columnheader', { name: 'Duration' })
      .getAttribute('aria-sort');
  const [all, shown] = ['Runs, the newest first', 'The runs that the charts show'];
  await page.getByRole('table', { name: shown }).getByRole('button', { name: 'Duration' }).click();
  await expect.poll(() => orderIn(shown)).toBe('descending');
  expect(await orderIn(all)).toBe('none');
  await page.getByRole('button', { name: '3 months' }).click();
  await expect
    .poll(() => new URL(page.url()).hash)
    .toBe('#/scripts/hourly/import-orders?sort-charts=-duration&charts=90d');
  await page.reload();
  await expect.poll(() => page.getByRole('button', { name: '3 months' }).getAttribute('aria-pressed')).toBe('true');
});

test('Back leads to the same rows, the same place and the same link', async () => {
  const { root } = await fillRoot();
  const page = await openDashboard(root, '#/queue?state=failed');
  await page.getByRole('button', { name: 'Show more' }).click();
  const link = page.getByRole('link', { name: '3', exact: true });
  await link.scrollIntoViewIfNeeded();
  const scrolled = () => page.evaluate<number>('scrollY');
  const before = await scrolled();
  expect(before).toBeGreaterThan(1_000);
  await link.click();
  await page.getByRole('heading', { name: /job 3/i }).waitFor();
  expect(await scrolled()).toBe(0);
  await page.goBack();
  await until('the place is as it was', async () => Math.abs((await scrolled()) - before) < 3);
  await until('the link has the focus', async () => (await page.locator(':focus').textContent()) === '3');
  await page.getByText('60 jobs', { exact: true }).waitFor();
});
