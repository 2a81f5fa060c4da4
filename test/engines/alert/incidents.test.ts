import { expect, test } from 'vitest';
import { checkCodes } from '../../../src/checks/list.ts';
import { noteFindings } from '../../../src/monitor/alert/incidents.ts';
import type { CheckStatus } from '../../../src/monitor/finding.ts';
import { fingerprintOf } from '../../../src/queue/settle/incidents.ts';
import { noteEnd } from '../../../src/queue/settle/settle.ts';
import { incidentsOf } from '../../../src/store/statements/monitor/incidents.ts';
import { DAY_MS, makeChannel, openIncidentPlace } from '../../support/alerts.ts';
import { engine } from '../../support/engines/engines.ts';
import { makeFinishedRun } from '../../support/log.ts';
import { HOUR_MS, MINUTE_MS } from '../../support/queue.ts';

test('fail, fail, ok, fail with @alert-after 2 gives one alert and one recovery', async () => {
  const script = '// @alert-after 2\n';
  const { pass, tell, told, clock } = await openIncidentPlace({}, { 'jobs/hourly/a.js': script });
  for (const end of ['no route', 'no route', null, 'no route']) {
    clock.at += HOUR_MS;
    await pass({ 'hourly/a': end });
    await tell();
  }
  expect(told()).toEqual(['opened hourly/a', 'recovered hourly/a']);
});

test('500 scripts that fail at once are one message', async () => {
  const { pass, tell, told, messages } = await openIncidentPlace();
  const names = Array.from({ length: 500 }, (_, index) => `hourly/s${index}`);
  await pass(Object.fromEntries(names.map((name) => [name, 'the disk is gone'])));
  await tell();
  expect(told()).toHaveLength(1);
  expect(messages()[0]?.incidents).toHaveLength(500);
  expect(messages()[0]?.incidents.filter(({ output }) => output !== null)).toHaveLength(20);
  expect(JSON.stringify(messages()[0]).length).toBeLessThan(300_000);
});

test('a script that fails every minute for a day gives one alert and one reminder, and is printed as often', async () => {
  const { pass, tell, told, clock, incidents } = await openIncidentPlace();
  const printed: string[] = [];
  // A server is asked over a socket: there, four an hour are many.
  const minutes = engine.name === 'sqlite' ? 1 : 15;
  for (let minute = 0; minute <= 24 * 60; minute += minutes) {
    await pass({ 'hourly/a': `no route to 10.0.0.${minute}` });
    for (const { news, incident } of await tell(true)) printed.push(`${news} ${incident.subject}`);
    clock.at += minutes * MINUTE_MS;
  }
  expect(told()).toEqual(['opened hourly/a', 'reminder hourly/a']);
  expect(printed).toEqual(['opened hourly/a', 'reminder hourly/a']);
  expect(incidents()).toMatchObject([{ occurrences: 1_440 / minutes + 1, last_at: clock.at - minutes * MINUTE_MS }]);
});

test('a recovery that was lost with its runner is told by the next pass, once', async () => {
  const { pass, tell, told, clock } = await openIncidentPlace();
  await pass({ 'hourly/a': 'no route' });
  await tell();
  clock.at += HOUR_MS;
  // Its runner was killed before it came to telling.
  await pass({ 'hourly/a': null });
  clock.at += HOUR_MS;
  await pass({ 'hourly/b': null });
  await tell();
  await tell();
  expect(told()).toEqual(['opened hourly/a', 'recovered hourly/a']);
});

test('a cap of messages an hour loses nothing: the rest is one message when the hour is over', async () => {
  const { pass, tell, told, clock, messages } = await openIncidentPlace({ perHour: 2 });
  const start = clock.at;
  for (const name of ['a', 'b', 'c', 'd']) {
    await pass({ [`hourly/${name}`]: 'no route' });
    await tell();
    clock.at += MINUTE_MS;
  }
  expect(told()).toEqual(['opened hourly/a', 'opened hourly/b', 'opened hourly/c, hourly/d']);
  expect(messages().map(({ dueAt }) => dueAt - start)).toEqual([0, MINUTE_MS, HOUR_MS]);
});

test('in quiet hours only what is critical is told; the rest when they end, with what came of it', async () => {
  const { tell, told, pass, clock, messages } = await openIncidentPlace({ quiet: { from: 22 * 60, until: 7 * 60 } });
  clock.at = new Date(2026, 2, 10, 23).getTime();
  await pass({ 'hourly/a': 'no route', 'hourly/b': 'no route' });
  await tell();
  clock.at += HOUR_MS;
  await pass({ 'hourly/a': null });
  await tell();
  expect(told()).toEqual(['digest hourly/a, hourly/b']);
  expect(messages()[0]?.dueAt).toBe(new Date(2026, 2, 11, 7).getTime());
  expect(messages()[0]?.incidents.map(({ recoveredAt }) => recoveredAt)).toEqual([clock.at, null]);
});

test('a channel is told what its severity and its tags let through', async () => {
  const channels = [
    makeChannel({ name: 'all' }),
    makeChannel({ name: 'critical', severity: 'critical' }),
    makeChannel({ name: 'shop', tags: ['shop'] }),
  ];
  const files = { 'jobs/hourly/a.js': '// @tags shop\n', 'jobs/hourly/b.js': '' };
  const { pass, tell, messages } = await openIncidentPlace({ channels }, files);
  await pass({ 'hourly/a': 'no route', 'hourly/b': 'no route' });
  await tell();
  const told = messages().map(({ channel, incidents }) => [channel, incidents.map(({ subject }) => subject)]);
  expect(told).toEqual([
    ['all', ['hourly/a', 'hourly/b']],
    ['shop', ['hourly/a']],
  ]);
});

test('a message says what failed, what usually happens, what has changed, and how to look closer', async () => {
  const { pass, tell, clock, content, messages } = await openIncidentPlace();
  content.hash = 'aa'.repeat(32);
  await pass({ 'hourly/a': null });
  clock.at += HOUR_MS;
  content.hash = 'bb'.repeat(32);
  const lines = Array.from({ length: 30 }, (_, line) => `line ${line}`);
  await pass({ 'hourly/a': 'exit code 1: no route' }, { duration_us: 700_000, output: lines.join('\n') });
  await tell();
  expect(messages()[0]?.incidents).toEqual([
    {
      ...{ id: 1, subject: 'hourly/a', severity: 'warning', code: 'script-failing', occurrences: 1 },
      ...{ openedAt: clock.at, recoveredAt: null, ending: null, hint: null, error: 'exit code 1: no route' },
      lastRun: {
        ...{ id: 2, jobId: null, startedAt: clock.at, durationMs: 700, outcome: 'failed', exitCode: 1, signal: null },
      },
      output: lines.slice(10).join('\n'),
      usual: 'succeeds in 13ms, 1 of the last 2 times',
      changed:
        'its content has changed: it last succeeded 2026-03-10 13:00 UTC, and the new content first ran 2026-03-10 14:00 UTC',
      command: expect.stringMatching(/^cd \/\S+ && npx folder-runner show 2$/),
      page: null,
    },
  ]);
});

test('without a channel nothing is on its way, and the incident stands', async () => {
  const { pass, tell, told, incidents, clock } = await openIncidentPlace({ channels: [] });
  await pass({ 'hourly/a': 'no route' });
  expect(await tell(true)).toHaveLength(1);
  clock.at += DAY_MS;
  await pass({ 'hourly/a': null });
  expect(await tell(true)).toMatchObject([{ news: 'recovered' }]);
  expect(await tell(true)).toEqual([]);
  expect(told()).toEqual([]);
  expect(incidents()).toMatchObject([{ told_at: null, recovered_at: clock.at, recovery_told_at: null, due_at: null }]);
});

test('a handler is well again once no job of it has failed for an hour and one has succeeded', async () => {
  const { store, tell, told, clock } = await openIncidentPlace();
  const end = (reason: string | null) => {
    const run = { script: 'queue/mail', startedAt: clock.at, runId: null, at: clock.at };
    const failed = makeFinishedRun({ outcome: 'failed', reason, output: reason });
    const ended = reason === null ? makeFinishedRun() : failed;
    return store.transaction((session) =>
      noteEnd(session, { ...run, end: ended, leftJob: reason === null ? 'finished' : 'failed' }),
    );
  };
  for (const reason of ['no route', null, 'no route', null]) {
    await end(reason);
    clock.at += 20 * MINUTE_MS;
    await tell();
  }
  expect(told()).toEqual(['opened queue/mail']);
  // No further job: the hour alone ends it.
  clock.at += HOUR_MS;
  await tell();
  expect(told()).toEqual(['opened queue/mail', 'recovered queue/mail']);
});

test('what checks find opens once, counts, and is over when none finds it; what none could look into stays', async () => {
  const { store, tell, told, clock, incidents } = await openIncidentPlace();
  const find = (status: CheckStatus, subject = 'daily') => ({
    ...({ code: 'tier-overdue', status, subject, hint: 'look at the crontab' } as const),
    message: 'daily was not called',
  });
  const printed: string[] = [];
  for (const findings of [[find('critical')], [find('critical')], [find('unknown')], [find('ok')], [find('warning')]]) {
    await store.transaction((session) => noteFindings(session, findings, clock.at));
    for (const { news, incident } of await tell(true)) printed.push(`${news} ${incident.subject}`);
    clock.at += MINUTE_MS;
  }
  expect(printed).toEqual(['opened daily', 'recovered daily', 'opened daily']);
  await store.transaction((session) => noteFindings(session, [], clock.at));
  await tell();
  expect(told()).toEqual(['opened daily', 'recovered daily', 'opened daily', 'recovered daily']);
  expect(incidents()).toMatchObject([
    { severity: 'critical', occurrences: 2, hint: 'look at the crontab' },
    { severity: 'warning', occurrences: 1 },
  ]);
});

test('of what checks find, cron is not told of figures that come and go, nor of what is muted or acknowledged', async () => {
  const { store, tell, told, clock } = await openIncidentPlace();
  const findings = checkCodes.map((code) => ({
    ...({ code, status: 'warning', subject: code === 'crashes' ? 'hourly' : 'all', hint: null } as const),
    message: 'it is not well',
  }));
  const at = clock.at;
  await store.transaction(async (session) => {
    await incidentsOf(session.statements).mute({ name: 'hourly', until: at + 2 * DAY_MS, createdAt: at });
    await noteFindings(session, findings, at);
  });
  const codes = async () => (await tell(true)).map(({ incident: { code } }) => code);
  const waits = ['tier-overdue', 'tier-skipped', 'script-overdue', 'jobs-late', 'no-worker', 'worker-stuck'];
  const all = [...waits, 'log-unusable', 'disk-full', 'alerts-undelivered'];
  expect(await codes()).toEqual(all);
  expect(told()).toHaveLength(1);
  const [first] = await incidentsOf(store.statements).current();
  await store.transaction((session) =>
    incidentsOf(session.statements).change([{ id: first?.id as number, set: { acknowledged_at: at } }]),
  );
  clock.at += DAY_MS;
  expect(await codes()).toEqual(all.slice(1));
  clock.at += DAY_MS;
  expect(await codes()).toEqual([...all.slice(1, 6), 'crashes', ...all.slice(6)]);
});

test('a script whose errors are all different has at most six incidents, and one message tells of the last ones', async () => {
  const { pass, incidents } = await openIncidentPlace();
  const words = ['ant', 'bee', 'cat', 'dog', 'emu', 'fox', 'gnu', 'hen'];
  for (const word of words) await pass({ 'hourly/a': `there is no ${word}` });
  expect(incidents().map(({ occurrences }) => occurrences)).toEqual([1, 1, 1, 1, 1, 3]);
});

test('a failure that a spool tells late opens nothing once its script has succeeded', async () => {
  const { store, pass, clock, incidents } = await openIncidentPlace();
  await pass({ 'hourly/a': null });
  const end = makeFinishedRun({ outcome: 'failed', reason: 'no route' });
  const before = { script: 'hourly/a', startedAt: clock.at - HOUR_MS, at: clock.at - HOUR_MS, isLate: true };
  await store.transaction((session) => noteEnd(session, { ...before, runId: null, end, leftJob: 'failed' }));
  expect(incidents()).toEqual([]);
});

test.each([
  ['no route to 10.0.0.1:443', 'no route to 10.20.0.111:8443'],
  ['order 4711 of 2026-03-10T13:00:00.123Z', 'order 12 of 2025-12-31T23:59:59Z'],
  ['cannot read /home/me/a b', 'cannot read /srv/www/x/a b'],
  [
    '0xdeadbeef in deadbeef01 of 0d6e9bb0-0c6e-4c3a-9a5e-2f5c6cdb7a11',
    '0x1 in cafe0123 of 3b241101-e2bb-4255-8caf-4136c566a962',
  ],
])('%j and %j are the same error', (one, other) => {
  const of = (error_message: string) => fingerprintOf(makeFinishedRun({ outcome: 'failed', error_message }));
  expect(of(one)).toBe(of(other));
  expect(of(one)).not.toBe(of(`${one} again`));
});
