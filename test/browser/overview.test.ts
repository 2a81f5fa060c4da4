import { rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import type { FinishedRun } from '../../src/store/schema.ts';
import { inRoot } from '../support/command.ts';
import { changeLog } from '../support/log.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';
import { keepPicture, lookAt, openDashboard, openPage } from '../support/web/browser.ts';
import { brokenImport, startDashboard, writeHistory } from '../support/web/dashboard.ts';

const night: Readonly<Record<string, Partial<FinishedRun>>> = {
  'hourly/import-orders': brokenImport,
  'daily/backup-database': {
    ...{ outcome: 'timed-out', exit_code: null, signal: 'SIGTERM', duration_us: 1_800_000_000 },
    reason: 'timed out after 30m (limit 30m), ended with SIGTERM',
    output: 'orders, 2 of 14 tables\n',
  },
};

const textsOf = async (page: Page, selector: string): Promise<string[]> =>
  (await page.locator(selector).allInnerTexts()).map((text) => text.replaceAll(/\s+/g, ' ').trim());

test('where nothing ever ran, the overview tells what to do first', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/clean.sh': executable('#!/bin/sh\nexit 0\n') });
  const { url } = await startDashboard(root);
  // As Chromium has it on a system without a language.
  const page = await openPage(url, { language: 'en-US@posix' });
  await page.getByText('Nothing has run yet; 1 script in jobs/').waitFor();
  await page.getByText('npx folder-runner hourly').waitFor();
  await expect.poll(() => page.title()).toMatch(/^Nothing has run yet · .+ on .+ · runner$/);
  await lookAt(page, 'overview-nothing');
});

test('after a failing night the overview says what failed, since when and why, and follows what happens next', async () => {
  const { root, log } = await writeHistory({ failing: night, running: { 'daily/send-newsletter': 65_000 } });
  const page = await openDashboard(root);
  await page.getByText('2 scripts are failing').waitFor();
  // Both began within the same moment.
  const troubles = (await textsOf(page, '.trouble')).toSorted();
  expect(troubles[0]).toMatch(/daily\/backup-database since \d\d:\d\d, [34]m ago timed out after 30m \(limit 30m\)/);
  expect(troubles[1]).toMatch(/hourly\/import-orders .*Error: orders\.csv:3 does not have 3 columns .*run \d+/);
  expect(await page.locator('.running').innerText()).toMatch(
    /longer than usual\s+daily\/send-newsletter\s+for 1m \d+s/,
  );
  const tiers = await textsOf(page, 'tbody tr');
  expect(tiers[1]).toMatch(/^hourly every hour .*1 of 2 failed .* in 5\dm/);
  // The viewer's zone is Berlin's; UTC is what the pointer tells.
  const shown = await page.locator('.trouble time').first().getAttribute('title');
  expect(shown).toMatch(/^[\d-]+ [\d:]+ Europe\/Berlin · [\d-]+ [\d:]+ UTC$/);
  await lookAt(page, 'overview-night');
  await keepPicture(page, 'overview');
  await page.getByText('live', { exact: true }).waitFor();
  await log.addRun('hourly/clean-uploads', Date.now(), { outcome: 'killed', reason: 'killed by SIGKILL' });
  await page.locator('.failures').getByText('hourly/clean-uploads').waitFor();
});

test('a script with times of its own runs next at one of them, on each page', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/billing.sh': executable('#!/bin/sh\n# @schedule daily at 02:30\n# @timezone Europe/Berlin\n'),
    'jobs/hourly/clean.sh': executable('#!/bin/sh\n'),
  });
  await inRoot(root, 'hourly');
  const { url } = await startDashboard(root);
  const page = await openPage(`${url}#/scripts/hourly/billing`);
  await page.getByText('hourly, daily at 02:30, Europe/Berlin').waitFor();
  const status = (await (await fetch(new URL('api/status', url))).json()) as {
    scheduled: readonly { script: string; nextPass: string | null }[];
  };
  const next = status.scheduled.find(({ script }) => script === 'hourly/billing')?.nextPass ?? null;
  const shown = await page
    .locator('p.lead time')
    .evaluateAll((times) => times.map((time) => time.getAttribute('datetime')));
  expect(shown).toEqual(next === null ? [] : [new Date(next).toISOString()]);
  await page.goto(`${url}#/scripts`);
  const row = page.locator('tbody tr', { hasText: 'hourly/billing' });
  await row.waitFor();
  const inRow = await row.locator('time').evaluateAll((times) => times.map((time) => time.getAttribute('datetime')));
  if (next !== null) expect(inRow).toContain(new Date(next).toISOString());
});

test('the pages of handlers and of disabled scripts say nothing wrong, whether they ever ran or not', async () => {
  const file = executable('#!/bin/sh\n');
  const root = makeTemporaryRoot({
    'jobs/hourly/clean.sh': file,
    'jobs/hourly/newsletter.sh': file,
    'jobs/queue/mail.sh': file,
    'jobs/queue/export.sh': file,
  });
  await inRoot(root, 'hourly');
  await inRoot(root, 'add', 'mail');
  await inRoot(root, 'work', '--once');
  for (const script of ['hourly/clean', 'hourly/newsletter', 'queue/export']) await inRoot(root, 'disable', script);
  const other = makeTemporaryRoot({ 'jobs/hourly/never.sh.disabled': file });
  const { url } = await startDashboard(root);
  const never = await startDashboard(other);
  const addresses = ['hourly/clean', 'hourly/newsletter', 'queue/mail', 'queue/export'].map(
    (script) => `${url}#/scripts/${script}`,
  );
  // What the browser says of refused requests fails the test, too.
  for (const address of [...addresses, `${never.url}#/scripts/hourly/never`]) {
    const page = await openPage(address);
    await page.getByRole('heading', { name: 'Duration and memory' }).waitFor();
    await page.locator('main:not(:has([aria-busy=true], .loading))').waitFor();
    expect(await page.locator('.notice.bad').allInnerTexts(), address).toEqual([]);
    expect(await page.locator('main').innerText(), address).not.toMatch(/There is no script|could not be read/);
    if (!address.endsWith('queue/mail')) await page.locator('.page-head').getByText('disabled').waitFor();
  }
});

test('the worst incident comes first, in the colour and the word that the overview has for it', async () => {
  const { root } = await writeHistory({ failing: night });
  await inRoot(root, 'hourly');
  changeLog(
    root,
    `insert into incidents (subject, code, severity, opened_at, last_at, message) values
    ('hourly', 'tier-overdue', 'warning', ${Date.now()}, ${Date.now()}, 'it was not called'),
    ('hourly/import-orders', 'script-failing', 'warning', ${Date.now() - 9_000}, ${Date.now()}, 'exit code 3'),
    ('queue', 'jobs-failing', 'critical', ${Date.now() - 99_000}, ${Date.now()}, '142 jobs failed')`,
  );
  const { url } = await startDashboard(root);
  const page = await openPage(`${url}#/incidents`);
  await page.locator('.incident').nth(2).waitFor();
  const words = async (selector: string) => (await textsOf(page, selector)).map((text) => text.split(' ')[0]);
  // Those that are over stand below.
  const onIncidents = (await words('.incidents .incident')).filter((word) => word !== 'over');
  expect(onIncidents.toSorted((one, other) => rank.indexOf(one ?? '') - rank.indexOf(other ?? ''))).toEqual(
    onIncidents,
  );
  expect(onIncidents[0]).toBe('critical');
  expect(new Set(onIncidents)).toEqual(new Set(rank));
  await page.goto(`${url}#/`);
  await page.locator('.trouble').first().waitFor();
  expect((await words('.trouble')).slice(0, 2)).toEqual(['critical', 'failing']);
});

const rank = ['critical', 'failing', 'warning'];

test('the page is used by keyboard: a way past the navigation, the focus at the heading of each page, titles', async () => {
  const { root } = await writeHistory({ passes: 2 });
  const { url } = await startDashboard(root);
  const page = await openPage(url);
  await page.getByText('Everything is well').waitFor();
  const focused = () => page.evaluate('document.activeElement.textContent.trim()');
  await page.keyboard.press('Tab');
  await expect.poll(focused).toBe('Skip to the content');
  await page.keyboard.press('Enter');
  await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('content');
  const link = page.getByRole('navigation').getByRole('link', { name: 'Scripts' });
  await link.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Scripts' }).waitFor();
  await expect.poll(focused).toBe('Scripts');
  await expect.poll(() => page.title()).toMatch(/^Scripts · all well · .+ · runner$/);
  await expect.poll(() => link.getAttribute('aria-current')).toBe('page');
  const header = page.getByRole('columnheader', { name: 'p95' });
  await header.getByRole('button').focus();
  await page.keyboard.press('Enter');
  await expect.poll(() => header.getAttribute('aria-sort')).toBe('descending');
  await page.keyboard.press('Enter');
  await expect.poll(() => header.getAttribute('aria-sort')).toBe('ascending');
  await page.getByLabel('Colours').selectOption('dark');
  await page.reload();
  await expect.poll(() => page.evaluate('document.documentElement.dataset.scheme')).toBe('dark');
  await page.goto(`${url}#/nowhere`);
  await page.getByText('There is no such page').waitFor();
});

test('the tab tells how the site stands and which one it is, by its title, its icon and the name in the header', async () => {
  const shop = await writeHistory({ failing: night });
  writeFileSync(join(shop.root, 'runner.config.json'), JSON.stringify({ siteName: 'shop.example <b>\u202e' }));
  const other = await writeHistory({ passes: 2 });
  const [first, second] = [await startDashboard(shop.root), await startDashboard(other.root)];
  const failing = await openPage(first.url);
  const well = await openPage(second.url, { expects: /ERR_/ });
  await failing.getByText('2 scripts are failing').waitFor();
  await well.getByText('Everything is well').waitFor();
  await expect.poll(() => failing.title()).toBe('2 failing · shop.example <b><U+202E> · runner');
  await expect.poll(() => well.title()).toBe(`all well · ${basename(other.root)} on ${hostname()} · runner`);
  expect(await failing.locator('.site-name').innerText()).toBe('shop.example <b><U+202E>');
  const iconOf = (page: Page) => page.locator('link[rel=icon]').getAttribute('href');
  const [cross, tick] = [await iconOf(failing), await iconOf(well)];
  expect(cross).toMatch(/^data:image\/svg\+xml,/);
  expect(tick).toMatch(/^data:image\/svg\+xml,/);
  expect(cross).not.toBe(tick);
  await failing
    .getByRole('link', { name: /^Output and details of run/ })
    .first()
    .click();
  await expect
    .poll(() => failing.title())
    .toMatch(/^(?:hourly|daily)\/[\w-]+ #\d+ (?:failed|timed out) · 2 failing · shop/);
  await failing.setViewportSize({ width: 320, height: 800 });
  expect(await failing.evaluate('document.documentElement.scrollWidth')).toBe(320);
  // A tab that hears nothing any more does not look well.
  await second.stop();
  await well.getByText('reconnecting').waitFor();
  await expect.poll(() => iconOf(well)).not.toBe(tick);
});

test('500 scripts: what has one cause is one, and each is found by search, state, tier and order', async () => {
  const names = [...Array(40).keys()].map((index) => `hourly/import-orders-${String(index + 1).padStart(3, '0')}`);
  const failing = Object.fromEntries(names.map((name) => [name, brokenImport]));
  const { root } = await writeHistory({ scripts: 500, passes: 2, failing });
  const { url } = await startDashboard(root);
  const page = await openPage(url);
  await page.getByText('40 scripts are failing').waitFor();
  expect(await textsOf(page, '.trouble')).toEqual([
    expect.stringMatching(/40 with the same error: .* and 34 more .*does not have 3 columns/),
  ]);
  await lookAt(page, 'overview-500');
  await page.goto(`${url}#/scripts`);
  await page.getByText('100 of 500 scripts').waitFor();
  const rows = page.locator('tbody tr:not(.note)');
  expect(await rows.first().innerText()).toMatch(/hourly\/import-orders-0\d\d\s+failed/);
  await page.getByLabel('Search names and errors').fill('newsletter 007');
  await page.getByText('1 script', { exact: true }).waitFor();
  expect(page.url()).toMatch(/#\/scripts\?q=newsletter\+007$/);
  await page.getByLabel('Search names and errors').fill('not 3 columns');
  await page.getByText('40 scripts', { exact: true }).waitFor();
  await page.getByLabel('Tier').selectOption('daily');
  await page.getByText('No script fits these filters').waitFor();
  await page.getByRole('button', { name: 'Show all 500' }).click();
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText('200 of 500 scripts').waitFor();
  expect(await rows.count()).toBe(200);
});

test('the list of scripts at a glance', async () => {
  const { root } = await writeHistory({ failing: night });
  const page = await openDashboard(root, '#/scripts');
  const first = page.locator('tbody tr').first();
  // When it runs next is another answer.
  await first.getByText(/^in 5\dm$/).waitFor();
  expect((await first.innerText()).replaceAll(/\s+/g, ' ')).toMatch(
    /^hourly\/import-orders failed \d\d:\d\d, [34]m ago 95% 20 [\d.]+m?s [\d.]+m?s [\d.]+MB [\d.]+% in 5\dm/,
  );
  expect(await first.locator('svg.sparkline').getAttribute('aria-label')).toMatch(/^Durations of the last 20 runs: /);
  expect(await textsOf(page, 'tr.note')).toContain('Error: orders.csv:3 does not have 3 columns');
  await lookAt(page, 'scripts');
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: 'dark' });
  await keepPicture(page, 'scripts');
});

test('a broken log, a lost server, and what comes back, are told as such', async () => {
  const { root, log } = await writeHistory({ passes: 2 });
  const { url, stop } = await startDashboard(root);
  const page = await openPage(url, {
    expects: /503|ERR_CONNECTION_REFUSED|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE|ERR_INTERNET/,
  });
  await page.getByText('Everything is well').waitFor();
  log.store.close();
  const { state } = log;
  for (const suffix of ['', '-wal', '-shm']) rmSync(state.database + suffix, { force: true });
  writeFileSync(state.database, 'no database, but somebody overwrote it. '.repeat(500));
  await page.reload();
  await page.getByText('The activity log cannot be read').waitFor();
  await page.getByText('seems to be damaged').waitFor();
  await lookAt(page, 'overview-broken');
  await stop();
  await page.getByText('reconnecting').waitFor();
  // However many answers a page lacks, one sentence tells why.
  await page.context().setOffline(true);
  await page.getByText('No connection to the server').waitFor();
  await page.getByRole('navigation').getByRole('link', { name: 'Scripts' }).click();
  await page.getByText('Loading').first().waitFor();
  expect(await textsOf(page, '.notice-title')).toEqual([
    'No connection to the server',
    'The activity log cannot be read',
  ]);
});

test('the report as a file tells the same, of the moment that it was made', async () => {
  const { root } = await writeHistory({ failing: night });
  await inRoot(root, 'report', '--html', 'report.html', '--with-output');
  const page = await openPage(pathToFileURL(join(root, 'report.html')).href);
  await page.getByText('2 scripts are failing').waitFor();
  expect(await textsOf(page, '.failures li')).toHaveLength(2);
  await page.getByText('report', { exact: true }).waitFor();
  await lookAt(page, 'overview-report');
  await page.getByRole('navigation').getByRole('link', { name: 'Scripts' }).click();
  await page.locator('tr.note').getByText('does not have 3 columns').waitFor();
});

test('the page of a try names all other tries, however busy its handler is, and asks for them once', async () => {
  const { root, log } = await writeHistory({ passes: 1 });
  const queue = await openQueue({ root });
  const [job = 0, ...others] = await queue.addMany(Array.from({ length: 31 }, () => ({ name: 'mail' })));
  const at = Date.now() - 3_600_000;
  const addTry = (id: number, attempt: number, minute: number) =>
    log.addRun('queue/mail', at + minute * 60_000, { job_id: id, attempt, outcome: 'failed', left_job: 'retrying' });
  const first = await addTry(job, 1, 0);
  const second = await addTry(job, 2, 1);
  for (const other of others) await addTry(other, 1, 2);
  const third = await addTry(job, 3, 3);
  const { url } = await startDashboard(root);
  const page = await openPage(`${url}#/runs/${third}`);
  const triesOn = async () => {
    await page.getByText('Try 2', { exact: true }).waitFor();
    return (await textsOf(page, '.timeline li')).filter((text) => text.startsWith('Try'));
  };
  const toldAs = (attempt: number, run: number) => expect.stringMatching(new RegExp(`^Try ${attempt} .* Run ${run}$`));
  expect(await triesOn()).toMatchObject([toldAs(1, first), toldAs(2, second)]);
  const asked: string[] = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  await page.goto(`${url}#/runs/${first}`);
  await page.getByText('Try 3', { exact: true }).waitFor();
  expect(await triesOn()).toMatchObject([toldAs(2, second), toldAs(3, third)]);
  expect(asked.filter((path) => /\/api\/runs(?!.*\/output)/.test(path))).toEqual([`/api/runs/${first}`]);
});

test('the overview says that the queue has no worker in the words of its own page, and nothing while it is well', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/mail.sh': executable('#!/bin/sh\n') });
  await inRoot(root, 'add', 'mail');
  const { url } = await startDashboard(root);
  const page = await openPage(url);
  const queue = page.getByRole('region', { name: 'Queue', exact: true });
  await queue.getByText('1 ready').waitFor();
  expect(await queue.getByText('no worker has called').count()).toBe(0);
  changeLog(root, 'update jobs set created_at = ?, run_at = ?', Date.now() - 3_600_000, Date.now() - 3_600_000);
  await queue.getByText('no worker has called').waitFor();
  await page.goto(`${url}#/queue`);
  await page.locator('.workers-line').getByText('no worker has called').waitFor();
});
