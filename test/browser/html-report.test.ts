import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { compare } from 'bcryptjs';
import Database from 'better-sqlite3';
import type { Page } from 'playwright-core';
import { expect, onTestFinished, test } from 'vitest';
import { describeUnread } from '../../src/dashboard/static/protect.ts';
import { makeStaticReport } from '../../src/dashboard/static/report.ts';
import { contextOf, inRoot, runner } from '../support/command.ts';
import { queryLog } from '../support/log.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';
import { openPage } from '../support/web/browser.ts';
import { readReport, startDashboard } from '../support/web/dashboard.ts';
import { type WrittenLog, writeLog } from '../support/written-log.ts';

const scripts = {
  'jobs/hourly/clean.sh': executable('#!/bin/sh\nexit 0\n'),
  'jobs/hourly/import.sh': executable('#!/bin/sh\nexit 3\n'),
};

async function writeNight(root: string): Promise<WrittenLog> {
  const log = await writeLog(root);
  await log.addRun('hourly/clean', Date.now() - 60_000);
  await log.addRun('hourly/import', Date.now() - 50_000, { outcome: 'failed', exit_code: 3, reason: 'exit code 3' });
  return log;
}

test('a report is one file that shows the dashboard without a server, and asks nobody for anything', async () => {
  const root = makeTemporaryRoot(scripts);
  await writeNight(root);
  const { status, stdout, stderr } = await inRoot(root, 'report', '--html', 'report.html');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toMatch(/report\.html [\d.]+KB, without output, errors and data of jobs\n$/);
  const file = join(root, 'report.html');
  const page = await openPage(pathToFileURL(file).href);
  await page.getByText('Times in').waitFor();
  expect(await page.getByRole('searchbox').count()).toBe(0);
  await page.getByText('hourly/import').first().waitFor();
  const asked = await page.evaluate(() => performance.getEntriesByType('resource').map(({ name }) => name));
  expect(asked).toEqual([]);
  expect(statSync(file).mode & 0o777).toBe(0o644);
  expect(readdirSync(root).sort()).toEqual(['.runner', 'jobs', 'report.html']);
});

/** Each place in which something of a script or a job may stand. */
const talkative = {
  'jobs/hourly/print.sh': executable('#!/bin/sh\necho CANARY-printed\nexit 3\n'),
  'jobs/hourly/throw.mjs': "throw new Error('CANARY-thrown');\n",
  'jobs/hourly/named.mjs':
    "class CANARYError extends Error {\n  name = 'CANARYError';\n}\nthrow new CANARYError('CANARY-thrown');\n",
  'jobs/hourly/counts.mjs': "export default ({ log }) => log.count('CANARY-orders', 12);\n",
  'jobs/hourly/expects.sh': executable('#!/bin/sh\n# @expect CANARY-pattern\ntrue\n'),
  'jobs/hourly/CANARY-ignored.txt': '',
  'jobs/queue/work.mjs':
    "export default (data) => {\n  if (data.fails) throw new Error('CANARY-job');\n  return 'CANARY-result';\n};\n",
};

test('a report holds outputs, errors and data of jobs only when asked for', async () => {
  const root = makeTemporaryRoot(talkative);
  await inRoot(root, 'add', 'work', '{"fails":true,"note":"CANARY-data"}', '--unique', 'CANARY-key');
  await inRoot(root, 'add', 'work', '{"note":"CANARY-data"}');
  await inRoot(root, 'add', 'work?customer=CANARY', '{}');
  runner(root, 'hourly');
  const held = async (...options: string[]): Promise<string> => {
    const { status, stderr } = await inRoot(root, 'report', '--html', 'report.html', ...options);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    return JSON.stringify(readReport(join(root, 'report.html')));
  };
  const without = await held();
  expect(without.match(/.{60}CANARY.{20}/g)).toBeNull();
  expect(without).toContain('exit code 3');
  expect(await held('--with-output')).toContain('CANARY-thrown');
});

test('a report replaces only a report', async () => {
  const root = makeTemporaryRoot({ ...scripts, 'mine.html': '<h1>mine</h1>', 'jobs/hourly/a.sh': '' });
  symlinkSync(join(root, 'elsewhere.html'), join(root, 'link.html'));
  mkdirSync(join(root, 'site'));
  const write = async (path: string) => await inRoot(root, 'report', '--html', path);
  expect((await write('site')).status).toBe(0);
  expect((await write('site/index.html')).status).toBe(0);
  const refusals = {
    'mine.html': /mine\.html is not a report of the runner, so it is not replaced; name another file\.\n$/,
    'link.html': /link\.html is a symlink, which a report would replace; name a file for the report\.\n$/,
    'none/a.html': /There is no folder .*\/none; make it first\.\n$/,
    'a\nb.html': /has a control character in it; choose another name\.\n$/,
  };
  for (const [path, refusal] of Object.entries(refusals)) {
    const { status, stderr } = await write(path);
    expect({ path, status }).toEqual({ path, status: 2 });
    expect(stderr).toMatch(refusal);
  }
  expect(readFileSync(join(root, 'mine.html'), 'utf8')).toBe('<h1>mine</h1>');
  expect(existsSync(join(root, 'elsewhere.html'))).toBe(false);
  expect(readdirSync(join(root, 'site'))).toEqual(['index.html']);
});

test.each([['--json'], ['--csv'], ['--mail'], ['--since', '1d'], ['hourly/clean']])(
  'beside --html no %s can stand',
  async (...other) => {
    const { status, stderr } = await inRoot(makeTemporaryRoot(), 'report', '--html', 'a.html', ...other);
    expect(status).toBe(2);
    expect(stderr).toContain('leave out everything else but --with-output and --[no-]protect');
  },
);

/** A root beside the folder that a web server serves. */
function makeServed(access: string | null = null) {
  const root = makeTemporaryRoot({
    ...scripts,
    ...(access === null ? {} : { 'public_html/status/.htaccess': access }),
    'public_html/status/other.html': '',
  });
  const folder = join(root, 'public_html/status');
  const read = (name: string) => readFileSync(join(folder, name), 'utf8');
  const write = async (...options: string[]) => await inRoot(root, 'report', '--html', folder, ...options);
  return { folder, read, write };
}

test('where a web server serves the folder, nobody may read a report until somebody asks for a login', async () => {
  const { folder, read, write } = makeServed();
  expect((await write()).stdout).toMatch(/\.htaccess lets nobody read it: .* makes a login\n$/);
  expect(read('.htaccess')).toMatch(/^# Made by[\s\S]*<Files "index\.html">\n {2}Require all denied\n<\/Files>\n$/);
  const { stdout } = await write('--protect');
  const [, password = ''] = /^user runner, password (\S{20}) \(shown only now\)$/m.exec(stdout) ?? [];
  const [user, hash = ''] = read('.htpasswd-runner').trim().split(':');
  expect(user).toBe('runner');
  // The only bcrypt that each Apache knows.
  expect(hash).toMatch(/^\$2y\$10\$/);
  expect(await compare(password, hash)).toBe(true);
  expect(read('.htaccess')).toContain(
    `<Files "index.html">\n  AuthType Basic\n  AuthName "runner"\n  AuthUserFile "${folder}/.htpasswd-runner"\n  Require valid-user\n</Files>\n`,
  );
  // The next pass, and the next call, leave the login as it is.
  for (const options of [[], ['--protect']]) expect((await write(...options)).stdout).not.toContain('password');
  expect(read('.htpasswd-runner')).toContain(hash);
});

test('an .htaccess of somebody else stays as it is, with a warning and the lines for it', async () => {
  const { folder, read, write } = makeServed('RewriteEngine on\n');
  const { status, stderr } = await write('--protect');
  expect(status).toBe(0);
  expect(stderr).toMatch(/^runner: WARNING: .*\.htaccess is yours and stays as it is: .* anybody may read /);
  expect(stderr).toContain('<Files "index.html">\n  AuthType Basic\n');
  expect(read('.htaccess')).toBe('RewriteEngine on\n');
  expect(readdirSync(folder).sort()).toEqual(['.htaccess', 'index.html', 'other.html']);
  expect((await write('--no-protect')).stderr).toBe('');
});

test('a report warns where the web server reads no .htaccess', () => {
  const on = (...there: string[]) => describeUnread('/srv/index.html', (path) => there.includes(path));
  expect(on('/etc/nginx')).toMatch(
    /^nginx seems to be the web server here, which reads no \.htaccess: anybody may read/,
  );
  expect(on('/etc/nginx', '/etc/apache2')).toBeNull();
  expect(on()).toBeNull();
});

/** Lists and figures of a page, without times, which go on in the live one. */
async function listsOf(page: Page): Promise<string[]> {
  // Told as text: what runs in the browser knows its document.
  return await page.evaluate(`(() => {
    const main = document.querySelector('main').cloneNode(true);
    for (const each of main.querySelectorAll('time, button, .figure:not(.tiles .figure)')) each.remove();
    const lists = 'tbody tr, .incidents > li, .happenings > li, .tiles a, .trouble, .rises > li, .timeline > li';
    const figures = '.figures > div, .facts > div, .findings > p, .notice-title, .headline-title, .states, .chart-legend';
    const listed = lists + ', ' + figures;
    return [...main.querySelectorAll(listed)].map(({ textContent }) => textContent.replaceAll(/\\s+/g, ' ').trim());
  })()`);
}

test('each page of a report has the lists and figures of its live page, with each filter', async () => {
  const root = makeTemporaryRoot({
    ...scripts,
    'jobs/hourly/nightly.sh': executable('#!/bin/sh\n# @schedule daily at 02:30\n'),
    'jobs/queue/fails.sh': executable('#!/bin/sh\n# @tries 1\nexit 3\n'),
    'jobs/queue/works.sh': executable('#!/bin/sh\n'),
  });
  const log = await writeNight(root);
  const day = 24 * 3_600_000;
  await log.addRun('hourly/clean', Date.now() - 2 * day);
  for (const name of ['fails', 'fails', 'works']) await inRoot(root, 'add', name, '{}');
  runner(root, 'work');
  for (const name of ['fails', 'works']) await inRoot(root, 'add', name, '{}');
  await inRoot(root, 'add', 'works', '{}', '--at', '+2 hours');
  runner(root, 'hourly');
  const { url } = await startDashboard(root);
  const live = await openPage(url);
  expect(runner(root, 'report', '--html', join(root, 'report.html'), '--with-output').status).toBe(0);
  const file = pathToFileURL(join(root, 'report.html')).href;
  const report = await openPage(file);
  const idOf = (rows: string): number =>
    queryLog<{ id: number }>(root, `select min(id) as id from ${rows}`)[0]?.id ?? 0;
  const filters = {
    '/': /Success/,
    '/scripts': /./,
    '/runs': /./,
    '/runs?script=hourly/clean&since=1h': /^(Run.+){2}$/s,
    '/runs?outcome=failed': /failed/,
    '/incidents': /hourly\/import/,
    '/queue': /./,
    '/queue?state=failed': /failed/,
    '/queue?state=ready': /./,
    '/queue?state=delayed': /works/,
    '/queue?name=fails': /fails/,
    '/queue?name=fails&state=failed': /fails/,
    '/activity': /./,
    '/activity?since=1h': /./,
    '/workers': /pass of hourly/,
    '/workers?state=finished': /./,
    '/next': /works/,
    '/next?for=7d': /works/,
    '/scripts/hourly/import': /Success, last 7 days/,
    '/scripts/queue/fails': /Success, last 7 days/,
    '/metrics': /What costs|Runs/,
    [`/runs/${idOf("runs where outcome = 'failed'")}`]: /Duration/,
    [`/runs/${idOf("runs where outcome = 'succeeded'")}`]: /Duration/,
    [`/jobs/${idOf("jobs where state = 'failed' and name = 'fails'")}`]: /tries1/,
    [`/jobs/${idOf("jobs where state = 'finished' and name = 'works'")}`]: /tries1/,
    [`/jobs/${idOf("jobs where state = 'queued' and name = 'works'")}`]: /tries0/,
  };
  const linked = await report
    .getByRole('navigation', { name: 'Pages' })
    .getByRole('link')
    .evaluateAll((all) => all.map((each) => each.getAttribute('href')?.slice(1)));
  expect(Object.keys(filters)).toEqual(expect.arrayContaining(linked));
  for (const [address, wanted] of Object.entries(filters)) {
    await live.goto(`${url}#${address}`);
    await report.goto(`${file}#${address}`);
    let [shown, held]: [string[], string[]] = [[], []];
    const isSame = async (): Promise<boolean> => {
      [shown, held] = await Promise.all([listsOf(live), listsOf(report)]);
      return wanted.test(shown.join('\n')) && isDeepStrictEqual(shown, held);
    };
    await until(`${address} is the same in both`, isSame, 60_000).catch(() => {});
    expect(held, address).toEqual(shown);
    expect(shown.join('\n'), address).toMatch(wanted);
  }
});

test('a report refuses questions beyond its options, and says where its lists are cut', async () => {
  const root = makeTemporaryRoot({ ...scripts, 'jobs/queue/works.sh': executable('#!/bin/sh\n') });
  await inRoot(root, 'add', 'works', '{}');
  const db = new Database(join(root, '.runner/activity.db'));
  onTestFinished(() => void db.close());
  db.exec(`insert into jobs (name) with recursive n (i) as (select 1 union all select i + 1 from n where i < 129)
    select 'works' from n`);
  expect((await inRoot(root, 'report', '--html', 'report.html')).status).toBe(0);
  const file = pathToFileURL(join(root, 'report.html')).href;
  const page = await openPage(`${file}#/queue?state=ready`);
  await page.getByText('50 of 130 jobs', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText('100 of 130 jobs; this report holds no more of them').waitFor();
  // The jobs that it has no page of are no links.
  expect(await page.locator('tbody a[href^="#/jobs/"]').count()).toBe(50);
  expect(await page.getByRole('button', { name: 'Show more' }).count()).toBe(0);
  expect(await page.getByLabel('Search in data').count()).toBe(0);
  await page.goto(`${file}#/queue?search=anything`);
  await page.getByText('This report does not hold it.').waitFor();
});

test('a report that a pass should have replaced turns red; without its script it tells the verdict', async () => {
  const config = JSON.stringify({ report: { html: 'report.html' } });
  const root = makeTemporaryRoot({ ...scripts, 'runner.config.json': config });
  runner(root, 'hourly');
  const path = join(root, 'report.html');
  const { dueAt } = readReport(path);
  expect(Date.parse(dueAt ?? '')).toBeGreaterThan(Date.now() + 3_600_000);
  const file = pathToFileURL(path).href;
  const page = await openPage(file);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  expect(await page.getByText('this report is old').count()).toBe(0);
  await page.clock.install({ time: Date.now() + 7 * 24 * 3_600_000 });
  await page.reload();
  await page.getByText('Nobody knows how things stand: this report is old').waitFor();
  await page
    .getByText(/7d ago/)
    .first()
    .waitFor();
  const [, plain = ''] = /<noscript>(.*)<\/noscript>/s.exec(readFileSync(path, 'utf8')) ?? [];
  expect(plain).toMatch(/^<h1>1 script is failing<\/h1><ul><li>hourly\/import: .* · failing · since [\d-]+ [\d:]+ UTC/);
  expect(plain).toMatch(/<li>hourly: last pass [\d-]+ [\d:]+ UTC, next call /);
});

test('a setting writes the report after each pass; a failure to write it is mailed once a day', () => {
  const config = JSON.stringify({ report: { html: 'www-status/index.html', withOutput: true } });
  const root = makeTemporaryRoot({ ...scripts, 'runner.config.json': config });
  const told = /^runner: The report .*www-status\/index\.html of the setting report\.html could not be written: /m;
  expect(runner(root, 'hourly').stderr).toMatch(told);
  expect(runner(root, 'hourly').stderr).not.toMatch(told);
  mkdirSync(join(root, 'www-status'));
  const { status, stderr } = runner(root, 'hourly');
  expect({ status, stderr }).toEqual({ status: 1, stderr: '' });
  const file = join(root, 'www-status/index.html');
  const first = readReport(file);
  expect(JSON.stringify(first.answers)).toContain('hourly/import');
  // Nothing ran, and it is fresh.
  mkdirSync(join(root, 'jobs/daily'));
  const before = statSync(file).ino;
  runner(root, 'daily');
  expect(statSync(file).ino).toBe(before);
  writeFileSync(join(root, 'www-status/index.html'), 'mine');
  expect(runner(root, 'hourly').stderr).toMatch(/index\.html is not a report of the runner, so it is not replaced/);
});

test('with 500 scripts a report is at most 2 MB', async () => {
  const labels = Array.from({ length: 500 }, (_, index) => `script-${String(index).padStart(3, '0')}`);
  const files = labels.map((label) => [`jobs/hourly/${label}.sh`, executable('#!/bin/sh\n')]);
  const root = makeTemporaryRoot(Object.fromEntries(files));
  await writeNights(root, labels, 3);
  const { version, now, env, distFolder } = contextOf({ cwd: root, env: {} });
  const make = async (mostBytes?: number) =>
    await makeStaticReport({ site: { root, env, version, now }, distFolder, ...(mostBytes && { mostBytes }) });
  const { html, runsSince } = await make();
  expect(html.length).toBeLessThan(2 * 1024 * 1024);
  expect(runsSince).toBeNull();
});

test('the last failed and the last good run of each script stay in a report that is full of newer ones', async () => {
  const root = makeTemporaryRoot(scripts);
  const log = await writeLog(root);
  const day = 24 * 3_600_000;
  const good = await log.addRun('hourly/import', Date.now() - 40 * day);
  const bad = await log.addRun('hourly/import', Date.now() - 30 * day, { outcome: 'failed', exit_code: 3 });
  for (let hour = 300; hour > 0; hour -= 1) await log.addRun('hourly/clean', Date.now() - hour * 3_600_000);
  const { version, now, env, distFolder } = contextOf({ cwd: root, env: {} });
  const make = async (mostBytes?: number) =>
    await makeStaticReport({ site: { root, env, version, now }, distFolder, ...(mostBytes && { mostBytes }) });
  const whole = await make();
  const { html, runsSince } = await make(whole.html.length - 1000);
  expect(Date.parse(runsSince ?? '')).toBeGreaterThan(Date.now() - 30 * day);
  const file = join(root, 'report.html');
  writeFileSync(file, html);
  const { runs, details } = readReport(file);
  expect(runs.length).toBeLessThan(300);
  for (const id of [good, bad]) {
    expect(runs).toContainEqual(expect.objectContaining({ id }));
    expect(Object.keys(details)).toContain(String(id));
  }
});

test('a report that would be too large leaves out the oldest runs', async () => {
  const root = makeTemporaryRoot(scripts);
  await writeNights(root, ['clean', 'import'], 200);
  const { version, now, env, distFolder } = contextOf({ cwd: root, env: {} });
  const make = async (mostBytes?: number) =>
    await makeStaticReport({ site: { root, env, version, now }, distFolder, ...(mostBytes && { mostBytes }) });
  const whole = await make();
  const most = whole.html.length - 1000;
  const { html, runsSince } = await make(most);
  expect(html.length).toBeLessThanOrEqual(most);
  const file = join(root, 'report.html');
  writeFileSync(file, html);
  const { runs } = readReport(file);
  expect(runs).toHaveLength(200);
  expect(runs.at(-1)).toMatchObject({ startedAt: runsSince });
  const page = await openPage(pathToFileURL(file).href);
  await page.getByText(/, runs from .* on/).waitFor();
});

test('where what it asks for would fill the memory, a report holds fewer runs and details, and says since when', async () => {
  const root = makeTemporaryRoot(scripts);
  await writeNights(root, ['clean', 'import'], 400);
  const { version, now, env, distFolder } = contextOf({ cwd: root, env: {} });
  const make = (mostAskedBytes?: number) =>
    makeStaticReport({
      site: { root, env, version, now },
      distFolder,
      isWithOutput: true,
      ...(mostAskedBytes && { mostAskedBytes }),
    });
  const file = join(root, 'report.html');
  const read = (html: string) => {
    writeFileSync(file, html);
    return readReport(file);
  };
  const whole = read((await make()).html);
  const { html, runsSince } = await make(10_000);
  const { runs, details } = read(html);
  expect(runs.length).toBeLessThan(whole.runs.length);
  expect(Object.keys(details).length).toBeLessThan(Object.keys(whole.details).length);
  expect(runs).toContainEqual(expect.objectContaining({ startedAt: runsSince }));
  const page = await openPage(pathToFileURL(file).href);
  await page.getByText(/, runs from .* on/).waitFor();
});

test('the page is at most 250 KB, gzipped', () => {
  const { distFolder } = contextOf({ cwd: '/', env: {} });
  expect(statSync(join(distFolder, 'dashboard.html.gz')).size).toBeLessThan(250 * 1024);
});

/** So many hours, in which each of these scripts of `hourly` has run once. */
async function writeNights(root: string, labels: readonly string[], hours: number): Promise<void> {
  const { state, addRun } = await writeLog(root);
  const db = new Database(state.database);
  onTestFinished(() => void db.close());
  const first = Date.now() - hours * 3_600_000;
  db.exec('pragma synchronous = off');
  for (const label of labels) await addRun(`hourly/${label}`, first);
  const columns = db.prepare("select name from pragma_table_info('runs') where name <> 'id'").all() as {
    name: string;
  }[];
  const names = columns.map(({ name }) => `"${name}"`);
  const values = columns.map(({ name }) => {
    if (name === 'duration_us') return 'abs(random()) % 100000000';
    return /_at$/.test(name) ? `"${name}" + n * 3600000` : `"${name}"`;
  });
  db.exec(`insert into runs (${names.join()}) with recursive times (n) as
    (select 1 union all select n + 1 from times where n < ${hours - 1}) select ${values.join()} from times, runs`);
}
