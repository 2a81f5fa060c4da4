import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { executable, makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';
import { keepScreenshot, lookAt, openDashboard, openPage } from '../support/web/browser.ts';
import { startDashboard } from '../support/web/dashboard.ts';
import { type WrittenRun, writeLog } from '../support/written-log.ts';

const DAY_MS = 86_400_000;

/** A script that ran each day: each 41st failed, one 12 days ago was slow, its content changed twice. */
async function writeYear(root: string, script: string) {
  const { addRun, addPass, change } = await writeLog(root);
  const now = Date.now();
  await addPass('daily', now - DAY_MS - 3_600_000);
  const worker_id = await addPass('daily', now - 3_600_000);
  for (let day = 300; day > 0; day -= 1) {
    const durationMs = Math.round(40_000 + 15_000 * Math.sin(day / 9) + (day === 12 ? 180_000 : 0));
    const failure = { outcome: 'failed', exit_code: 1, reason: 'exit code 1', error_message: 'no answer' } as const;
    const startedAt = now - day * DAY_MS + 3_600_000;
    const fields: WrittenRun = {
      ...{
        worker_id,
        claim_number: 1000 - day,
        duration_us: durationMs * 1000,
        max_rss_bytes: (60 + (day % 13)) * 1024 * 1024,
      },
      ...{ content_hash: (day > 200 ? 'a' : day > 20 ? 'b' : 'c').repeat(64), finished_at: startedAt + durationMs },
      ...(day % 41 === 0 ? failure : {}),
    };
    const id = await addRun(script, startedAt, fields);
    if (day !== 12) continue;
    change(
      "insert or replace into deviations (run_id, measure, name, value, usual, runs) values (?, 'duration', '', ?, 53000, 30)",
      id,
      durationMs,
    );
  }
}

const legend = (page: Page) => page.locator('.chart-legend');

test('a script’s chart has marks, zooms by mouse and keys, and leads to its runs', async () => {
  const root = makeTemporaryRoot({ 'jobs/daily/import-orders.sh': executable('#!/bin/sh\necho ok\n') });
  await writeYear(root, 'daily/import-orders');
  const page = await openDashboard(root, '#/scripts/daily/import-orders');
  await page.getByText('It will run with the next pass').waitFor();
  // The last month: one run was slow, the file changed once, none failed.
  await page.getByText('30 runs').first().waitFor();
  expect(await legend(page).innerText()).toMatch(/30 runs\s+✕ 0 failed\s+▲ 1 unusual\s+┆ 1 change of/);
  await page.getByRole('button', { name: 'Year', exact: true }).click();
  await legend(page).getByText('300 runs').waitFor();
  expect(await legend(page).innerText()).toMatch(/300 runs\s+✕ 7 failed\s+▲ 1 unusual\s+┆ 2 changes of/);
  await lookAt(page, 'script');

  // By mouse: what is dragged over is shown alone, a double click shows everything.
  const plot = page.locator('.u-over').first();
  const { x, y, width, height } = (await plot.boundingBox()) as Record<'x' | 'y' | 'width' | 'height', number>;
  await page.mouse.move(x + width * 0.5, y + height / 2);
  await page.mouse.down();
  await page.mouse.move(x + width * 0.75, y + height / 2, { steps: 4 });
  await page.mouse.up();
  await page.getByRole('button', { name: 'Show all again' }).waitFor();
  expect(Number(/(\d+) runs/.exec(await legend(page).innerText())?.[1])).toBeGreaterThan(60);
  expect(Number(/(\d+) runs/.exec(await legend(page).innerText())?.[1])).toBeLessThan(90);
  await plot.dblclick();
  await legend(page).getByText('300 runs').waitFor();

  // By keys: from run to run, and into one.
  await page.mouse.move(0, 0);
  await page.getByRole('region', { name: 'How long each run took' }).focus();
  await page.keyboard.press('ArrowLeft');
  await page.getByText('Run 300 · succeeded').first().waitFor();
  for (let step = 0; step < 11; step += 1) await page.keyboard.press('ArrowLeft');
  await page.getByText('4.4× its usual 53s').first().waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Run 289' }).waitFor();
  await page.goBack();

  // However often they were drawn anew, there are two charts.
  await legend(page).waitFor();
  expect(await page.locator('.uplot canvas').count()).toBe(2);
});

test('metrics are charts of any time, of everything or one script; runs are listed by outcome and in pages', async () => {
  const root = makeTemporaryRoot({ 'jobs/daily/import-orders.sh': executable('#!/bin/sh\necho ok\n') });
  await writeYear(root, 'daily/import-orders');
  const { url } = await startDashboard(root);
  const page = await openPage(`${url}#/metrics`);
  await page.getByRole('heading', { name: 'Throughput' }).waitFor();
  await page.getByRole('button', { name: 'Month', exact: true }).click();
  await page.getByRole('heading', { name: 'What costs most' }).waitFor();
  await lookAt(page, 'metrics');
  await page.getByRole('region', { name: /^Run time/ }).focus();
  await page.keyboard.press('ArrowLeft');
  await page
    .getByText(/^median: /)
    .first()
    .waitFor();
  await page.getByText('As a table').nth(1).click();
  await page.getByRole('columnheader', { name: '95th percentile' }).waitFor();

  await page.goto(`${url}#/runs`);
  await page.getByText('100 runs').waitFor();
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText('200 runs').waitFor();
  await page.getByLabel('Outcome').selectOption({ label: 'failed in any way' });
  await page.getByText('7 runs').waitFor();
  await page.getByText('no answer').first().waitFor();
  await lookAt(page, 'runs');
});

/** Notes each text that a chart draws, with its place, from now on. */
const noteTexts = `globalThis.drawn = [];
const { fillText } = CanvasRenderingContext2D.prototype;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  drawn.push({ text, x, y, canvas: [...document.querySelectorAll('canvas')].indexOf(this.canvas) });
  return fillText.call(this, text, x, y);
};`;

test('the ticks of a chart tell true dates in each range, and each axis has two labels at least', async () => {
  const root = makeTemporaryRoot({ 'jobs/daily/import-orders.sh': executable('#!/bin/sh\necho ok\n') });
  await writeYear(root, 'daily/import-orders');
  const page = await openDashboard(root, '#/scripts/daily/import-orders');
  await legend(page).waitFor();
  await page.evaluate(noteTexts);
  const drawnAfter = async (act: () => Promise<void>) => {
    await page.evaluate('drawn.length = 0');
    await act();
    await until('it is drawn', () => page.evaluate<boolean>('drawn.length > 4'));
    return await page.evaluate<{ text: string; x: number; y: number; canvas: number }[]>('drawn');
  };
  for (const span of ['Year', '3 months', 'Week', 'Month']) {
    const drawn = await drawnAfter(() => page.getByRole('button', { name: span, exact: true }).click());
    // It may be drawn twice, in the same place.
    const places = drawn.filter(({ canvas }) => canvas === 0).map(({ text, x, y }) => [`${text} ${x} ${y}`, text]);
    const texts = [...new Map(places as [string, string][]).values()];
    const dates = texts.filter((text) => /^\d{1,2} [A-Z][a-z]{2,3}$|^[A-Z][a-z]{2,3} \d{4}$/.test(text));
    expect(dates.length, `${span}: ${texts}`).toBeGreaterThanOrEqual(2);
    expect(texts.filter((text) => /^\d+(?:\.\d+)?(?:ms|s|m|h)/.test(text)).length, `${span}: ${texts}`).toBeGreaterThan(
      0,
    );
    expect(new Set(dates).size, `${span}: ${dates}`).toBe(dates.length);
  }
});

test('a tap reads a point, a second one opens it; what is told of it stays within the window', async () => {
  const root = makeTemporaryRoot({ 'jobs/daily/import-orders.sh': executable('#!/bin/sh\necho ok\n') });
  await writeYear(root, 'daily/import-orders');
  const page = await openDashboard(root, '#/scripts/daily/import-orders', { size: 'phone' });
  await legend(page).waitFor();
  const plot = page.locator('.u-over').first();
  await plot.scrollIntoViewIfNeeded();
  const { width, height } = (await plot.boundingBox()) as Record<'width' | 'height', number>;
  for (const part of [0.02, 0.5, 0.97]) {
    await plot.tap({ position: { x: width * part, y: height / 2 } });
    const tip = page.locator('.chart-tip:not(.hidden)').first();
    await tip.waitFor();
    const { x, width: wide } = (await tip.boundingBox()) as Record<'x' | 'width', number>;
    expect(x).toBeGreaterThanOrEqual(0);
    expect(x + wide).toBeLessThanOrEqual(390);
    expect(page.url()).toContain('#/scripts/');
  }
  const told = await page.locator('.chart-tip:not(.hidden)').first().innerText();
  await plot.tap({ position: { x: width * 0.97, y: height / 2 } });
  await page.getByRole('heading', { name: /Run \d+/.exec(told)?.[0] as string }).waitFor();
});

test('the period that is not over is marked, in the chart and in its words', async () => {
  const root = makeTemporaryRoot({ 'jobs/daily/import-orders.sh': executable('#!/bin/sh\necho ok\n') });
  await writeYear(root, 'daily/import-orders');
  const page = await openDashboard(root, '#/metrics?since=30d');
  await page.getByRole('region', { name: /^Throughput/ }).focus();
  await page.keyboard.press('ArrowLeft');
  await page
    .getByText(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d, so far$/)
    .first()
    .waitFor();
  await page.keyboard.press('ArrowLeft');
  await page
    .getByText(/, so far$/)
    .first()
    .waitFor({ state: 'detached' });
  await keepScreenshot(page, 'metrics-open-end');
  // A table is as high as it is, and stretches no chart beside it.
  const heights = () => page.locator('.small-charts figure').evaluateAll((all) => all.map((each) => each.clientHeight));
  const [, before] = await heights();
  await page.getByText('As a table').first().click();
  await page
    .getByText(/, so far$/)
    .first()
    .waitFor();
  expect((await heights())[1]).toBe(before);
});

test('a printed page is light, has no buttons, shows all of a box, and its charts fit on the paper', async () => {
  const root = makeTemporaryRoot({ 'jobs/daily/import-orders.sh': executable('#!/bin/sh\necho ok\n') });
  await writeYear(root, 'daily/import-orders');
  const page = await openDashboard(root, '#/scripts/daily/import-orders', { scheme: 'dark' });
  await legend(page).waitFor();
  await page.evaluate(
    "addEventListener('beforeprint', () => { globalThis.printed = document.documentElement.dataset.scheme; })",
  );
  const pdf = await page.pdf({ format: 'A4' });
  expect(await page.evaluate('printed')).toBe('light');
  expect(await page.evaluate('document.documentElement.dataset.scheme')).toBeUndefined();
  if (process.env.SCREENSHOTS) writeFileSync(join(process.env.SCREENSHOTS, 'printed.pdf'), pdf);
  await page.emulateMedia({ media: 'print' });
  await page.setViewportSize({ width: 700, height: 1000 });
  expect(await page.locator('main :not(th) > button:visible').count()).toBe(0);
  const edges = await page
    .locator('.uplot canvas')
    .evaluateAll((all) => all.map((each) => each.getBoundingClientRect().right));
  expect(Math.max(...edges)).toBeLessThanOrEqual(700);
  await keepScreenshot(page, 'printed');
});
