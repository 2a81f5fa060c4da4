import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { inRoot } from '../support/command.ts';
import { makeLinkedSite } from '../support/linked-site.ts';
import { keepScreenshot, lookAt, openPage } from '../support/web/browser.ts';
import { startDashboard } from '../support/web/dashboard.ts';

/** A chain with each kind of link, whose import has failed. */
function makeChains() {
  const site = makeLinkedSite({
    'daily/fetch-orders': [],
    'daily/fetch-customers': [],
    'daily/import': ['@after fetch-orders fetch-customers'],
    'daily/report': ['@after import'],
    'daily/alarm': ['@after-failure fetch-orders fetch-customers import'],
    'daily/clean-up': ['@always fetch-orders import'],
    'hourly/alone': [],
  });
  site.fail('import');
  site.call('daily');
  return site;
}

test('the page of a script shows its chain in order, with states, kinds of links, and ways to the others', async () => {
  const { root } = makeChains();
  const { url } = await startDashboard(root);
  const page = await openPage(`${url}#/scripts/daily/import`);
  const chain = page.getByRole('region', { name: 'Chain' });
  await chain.waitFor();
  const texts = await chain.getByRole('listitem').allInnerTexts();
  expect(texts.map((text) => text.replaceAll(/\s+/g, ' ').replace(/ (?:since )?(?:[\d-]+ )?\d+:\d+/, ''))).toEqual([
    'daily/fetch-customers succeeded',
    'daily/fetch-orders succeeded',
    'daily/import this script failed after daily/fetch-orders and daily/fetch-customers',
    'daily/alarm succeeded after a failure of daily/fetch-orders or daily/fetch-customers or daily/import',
    'daily/clean-up succeeded after any end of daily/fetch-orders and daily/import',
    'daily/report waits after daily/import (not yet)',
  ]);
  expect(await chain.locator('[aria-current=true]').innerText()).toContain('daily/import');
  // The arrow to the report is the only one of an end that has not come.
  expect(await chain.locator('.rail.to[data-awaited=true]').count()).toBe(1);
  await lookAt(page, 'chain');
  await page.setViewportSize({ width: 320, height: 700 });
  const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
  expect(overflow, '320').toBeLessThanOrEqual(0);
  await keepScreenshot(page, 'chain-320');
  await page.emulateMedia({ media: 'print', colorScheme: 'light' });
  await page.setViewportSize({ width: 794, height: 1123 });
  await keepScreenshot(page, 'chain-print');
  await page.emulateMedia({ media: 'screen' });
  await chain.getByRole('link', { name: 'daily/report' }).click();
  await page.getByRole('heading', { name: 'daily/report' }).waitFor();
  expect(await chain.locator('[aria-current=true]').innerText()).toContain('daily/report');
  await page.goto(`${url}#/scripts/hourly/alone`);
  await page.getByRole('heading', { name: 'hourly/alone' }).waitFor();
  await page.getByRole('region', { name: 'Why it does or doesn’t run' }).waitFor();
  expect(await chain.count()).toBe(0);
}, 120_000);

test('scripts that wait say so, and for what, on their page, in the list and in Next', async () => {
  const { root } = makeChains();
  const { url } = await startDashboard(root);
  const page = await openPage(`${url}#/scripts/daily/report`);
  const waits = /waits for daily\/import, which failed (?:[\d-]+ )?\d+:\d+/;
  await page.locator('.lead', { hasText: waits }).waitFor();
  expect(await page.locator('.lead').innerText()).toMatch(/; queued since (?:[\d-]+ )?\d+:\d+$/);
  await page.goto(`${url}#/next`);
  const waiting = page.getByRole('table', { name: 'What is queued, and waits' });
  await waiting.waitFor();
  expect(await waiting.locator('tbody tr').allInnerTexts()).toEqual([expect.stringMatching(waits)]);
  await lookAt(page, 'next-waiting');
  await page.goto(`${url}#/scripts`);
  const row = page.getByRole('table', { name: 'Scripts' }).locator('tbody tr', { hasText: 'daily/report' });
  await row.getByText('waits', { exact: true }).waitFor();
  await lookAt(page, 'scripts-waiting');
}, 120_000);

test('a report as a file shows the chain as the page does, and what waits in Next', async () => {
  const { root } = makeChains();
  expect(await inRoot(root, 'report', '--html', 'report.html')).toMatchObject({ status: 0 });
  const file = pathToFileURL(join(root, 'report.html')).href;
  const page = await openPage(`${file}#/scripts/daily/alarm`);
  const chain = page.getByRole('region', { name: 'Chain' });
  expect(await chain.getByRole('listitem').count()).toBe(4);
  await chain.getByRole('link', { name: 'daily/import' }).click();
  await page.getByRole('heading', { name: 'daily/import' }).waitFor();
  expect(await chain.getByRole('listitem').count()).toBe(6);
  await page.goto(`${file}#/next`);
  await page.getByRole('table', { name: 'What is queued, and waits' }).getByText('daily/report').waitFor();
}, 120_000);

test('arrows that begin or end together share a line, so that a wide chain leaves room for names', async () => {
  const names = Array.from({ length: 9 }, (_, index) => `daily/fetch-${index + 1}`);
  const { root } = makeLinkedSite({
    ...Object.fromEntries(names.map((name) => [name, []])),
    'daily/join': ['@after fetch-*'],
    'daily/mail': ['@after join'],
  });
  const { url } = await startDashboard(root);
  const page = await openPage(`${url}#/scripts/daily/join`, { size: 'phone' });
  const chain = page.locator('.chain');
  await chain.waitFor();
  expect(await chain.getAttribute('style')).toContain('--lanes: 1;');
  const parts = (part: string) => chain.locator(`.rail.${part}`).count();
  expect([await parts('from'), await parts('on'), await parts('to')]).toEqual([10, 8, 2]);
});
