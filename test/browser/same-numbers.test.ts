import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import { formatBytes, formatCount, formatDuration, formatRate } from '../../src/system/base/format.ts';
import { inRoot, jsonOf } from '../support/command.ts';
import { executable, writeFiles } from '../support/root.ts';
import { openPage } from '../support/web/browser.ts';
import { type Body, brokenImport, startDashboard, writeHistory } from '../support/web/dashboard.ts';

type Cells = Readonly<Record<string, string>>;

/** The cells of each row by the title of their column, by the text of its first cell. */
async function readTable(page: Page, caption: string | RegExp): Promise<ReadonlyMap<string, Cells>> {
  const rows = page.getByRole('table', { name: caption }).locator('tbody tr:not(.note)');
  await rows.first().waitFor();
  const read: [string, string][][] = [];
  for (const row of await rows.all()) {
    const cells = await row.locator('td').all();
    const one = cells.map(async (cell): Promise<[string, string]> => {
      const text = (await cell.innerText()).replaceAll(/\s+/g, ' ').trim();
      return [(await cell.getAttribute('data-title')) ?? '', text];
    });
    read.push(await Promise.all(one));
  }
  return new Map(read.map((cells) => [cells[0]?.[1] ?? '', Object.fromEntries(cells)]));
}

/** The part of each row that the expected ones name. */
function partsOf(rows: ReadonlyMap<string, Cells>, like: ReadonlyMap<string, Cells>): ReadonlyMap<string, Cells> {
  return new Map(
    [...rows].map(([name, cells]) => [
      name,
      Object.fromEntries(Object.keys(like.get(name) ?? {}).map((title) => [title, cells[title] ?? 'no such column'])),
    ]),
  );
}

async function expectTable(page: Page, caption: string | RegExp, expected: ReadonlyMap<string, Cells>): Promise<void> {
  expect(expected.size).toBeGreaterThan(0);
  await expect.poll(async () => partsOf(await readTable(page, caption), expected)).toEqual(expected);
}

const rowsOf = <T>(items: readonly T[], name: (item: T) => string, cells: (item: T) => Cells) =>
  new Map(items.map((item) => [name(item), cells(item)]));

test('each number of a page is the one that the command tells of the same log', async () => {
  const { root } = await writeHistory({
    failing: { 'hourly/import-orders': brokenImport },
    running: { 'daily/send-newsletter': 65_000 },
  });
  writeFiles(root, { 'jobs/queue/mail/welcome.sh': executable('#!/bin/sh\nexit 0\n') });
  const queue = await openQueue({ root });
  for (let number = 0; number < 30; number += 1) await queue.add('mail/welcome', { number });
  for (let number = 0; number < 7; number += 1) await queue.add('export', { number }, { runAt: '+2 hours' });
  await queue.close();
  await inRoot(root, 'work', '--max-jobs', '11');
  const told = async (...args: readonly string[]): Promise<Body> => jsonOf(await inRoot(root, ...args, '--json'));
  const { url } = await startDashboard(root);
  const page = await openPage(url);

  const report = await told('report');
  const { totals } = report;
  await page.getByRole('heading', { name: 'The last 7 days' }).waitFor();
  const figures = page.locator('section', { hasText: 'The last 7 days' }).locator('dl');
  await expect
    .poll(async () => (await figures.innerText()).replaceAll(/\s+/g, ' ').trim())
    .toBe(
      [
        `Scripts ${report.scripts.length} Runs ${totals.runs} Failed ${totals.failed}`,
        `Success ${formatRate(totals.successRate)} Time running ${formatDuration(totals.durationMs)}`,
        `CPU ${formatDuration(totals.cpuMs)} Most memory ${formatBytes(totals.maxRssBytes)}`,
      ].join(' '),
    );

  const cpuMs = report.scripts.reduce((sum: number, { totalCpuMs }: Body) => sum + (totalCpuMs ?? 0), 0);
  await page.goto(`${url}#/scripts`);
  await expectTable(
    page,
    'Scripts',
    rowsOf<Body>(
      report.scripts,
      ({ script }) => script,
      (script) => ({
        Success: formatRate(script.successRate),
        Runs: formatCount(script.runs),
        p50: formatDuration(script.p50DurationMs),
        p95: formatDuration(script.p95DurationMs),
        Memory: formatBytes(script.maxRssBytes),
        CPU: formatRate(script.totalCpuMs === null ? null : script.totalCpuMs / cpuMs),
      }),
    ),
  );

  const { runs } = await told('report', 'hourly/import-orders');
  await page.goto(`${url}#/runs?script=hourly/import-orders`);
  await expectTable(
    page,
    /^Runs/,
    rowsOf<Body>(
      runs,
      ({ id }) => `Run ${id}`,
      (run) => ({
        Duration: formatDuration(run.durationMs),
        CPU: formatDuration(run.userCpuMs + run.systemCpuMs),
        Memory: formatBytes(run.maxRssBytes),
        Output: formatBytes(run.outputBytes),
      }),
    ),
  );

  const { counts } = await told('jobs', '--count');
  await page.goto(`${url}#/queue`);
  await expectTable(
    page,
    'Jobs by name',
    rowsOf<Body>(
      counts,
      ({ name }) => name,
      (count) => ({
        'due now': formatCount(count.ready),
        'due later': formatCount(count.delayed),
        finished: formatCount(count.finished),
        failed: formatCount(count.failed),
      }),
    ),
  );
  const sum = (state: string): number => counts.reduce((all: number, each: Body) => all + each[state], 0);
  const tiles = (await page.getByRole('navigation', { name: 'Jobs by state' }).innerText()).replaceAll(/\s+/g, ' ');
  expect(tiles).toContain(`${sum('ready')} due now`);
  expect(tiles).toContain(`${sum('delayed')} due later`);
  expect(tiles).toContain(`${sum('finished')} finished`);

  const { incidents } = await told('incidents');
  await page.goto(`${url}#/incidents`);
  await expect.poll(() => page.locator('.incidents .incident').count()).toBe(incidents.length);

  const status = await told('status');
  await page.goto(`${url}#/`);
  expect(status.running.length).toBe(1);
  await expect.poll(() => page.locator('.running li').count()).toBe(status.running.length);
  await expect.poll(() => page.locator('.headline-title').innerText()).toBe(status.verdict.title);
  await expect.poll(() => page.locator('.trouble').count()).toBe(status.troubles.length);
});
