import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { deliverReport } from '../../../src/monitor/alert/deliver.ts';
import { callCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { makeLoggedCall } from '../../support/run.ts';
import { type WrittenLog, writeLog } from '../../support/written-log.ts';
import { readPart, startMailServer } from './mail-server.ts';

const dayMs = 24 * 60 * 60_000;

/** A week in which a script failed, another got slower, and one pass found the lock held. */
async function writeWeek(root: string): Promise<WrittenLog> {
  const log = await writeLog(root);
  const now = Date.now();
  for (let day = 1; day <= 6; day += 1) {
    await log.addRun('hourly/import', now - (day + 7) * dayMs, { duration_us: 1_000_000 });
    const cpu = { user_cpu_us: 900_000, system_cpu_us: 100_000 };
    await log.addRun('hourly/import', now - day * dayMs, { duration_us: 5_000_000, ...cpu });
  }
  const failed = { outcome: 'failed', exit_code: 3, reason: 'exit code 3', output: 'disk <full>\n' } as const;
  await log.addRun('hourly/backup', now - dayMs, failed);
  await log.addPass('hourly', now - dayMs, { state: 'skipped' });
  await log.addPass('hourly', now - 60_000);
  log.change(
    `insert into incidents (subject, code, severity, opened_at, last_at, occurrences)
     values ('hourly/backup', 'script-failing', 'critical', ?, ?, 12)`,
    ...[now - dayMs, now - dayMs],
  );
  return log;
}

const scripts = {
  'jobs/hourly/import.sh': executable('#!/bin/sh\n'),
  'jobs/hourly/backup.sh': executable('#!/bin/sh\n'),
};

test('the report of the week is sent by the mail channel, as text and as HTML', async () => {
  const server = await startMailServer();
  const root = makeTemporaryRoot(scripts);
  await writeWeek(root);
  const env = { RUNNER_ALERTS: 'mail:ops@example.org', SMTP_URL: server.url, TZ: 'UTC' };
  const { status, stdout, stderr } = await callCommand(['report', '--mail'], { cwd: root, env });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toMatch(/^Sent to ops@example\.org: /);
  const [mail, ...others] = server.mails;
  expect(others).toEqual([]);
  expect(mail?.to).toEqual(['ops@example.org']);
  expect(mail?.source).toMatch(/^Subject: \[runner .+\] 1 script is failing:\s+7\s+runs,\s+1\s+failed/m);
  const plain = readPart(mail as never, 'text/plain');
  expect(plain).toContain('hourly/backup  1 of 1 failed  exit code 3: disk <full>');
  expect(plain).toMatch(/hourly\/import {2}5s, 5\.0× its usual 1s since \d+ \w{3} \d\d:\d\d$/m);
  expect(plain).toContain('hourly/import  6s of CPU    99.2%');
  expect(plain).toMatch(/hourly {2}.*1 pass skipped/);
  expect(plain).toMatch(
    /What is wrong\n {2}hourly\/backup {2}script-failing +since .+ {2}12 times\n {4}look: .* why hourly\/backup/,
  );
  expect(plain.split('\n')[0]).toMatch(/^1 script is failing since \d/);
  const html = readPart(mail as never, 'text/html');
  expect(html).toContain('disk &lt;full&gt;');
  expect(html).toContain('5s, 5.0× its usual 1s since');
  expect(queryLog(root, 'select * from deliveries')).toEqual([]);
});

test('a report has the worst first, with a command for each, and can be read on a phone and in the dark', async () => {
  const server = await startMailServer();
  const root = makeTemporaryRoot(scripts);
  const log = await writeWeek(root);
  const now = Date.now();
  const add = (subject: string, code: string, severity: string, openedAt: number, recoveredAt: number | null) =>
    log.change(
      `insert into incidents (subject, code, severity, message, opened_at, last_at, recovered_at, occurrences)
       values (?, ?, ?, 'it is <so>', ?, ?, ?, 1)`,
      ...[subject, code, severity, openedAt, now - 1000, recoveredAt],
    );
  for (let count = 0; count < 40; count += 1)
    add(`hourly/${count}`, 'script-failing', 'warning', now - dayMs, now - 1000);
  add('log', 'log-unusable', 'critical', now - 30 * dayMs, null);
  const env = { RUNNER_ALERTS: 'mail:ops@example.org', SMTP_URL: server.url, TZ: 'UTC' };
  expect(await callCommand(['report', '--mail'], { cwd: root, env })).toMatchObject({ status: 0, stderr: '' });
  const plain = readPart(server.mails[0] as never, 'text/plain');
  const titles = ['What is wrong', 'Failures', 'Missed', 'Slower than usual', 'Over', 'What costs most', 'What ran'];
  expect(plain.split('\n').filter((line) => titles.includes(line))).toEqual(titles);
  // What has been wrong for longer than the report tells of stands above what is over.
  expect(plain).toMatch(/What is wrong\n {2}log +it is <so>.+\n {4}look: .+ check log-unusable\n {2}hourly\/backup/);
  expect(plain).toMatch(
    /Over\n {2}hourly\/39 .+ until .+\n(?: {2}hourly.+\n){19} {2}and 20 more\n {2}look: .+ incidents --all/,
  );
  const html = readPart(server.mails[0] as never, 'text/html');
  expect(html).toContain('<meta name="viewport" content="width=device-width, initial-scale=1">');
  expect(html).toContain('prefers-color-scheme:dark');
  expect(html).toMatch(/<h1 class="bad">.+ since .+<\/h1>/);
  expect(html).toContain('<th scope="col">why</th>');
  expect(html).toMatch(
    /<th scope="row" class="bad">log<\/th><td>it is &lt;so&gt;<\/td>.+<code>cd .+ check log-unusable<\/code>/,
  );
  const sizes = [...html.matchAll(/(?:font|font-size):(\d+)px/g)].map(([, size]) => Number(size));
  expect(Math.min(...sizes)).toBeGreaterThanOrEqual(14);
});

test('with web.url, a report links to the pages of the dashboard beside its commands', async () => {
  const server = await startMailServer();
  const web = { url: 'https://example.org/runner' };
  const root = makeTemporaryRoot({ ...scripts, 'runner.config.json': JSON.stringify({ web }) });
  await writeWeek(root);
  const env = { RUNNER_ALERTS: 'mail:ops@example.org', SMTP_URL: server.url, TZ: 'UTC' };
  expect(await callCommand(['report', '--mail'], { cwd: root, env })).toMatchObject({ status: 0, stderr: '' });
  const plain = readPart(server.mails[0] as never, 'text/plain');
  expect(plain).toMatch(
    /look: .* why hourly\/backup\n {4}page: https:\/\/example\.org\/runner\/#\/scripts\/hourly\/backup\n/,
  );
  expect(plain).toMatch(/look: .* show (\d+)\n {4}page: https:\/\/example\.org\/runner\/#\/runs\/\1\n/);
  const html = readPart(server.mails[0] as never, 'text/html');
  expect(html).toContain('<a href="https://example.org/runner/#/scripts/hourly/import">hourly/import</a>');
});

test('--to sends it by the local sendmail where no channel is set up', async () => {
  const root = makeTemporaryRoot(scripts);
  await writeWeek(root);
  const file = join(root, 'mail.txt');
  const sendmail = join(root, 'sendmail');
  writeFileSync(sendmail, `#!/bin/sh\n{ echo "$@"; cat; } > ${file}\n`, { mode: 0o755 });
  const config = `export default { alerts: { channels: [{ kind: 'mail', to: 'a@example.org', sendmail: '${sendmail}' }] } };`;
  writeFileSync(join(root, 'runner.config.mjs'), config);
  const args = ['report', '--mail', '--to', 'me@example.org,you@example.org', '--since', '30d'];
  const { status, stdout } = await callCommand(args, { cwd: root, env: { PATH: process.env.PATH } });
  expect([status, stdout]).toEqual([0, expect.stringContaining('Sent to me@example.org, you@example.org')]);
  expect(readFileSync(file, 'utf8')).toMatch(/^-i me@example\.org you@example\.org\n.*13\s+runs,\s+1\s+failed/s);
});

test('a report that cannot be sent now is left to the next passes', async () => {
  const root = makeTemporaryRoot(scripts);
  await writeWeek(root);
  const env = { RUNNER_ALERTS: 'mail:ops@example.org', SMTP_URL: 'smtp://127.0.0.1:1' };
  const { status, stderr } = await callCommand(['report', '--mail'], { cwd: root, env });
  expect(status).toBe(0);
  expect(stderr).toMatch(/could not be sent to ops@example\.org: 127\.0\.0\.1:1: .+ The next passes try again/);
  const [row] = queryLog<{ id: number; kind: string; channel: string; body: string }>(root, 'select * from deliveries');
  expect(row).toMatchObject({ kind: 'report', channel: 'mail' });
  const server = await startMailServer();
  const call = await makeLoggedCall(root);
  const runner = { ...call.runner, environment: { ...env, SMTP_URL: server.url } };
  const { loadSettings } = await import('../../../src/settings/load.ts');
  const settings = await loadSettings(root, runner.environment);
  const stop = new AbortController().signal;
  const sent = await deliverReport({ ...runner, settings }, row as never, stop);
  expect(sent).toMatchObject({ ok: true });
  expect(server.mails).toHaveLength(1);
});

test('an address of its own is written to later only where somebody here has asked for it', async () => {
  const root = makeTemporaryRoot(scripts);
  await writeWeek(root);
  const env = { SMTP_URL: 'smtp://127.0.0.1:1' };
  await callCommand(['report', '--mail', '--to', 'me@example.org'], { cwd: root, env });
  const [row] = queryLog<{ body: string }>(root, 'select * from deliveries');
  const server = await startMailServer();
  const { runner } = await makeLoggedCall(root);
  const environment = { SMTP_URL: server.url, SECRET: 'spam@example.org' };
  const deliver = async (to: unknown) => {
    const body = JSON.stringify({ ...JSON.parse(row?.body ?? ''), to });
    return await deliverReport({ ...runner, environment }, { ...row, body } as never, new AbortController().signal);
  };
  for (const to of ['spam@example.org', '$SECRET', ['spam@example.org'], '../../me@example.org']) {
    expect(await deliver(to)).toMatchObject({ ok: false, reason: expect.stringContaining('from this machine before') });
  }
  expect(server.mails).toEqual([]);
  expect(await deliver('me@example.org')).toMatchObject({ ok: true });
  expect(server.mails.map(({ to }) => to)).toEqual([['me@example.org']]);
});

test.each([
  [['report', '--mail'], /No address to send the report to: add --to/],
  [['report', '--to', 'me@example.org'], /--to needs --mail/],
  [['report', '--mail', '--to', 'me'], /--to must be an address such as me@example\.org, found "me"/],
  [['report', '--mail', '--json'], /leave out everything else but --to, --since and --until/],
  [['report', 'import', '--mail'], /leave out everything else but --to, --since and --until/],
])('%j is wrong use', async (args, message) => {
  const root = makeTemporaryRoot(scripts);
  await writeWeek(root);
  const { status, stderr } = await callCommand(args, { cwd: root, env: {} });
  expect([status, stderr]).toEqual([2, expect.stringMatching(message)]);
});

test('without a mail program it says how to get one, and exits 1', async () => {
  const root = makeTemporaryRoot(scripts);
  await writeWeek(root);
  const config = `export default { alerts: { channels: [{ kind: 'mail', to: 'a@example.org', sendmail: '/nowhere/sendmail' }] } };`;
  writeFileSync(join(root, 'runner.config.mjs'), config);
  const { status, stderr } = await callCommand(['report', '--mail'], { cwd: root, env: {} });
  expect([status, stderr]).toEqual([1, expect.stringContaining('/nowhere/sendmail is not a program that can be run')]);
  expect(queryLog(root, 'select * from deliveries')).toEqual([]);
});
