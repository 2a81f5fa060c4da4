import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { inRoot } from '../support/command.ts';
import { keepScreenshot, openPage } from '../support/web/browser.ts';
import { brokenImport, startDashboard, writeHistory } from '../support/web/dashboard.ts';

const widths = [320, 480, 800, 810, 1024, 1100, 1280, 1360, 1920, 2560];

/** A picture of a whole page takes longer than all else. */
const pictured = new Set([320, 1280, 2560]);

const pages = [
  '#/',
  '#/scripts',
  '#/scripts/hourly/import-orders',
  '#/runs',
  '#/runs/1',
  '#/runs/2?with=1',
  '#/queue',
  '#/workers',
  '#/activity',
  '#/incidents',
  '#/next',
  '#/next?for=7d',
  '#/metrics',
  '#/settings',
];

/** What is cut, too narrow, or makes the page scroll sideways. */
const look = `(() => {
  const shown = (element) => element.checkVisibility() && element.getBoundingClientRect().width > 1;
  const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);
  const context = document.createElement('canvas').getContext('2d');
  const letters = (cell) => {
    const style = getComputedStyle(cell);
    context.font = style.font;
    const inside = cell.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    return inside / (context.measureText('hourly/imports').width / 14);
  };
  const narrow = all('td.name').filter((cell) => letters(cell) < 14).map((cell) => 'narrow: ' + cell.textContent);
  const isCut = (button) => {
    const { left, right } = button.getBoundingClientRect();
    const frame = button.closest('.table-frame')?.getBoundingClientRect() ?? { left: 0, right: innerWidth };
    return button.closest('thead') === null && (left < frame.left - 1 || right > frame.right + 1);
  };
  const cut = all('main button').filter(isCut).map((button) => 'cut: ' + button.textContent);
  const wide = document.documentElement.scrollWidth - innerWidth;
  return [...(wide > 0 ? ['scrolls sideways by ' + wide] : []), ...narrow, ...cut];
})()`;

async function lookAtWidths(page: Page, name: string): Promise<string[]> {
  const found: string[] = [];
  for (const width of widths) {
    await page.setViewportSize({ width, height: 900 });
    // A chart follows the width of its place a moment later.
    const seen = async () => (await page.evaluate(look)) as string[];
    await expect
      .poll(seen, { timeout: 3_000 })
      .toEqual([])
      .catch(async () => {
        found.push(...(await seen()).map((each) => `${name} at ${width}: ${each}`));
      });
    if (pictured.has(width)) await keepScreenshot(page, `${name.replaceAll(/\W+/g, '-')}-${width}`);
  }
  return found;
}

test('no page scrolls sideways, cuts a button or has a name narrower than 14 letters, from 320 to 2560 pixels', async () => {
  const { root } = await writeHistory({ scripts: 12, failing: { 'hourly/import-orders': brokenImport } });
  await inRoot(root, 'add', 'mail/newsletter-of-the-month-for-customers');
  await inRoot(root, 'add', 'mail/welcome', '--delay', '1h');
  const { url } = await startDashboard(root);
  const page = await openPage(url);
  const found: string[] = [];
  for (const address of pages) {
    await page.setViewportSize({ width: 1360, height: 900 });
    await page.goto(`${url}${address}`);
    await page.locator('main h1').waitFor();
    await page.locator('main:not(:has([aria-busy=true], .loading))').waitFor();
    found.push(...(await lookAtWidths(page, address)));
  }
  expect(found).toEqual([]);
  await page.setViewportSize({ width: 2560, height: 900 });
  expect((await page.locator('main').boundingBox())?.width).toBeGreaterThan(2000);
});
