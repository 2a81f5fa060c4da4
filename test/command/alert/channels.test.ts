import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sendByChannel } from '../../../src/monitor/alert/channels.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { check } from '../../processes/doctor/doctor-place.ts';
import { AT, channelOf, messageOf, serve } from '../../support/alerts.ts';
import { commandPath, cronEnv, inRoot, readRuns, startCommand } from '../../support/command.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { executable, makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';

async function send(root: string, run: string, { message = messageOf(), env = '', timeoutMs = 5_000 } = {}) {
  const channel = channelOf({ kind: 'command', run, ...(env === '' ? {} : { env }) });
  const environment = { PATH: '/usr/bin:/bin', PAGER_KEY: 'key-1', DB_PASSWORD: 'geheim' };
  const signal = AbortSignal.timeout(timeoutMs);
  const place = { root, version: '0.1.0', environment, settings: defaultSettings, signal };
  return await sendByChannel(channel, { id: 'runner-abc-1', createdAt: AT, message }, place);
}

describe('a command', () => {
  test('gets the message on stdin and a few variables, and no other secret', async () => {
    const root = makeTemporaryRoot({
      'notify.sh': executable('#!/bin/sh\ncat > message\nenv > variables\necho done\n'),
    });

    expect(await send(root, './notify.sh', { env: 'PAGER_KEY' })).toEqual({ ok: true, answer: 'exit code 0: done' });

    expect(JSON.parse(readFileSync(join(root, 'message'), 'utf8'))).toEqual(messageOf());
    const variables = readFileSync(join(root, 'variables'), 'utf8');
    expect(variables).toContain('RUNNER_ALERT_SUBJECT=[runner web3] hourly/backup is failing\n');
    expect(variables).toContain('RUNNER_ALERT_EVENT=opened\n');
    expect(variables).toContain('PAGER_KEY=key-1\n');
    expect(variables).not.toContain('geheim');
  });

  test('runs nothing of what a message says', async () => {
    const root = makeTemporaryRoot();
    const message = messageOf({ subject: '$(touch stolen); `touch stolen`', error: "'; touch stolen; '" });

    await send(root, 'printf %s "$RUNNER_ALERT_SUBJECT" > said; cat > /dev/null', { message });

    expect(readFileSync(join(root, 'said'), 'utf8')).toContain('$(touch stolen); `touch stolen`');
    expect(spawnSync('ls', [root], { encoding: 'utf8' }).stdout).not.toContain('stolen');
  });

  test('that fails is told with what it said last', async () => {
    const sent = await send(makeTemporaryRoot(), 'echo "no route to pager" >&2; exit 4');
    expect(sent).toMatchObject({
      ok: false,
      isPermanent: false,
      reason: 'the command: exit code 4: no route to pager',
    });
  });

  test('that does not end is killed', async () => {
    const sent = await send(makeTemporaryRoot(), 'sleep 60', { timeoutMs: 100 });
    expect(sent).toMatchObject({ ok: false, reason: 'the command: no answer in time' });
  });
});

describe('runner alert test', () => {
  const settingsOf = (...channels: readonly object[]) => ({
    'runner.config.json': JSON.stringify({ alerts: { channels } }),
  });

  test('says of each channel what became of it', async () => {
    const { url, asked, port } = await serve();
    const webhook = { kind: 'webhook', url };
    const root = makeTemporaryRoot(settingsOf(webhook, { kind: 'webhook', preset: 'slack', url: '$SLACK_URL' }));

    const { status, stdout } = await startCommand(['alert', 'test'], { cwd: root, env: cronEnv(root) }).ended;

    expect(status).toBe(1);
    expect(stdout).toMatch(new RegExp(`^webhook  sent   +\\d+ms  127.0.0.1:${port} answered 200 OK: ok$`, 'm'));
    expect(stdout).toMatch(/^slack {4}failed +\d+ms {2}the variable SLACK_URL is not set$/m);
    expect(JSON.parse(asked[0]?.body ?? '')).toMatchObject({ event: 'opened', incidents: [{ code: 'test' }] });
  });

  test('takes the variables of the crontab where it is asked to', async () => {
    const { url, asked } = await serve();
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '#!/bin/sh\n' });
    const crontab = makeFakeCrontab();
    crontab.write(`RUNNER_ALERTS=webhook:${url}\n0 * * * * ${process.execPath} ${commandPath} --root ${root} hourly\n`);
    const place = { cwd: root, env: crontab.env };

    expect(await startCommand(['alert', 'test'], place).ended).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('There are no channels here'),
    });
    expect(await startCommand(['alert', 'test', '--cron', '--json'], place).ended).toMatchObject({ status: 0 });
    expect(asked).toHaveLength(1);
    expect(await check(root, crontab.env, 'alerts')).toMatchObject([{ status: 'ok' }]);
  });

  test('takes variables from .env, behind those of its caller, and hides them', async () => {
    const [{ url, asked }, other] = await Promise.all([
      serve((_, response) => void response.writeHead(500).end(url)),
      serve(),
    ]);
    const root = makeTemporaryRoot({
      ...settingsOf({ kind: 'webhook', url: '$HOOK' }),
      '.env': { content: `HOOK=${url}/secret-path\n`, mode: 0o600 },
    });
    const place = { cwd: root, env: cronEnv(root) };

    const { status, stdout } = await startCommand(['alert', 'test'], place).ended;

    expect([status, asked.length]).toEqual([1, 1]);
    expect(stdout).not.toContain('secret-path');
    const env = { ...place.env, HOOK: other.url };
    expect(await startCommand(['alert', 'test'], { cwd: root, env }).ended).toMatchObject({ status: 0 });
    expect([asked.length, other.asked.length]).toEqual([1, 1]);
    expect(await check(root, { ...makeFakeCrontab().env }, 'alerts')).toMatchObject([{ status: 'ok' }]);
  });

  test('works where the address space is limited', async () => {
    const { url, asked } = await serve();
    const root = makeTemporaryRoot();
    // With less, Node 26 itself may fail on a busy machine.
    const line = `ulimit -v 2500000; exec '${process.execPath}' '${commandPath}' alert test`;
    const env = { ...cronEnv(root), RUNNER_ALERTS: `webhook:${url}` };

    const { status, stderr } = runElsewhere(line, root, env);

    expect({ status: await status, stderr: await stderr }).toEqual({ status: 0, stderr: '' });
    expect(asked).toHaveLength(1);
  });
});

/** The server is in this process, which must go on meanwhile. */
function runElsewhere(line: string, cwd: string, env: NodeJS.ProcessEnv) {
  const child = spawn('/bin/sh', ['-c', line], { cwd, env, stdio: ['ignore', 'ignore', 'pipe'] });
  const stderr = new Response(ReadableStream.from(child.stderr)).text();
  const status = new Promise<number | null>((resolve) => child.on('exit', resolve));
  return { status, stderr };
}

describe('runner doctor', () => {
  test('names the variable that the crontab lacks, though this shell has it', async () => {
    const root = makeTemporaryRoot({
      'jobs/hourly/a.sh': '#!/bin/sh\n',
      'runner.config.json': '{"alerts":{"channels":[{"kind":"webhook","url":"$HOOK"}]}}',
    });
    const crontab = makeFakeCrontab();
    crontab.write(`0 * * * * ${process.execPath} ${commandPath} --root ${root} hourly\n`);

    expect(await check(root, { ...crontab.env, HOOK: 'https://x.org' }, 'alerts')).toMatchObject([
      {
        status: 'problem',
        found: 'webhook: the variable HOOK is not set in .env or the crontab',
        cure: expect.stringContaining('HOOK=…'),
      },
    ]);
  });

  test('names a webhook whose token would be sent in the clear', async () => {
    const channels = [{ kind: 'webhook', url: '$HOOK', token: '$TOKEN' }];
    const root = makeTemporaryRoot({ 'runner.config.json': JSON.stringify({ alerts: { channels } }) });
    const env = { ...makeFakeCrontab().env, HOOK: 'http://192.0.2.1/hook', TOKEN: 'geheim42' };

    const found = await check(root, env, 'alerts');
    expect(found).toMatchObject([{ status: 'problem', found: expect.stringContaining('must begin with https://') }]);
    expect(JSON.stringify(found)).not.toContain('geheim42');
  });

  test('names the variable of a ping', async () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '#!/bin/sh\n# @ping $PING_URL\n' });

    expect(await check(root, makeFakeCrontab().env, 'alerts')).toMatchObject([
      { status: 'problem', found: 'pings are not sent: the variable PING_URL is not set' },
    ]);
  });

  test('finds a command that cannot be run, and an address that should be secret', async () => {
    const channels = [
      { kind: 'command', run: './notify.sh' },
      { kind: 'webhook', url: 'https://hooks.slack.com/services/T/B/x' },
    ];
    const root = makeTemporaryRoot({ 'runner.config.json': JSON.stringify({ alerts: { channels } }) });

    expect(await check(root, makeFakeCrontab().env, 'alerts')).toMatchObject([
      { status: 'problem', found: 'command: ./notify.sh is not a program that can be run' },
      {
        status: 'note',
        found: 'webhook: its URL is in the settings file: anybody who can read that file can post there',
      },
    ]);
  });
});

// On a fleet a script runs once in a slot, however often its tier is called: this is about SQLite.

const fails = { 'jobs/hourly/backup.sh': executable('#!/bin/sh\necho disk full >&2\nexit 3\n') };

test('a failure is told by the channel of RUNNER_ALERTS, and the next pass runs while it is on its way', async () => {
  const root = makeTemporaryRoot(fails);
  const env: NodeJS.ProcessEnv = cronEnv(root);
  const meanwhile: (number | null)[] = [];
  const { url, asked } = await serve(async (_, response) => {
    // Nobody holds the tier while a server takes its time.
    meanwhile.push((await startCommand(['hourly'], { cwd: root, env }).ended).status);
    response.end();
  });
  env.RUNNER_ALERTS = `webhook:${url}/geheimer-pfad`;

  const { status } = await startCommand(['hourly'], { cwd: root, env }).ended;

  expect({ status, meanwhile }).toEqual({ status: 1, meanwhile: [1] });
  expect(readRuns(root).runs).toHaveLength(2);
  expect(asked).toHaveLength(1);
  expect(JSON.parse(asked[0]?.body ?? '')).toMatchObject({
    version: 1,
    event: 'opened',
    incidents: [{ subject: 'hourly/backup', code: 'script-failing', output: expect.stringContaining('disk full') }],
  });
  expect(queryLog(root, 'select * from deliveries')).toEqual([]);
});

test('with web.url, alerts and the mail of cron link to the page of the run, otherwise they name commands alone', async () => {
  const { url, asked } = await serve();
  const environment = (root: string) => ({ ...cronEnv(root), RUNNER_ALERTS: `webhook:${url}/` });
  const settings = JSON.stringify({ web: { url: 'https://example.org/runner/' } });
  const root = makeTemporaryRoot({ ...fails, 'runner.config.json': settings });
  const { stderr } = await startCommand(['hourly'], { cwd: root, env: environment(root) }).ended;
  const [run] = readRuns(root).runs;
  const page = `https://example.org/runner/#/runs/${run?.id}`;
  expect(JSON.parse(asked[0]?.body ?? '')).toMatchObject({ incidents: [{ page }] });
  expect(stderr).toMatch(new RegExp(`full output: .+ show ${run?.id}\\n  page: ${page}\\n`));
  const plain = makeTemporaryRoot(fails);
  const told = await startCommand(['hourly'], { cwd: plain, env: environment(plain) }).ended;
  expect(JSON.parse(asked[1]?.body ?? '')).toMatchObject({ incidents: [{ page: null }] });
  expect(told.stderr).not.toContain('page:');
});

test('a server that is gone fails no pass, and its address is nowhere in the log', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': executable('#!/bin/sh\nexit 3\n') });
  const env = { ...cronEnv(root), RUNNER_ALERTS: 'webhook:http://127.0.0.1:1/geheimer-pfad' };

  const { status, stderr } = await startCommand(['hourly'], { cwd: root, env }).ended;

  expect(status).toBe(1);
  expect(stderr).not.toContain('geheimer-pfad');
  const rows = queryLog<{ reason: string }>(root, 'select * from deliveries');
  expect(rows).toMatchObject([{ channel: 'webhook', attempts: 1, reason: expect.stringContaining('ECONNREFUSED') }]);
  expect(JSON.stringify(rows)).not.toContain('geheimer-pfad');
});

function makeRoot(program: string): string {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': 'test -e fixed || { echo no orders; exit 3; }\n',
    'jobs/hourly/b.sh': 'exit 0\n',
    sendmail: executable(`#!/bin/sh\n${program}\n`),
    'runner.config.mjs': `export default { alerts: { channels: [
      { kind: 'mail', to: 'me@example.org', sendmail: import.meta.dirname + '/sendmail' }] } };\n`,
  });
  return root;
}

test('a failure is mailed once: by the channel, or by cron if that cannot send it', async () => {
  const sent = makeRoot('cat > mail.txt');
  expect(await inRoot(sent, 'hourly')).toMatchObject({ status: 1, stderr: '' });
  expect(await inRoot(sent, 'hourly')).toMatchObject({ status: 1, stderr: '' });

  const unsent = makeRoot('cat > /dev/null; echo no route >&2; exit 75');
  const { status, stderr } = await inRoot(unsent, 'hourly');
  expect(status).toBe(1);
  expect(stderr).toMatch(
    /^runner: 1 of 2 scripts of hourly did not succeed .*\n\nhourly\/a failed after \d+ms: exit code 3/,
  );
  expect(stderr).toMatch(/\n\nThe alert channel mail could not send this mail, and tries it again: .*75/);
  // Its next try fails alike, which is no news.
  changeLog(unsent, 'update deliveries set due_at = 1');
  expect(await inRoot(unsent, 'hourly')).toMatchObject({ status: 1, stderr: '' });
});
