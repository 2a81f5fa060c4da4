import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { keepScreenshot, openPage } from '../support/web/browser.ts';
import { startDashboard } from '../support/web/dashboard.ts';
import { makeTroubledSite, pagesOf, showPage } from '../support/web/troubled-site.ts';

const widths = [320, 390, 480, 800, 810, 1024, 1100, 1280, 1360, 1440, 1920, 2560];

/** A picture of a whole page takes longer than all else. */
const pictured = new Set([320, 1280, 2560]);

/** What is cut, too narrow, or makes the page scroll sideways. */
const look = `(() => {
  const shown = (element) => element.checkVisibility() && element.getBoundingClientRect().width > 1;
  const all = (selector) => [...document.querySelectorAll(selector)].filter(shown);
  const context = document.createElement('canvas').getContext('2d');
  const letters = (element) => {
    const style = getComputedStyle(element);
    context.font = style.font;
    const inside = element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    return inside / (context.measureText('hourly/imports').width / 14);
  };
  const tell = (what, elements) => elements.map((element) => what + ': ' + element.textContent.slice(0, 40));
  const narrow = all('td.name').filter((cell) => letters(cell) < 14);
  // What is cut with an ellipsis keeps as many letters, and can be read whole elsewhere.
  const isCutShort = (element) => {
    const { overflowX, textOverflow } = getComputedStyle(element);
    const isCut = overflowX !== 'visible' && overflowX !== 'auto' && element.scrollWidth > element.clientWidth + 1;
    return isCut && !(textOverflow === 'ellipsis' && letters(element) >= 14);
  };
  const short = all('main *, dialog *, header *').filter((each) => !each.matches('.hidden, .next-track') && isCutShort(each));
  const isCut = (button) => {
    const { left, right } = button.getBoundingClientRect();
    const frame = button.closest('.table-frame, dialog')?.getBoundingClientRect() ?? { left: 0, right: innerWidth };
    return button.closest('thead') === null && (left < frame.left - 1 || right > frame.right + 1);
  };
  const cut = all('button').filter(isCut);
  const boxes = all('.table-frame').filter((frame) => frame.querySelector('table').offsetWidth > frame.clientWidth + 1);
  const wide = document.documentElement.scrollWidth - innerWidth;
  return [
    ...(wide > 0 ? ['scrolls sideways by ' + wide] : []),
    ...tell('narrow', narrow),
    ...tell('cut', cut),
    ...tell('cut short', short),
    ...tell('table wider than its frame', boxes),
  ];
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
  const site = await makeTroubledSite();
  const { url } = await startDashboard(site.root);
  const page = await openPage(url, { expects: /404/ });
  const found: string[] = [];
  for (const shown of pagesOf(site)) found.push(...(await lookAtWidths(page, await showPage(page, url, shown))));
  expect(found).toEqual([]);
  await page.setViewportSize({ width: 2560, height: 900 });
  expect((await page.locator('main').boundingBox())?.width).toBeGreaterThan(2000);
}, 600_000);
