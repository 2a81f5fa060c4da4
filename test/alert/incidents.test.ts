import { expect, test } from 'vitest';
import { DAY_MS, makeChannel, openIncidentPlace } from '../support/incident-place.ts';
import { HOUR_MS, MINUTE_MS } from '../support/test-queue.ts';

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
  for (let minute = 0; minute <= 24 * 60; minute += 1) {
    await pass({ 'hourly/a': `no route to 10.0.0.${minute}` });
    for (const { news, incident } of await tell(true)) printed.push(`${news} ${incident.subject}`);
    clock.at += MINUTE_MS;
  }
  expect(told()).toEqual(['opened hourly/a', 'reminder hourly/a']);
  expect(printed).toEqual(['opened hourly/a', 'reminder hourly/a']);
  expect(incidents()).toMatchObject([{ occurrences: 1_441, last_at: clock.at - MINUTE_MS }]);
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
