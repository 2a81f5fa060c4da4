import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeStaticReport } from '../../../src/dashboard/static/report.ts';
import { createClock } from '../../../src/report/text/clock.ts';
import { isOfRuns } from '../../../src/store/words.ts';
import { machineZone } from '../../../src/system/base/zone.ts';
import { withStore } from '../../../src/worker/invocation/with-store.ts';
import { addSettledRun, DAY, HOUR, MINUTE, NOW } from '../../support/alerts.ts';
import { callAt, commandPath, cronEnv, type Ended, pathWithoutCrontab } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeLoggedCall } from '../../support/run.ts';
import { pretendLongUptime } from '../../support/uptime.ts';
import { type Body, openReadApi, readReport } from '../../support/web/dashboard.ts';
import { writeLog } from '../../support/written-log.ts';
import { readPart } from '../cli/mail-server.ts';

pretendLongUptime();
const { PATH } = process.env;
beforeAll(() => {
  // Within this process the API and the report would read the crontab of whoever runs the tests.
  process.env.PATH = pathWithoutCrontab;
});
afterAll(() => {
  process.env.PATH = PATH;
});

/** A root in which each part is out of order, whose last pass has noted that. */
async function makeWrongSite(): Promise<string> {
  const root = makeTemporaryRoot({
    ...{ 'jobs/15min/a.sh': 'true\n', 'jobs/hourly/b.sh': 'true\n' },
    ...{ 'jobs/daily/c.sh': 'true\n', 'jobs/queue/mail.sh': 'true\n' },
  });
  const log = await writeLog(root);
  await log.addPass('daily', NOW - 3 * DAY);
  for (const minutes of [61, 46, 31, 16, 1]) await log.addPass('15min', NOW - minutes * MINUTE, { state: 'skipped' });
  await addSettledRun(log, 'hourly/b', NOW - 90 * MINUTE, { outcome: 'failed', reason: 'exit code 7' });
  for (const hours of [3, 2, 1]) await log.addPass('hourly', NOW - hours * HOUR, { state: 'crashed' });
  log.change(`insert into jobs (name, run_at) values ('mail', ?)`, NOW - 5 * HOUR);
  writeFileSync(join(root, '.runner/activity.db.broken-20271102-101112'), '');
  await log.store.deliveries.add([{ kind: 'alert', channel: 'office', body: '{}', at: NOW - 6 * HOUR }]);
  log.change(`update deliveries set attempts = 3, reason = 'no route to host', due_at = ?`, NOW + DAY);
  const { store, ...call } = await makeLoggedCall(root);
  await store.close();
  const runner = { ...call.runner, now: () => NOW };
  await withStore(
    { ...call, runner },
    async () => {},
    async (reason) => {
      throw new Error(reason);
    },
  );
  return root;
}

test('check, status, API and static report tell of everything that is wrong with the same words', async () => {
  const root = await makeWrongSite();
  const env = { ...cronEnv(root), PATH: pathWithoutCrontab, TZ: 'UTC', COLUMNS: '1000' };
  const call = async (...args: readonly string[]) => await callAt(args, { cwd: root, env }, NOW);
  const api = openReadApi(root, () => NOW);

  const check = await call('check', '--json');
  const health: Body = JSON.parse(check.stdout);
  expect({ exit: check.status, is: health.status }).toEqual({ exit: 2, is: 'critical' });
  const wrong: Body[] = health.checks.filter(({ status }: Body) => status !== 'ok');
  expect([...new Set(wrong.map(({ code }) => code))]).toEqual([
    ...['tier-overdue', 'tier-skipped', 'script-failing', 'jobs-late', 'no-worker', 'crashes'],
    ...['log-unusable', 'alerts-undelivered'],
  ]);

  // The API answers as the command does, with the same words for status, findings and incidents.
  expect(await api.ask('/api/health')).toEqual(health);
  const status: Body = JSON.parse((await call('status', '--json')).stdout);
  const answered = await api.ask('/api/status');
  expect(answered.incidents).toEqual(status.incidents);
  expect(answered.tiers).toEqual(status.tiers);

  // What a check finds is an incident in the same words, and `status` prints these.
  const noted = (({ items }: Body) => items)(await api.ask('/api/incidents?state=open&limit=500'));
  expect(noted.toSorted(byId)).toEqual(status.incidents.toSorted(byId));
  const printed = (await call('status')).stdout;
  for (const { code, subject, status: severity, message, hint } of wrong) {
    const incident = status.incidents.find((each: Body) => each.code === code && each.subject === subject);
    // An incident of runs has the words of its run, and never wakes anybody in quiet hours.
    if (isOfRuns(code)) expect(message).toContain(`: ${incident.error}`);
    else expect(incident).toMatchObject({ severity, error: message, hint });
    expect(printed).toContain(incident.error);
  }

  // Whether all is well is told in one sentence: status prints it, and the page shows the API's.
  const title = expect.stringMatching(/^1 script is failing, \d other things wrong$/);
  expect(status.verdict).toMatchObject({ level: 'bad', title });
  expect(printed.split('\n')[0]).toMatch(new RegExp(`^${status.verdict.title} · since `));
  expect(answered).toMatchObject({ verdict: status.verdict, troubles: status.troubles });
  const nameOf = ({ code, subject }: Body) => `${code} ${subject}`;
  expect(status.troubles.map(nameOf).toSorted()).toEqual(wrong.map(nameOf).toSorted());
  expect(await readMailedSubject(root, call)).toContain(`] ${status.verdict.title}: `);

  // The tier that is overdue is so everywhere, since the same instant.
  const [late] = status.tiers.filter(({ isOverdue }: Body) => isOverdue);
  expect(late).toMatchObject({ tier: 'daily' });
  expect(printed).toMatch(/daily .* overdue since /);
  const why: Body = JSON.parse((await call('why', 'daily/c', '--json')).stdout);
  expect(why.findings.find(({ topic }: Body) => topic === 'called')).toMatchObject({ verdict: 'wrong' });
  // The command keeps to the machine's zone, the server of this test to that of its process.
  const zone = encodeURIComponent(machineZone() ?? 'UTC');
  expect(await api.ask(`/api/why/daily/c?zone=${zone}`)).toMatchObject({ conclusion: why.conclusion });

  const place = { site: { root, env: process.env, version: '1.2.3', now: () => NOW }, isWithOutput: true };
  const { html } = await makeStaticReport({ ...place, distFolder: dirname(commandPath) });
  writeFileSync(join(root, 'report.html'), html);
  const { answers } = readReport(join(root, 'report.html'));
  expect(answers['/api/health']).toEqual(health);
  const { incidents, verdict, troubles } = answers['/api/status'] as Body;
  expect({ incidents, verdict, troubles }).toEqual({
    ...{ incidents: status.incidents, verdict: status.verdict, troubles: status.troubles },
  });
  expect(html).toContain(`<h1>${status.verdict.title}</h1>`);
});

test('a script that is slower than usual is so everywhere, in the same words', async () => {
  const root = makeTemporaryRoot({ 'jobs/daily/backup.sh': 'true\n' });
  const log = await writeLog(root);
  const content_hash = 'aa'.repeat(32);
  for (let day = 24; day > 0; day -= 1) {
    const duration_us = day > 4 ? 6_400_000 : 30_000_000;
    await log.addRun('daily/backup', NOW - day * DAY, { duration_us, content_hash });
  }
  const since = NOW - 4 * DAY;
  const env = { ...cronEnv(root), PATH: pathWithoutCrontab, TZ: 'UTC', COLUMNS: '160' };
  const call = async (...args: readonly string[]) => await callAt(args, { cwd: root, env }, NOW);
  const words = `30s, 4.7× its usual 6.4s since ${createClock(NOW, 'UTC').short(since)}, its file unchanged`;
  for (const args of [['status'], ['report'], ['report', 'daily/backup'], ['why', 'daily/backup']])
    expect((await call(...args)).stdout, args.join(' ')).toContain(words);
  expect(readPart({ source: await readMail(root, call) } as never, 'text/plain')).toContain(words);

  const slower = {
    ...{ durationMs: 30_000, usualMs: 6400, factor: 4.6875, since: new Date(since).toISOString() },
    ...{ isFileChanged: false, fileChanged: null },
  };
  const risen = [{ script: 'daily/backup', slower, heavier: null }];
  expect(JSON.parse((await call('status', '--json')).stdout).risen).toEqual(risen);
  expect(JSON.parse((await call('report', '--json')).stdout).scripts).toMatchObject(risen);
  const api = openReadApi(root, () => NOW);
  expect(await api.ask('/api/status')).toMatchObject({ risen });
  expect(await api.ask('/api/scripts/daily/backup')).toMatchObject({ slower, usual: { durationMs: 6400 } });
  const place = { site: { root, env: process.env, version: '1.2.3', now: () => NOW }, isWithOutput: false };
  const { html } = await makeStaticReport({ ...place, distFolder: dirname(commandPath) });
  writeFileSync(join(root, 'report.html'), html);
  expect(readReport(join(root, 'report.html')).answers['/api/status']).toMatchObject({ risen });
});

/** The subject of the report by mail. */
async function readMailedSubject(root: string, call: Call): Promise<string> {
  return (await readMail(root, call)).replaceAll(/\n\s+/g, ' ');
}

type Call = (...args: readonly string[]) => Promise<Ended>;

/** The report by mail, as the mail program gets it. */
async function readMail(root: string, call: Call): Promise<string> {
  const sendmail = join(root, 'sendmail');
  writeFileSync(sendmail, `#!/bin/sh\ncat > ${root}/mail.txt\n`, { mode: 0o755 });
  const channel = { kind: 'mail', to: 'me@example.org', sendmail };
  const settings = join(root, 'runner.config.json');
  writeFileSync(settings, JSON.stringify({ alerts: { channels: [channel] } }));
  await call('report', '--mail');
  rmSync(settings);
  return readFileSync(join(root, 'mail.txt'), 'utf8');
}

const byId = (one: Body, other: Body): number => one.id - other.id;
