import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { cronEnv, runCommand, startCommand } from '../../support/command.ts';
import { makeFleet, type TestMachine } from '../../support/engines/machines.ts';
import { type OwnServer, startOwnPostgres } from '../../support/engines/own-server.ts';
import { endOrphans, runWithFault } from '../../support/faults/faults.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeSeenRoot } from '../../support/site.ts';
import { until } from '../../support/until.ts';

/* Scripts that wait for others, together with times of their own, boots, budgets, stopped passes and machines. */

let server: OwnServer;
beforeAll(async () => {
  server = await startOwnPostgres();
}, 120_000);
afterAll(async () => {
  await server?.stop();
});

/** Writes its name, and fails as long as there is a file `bad-<name>`. */
const script = (name: string, ...tags: readonly string[]): string =>
  `${['#!/bin/sh', ...tags.map((tag) => `# ${tag}`)].join('\n')}
echo "${name}\${RUNNER_SCHEDULED_FOR:+ $RUNNER_SCHEDULED_FOR}" >> "$RUNNER_ROOT/ran"
test ! -e "$RUNNER_ROOT/bad-${name}"\n`;

/** Writes its name, and does not end before there is a file `go`. */
const lasting = (name: string, ...tags: readonly string[]): string =>
  `${script(name, ...tags)}touch "$RUNNER_ROOT/begun-${name}"
while [ ! -e "$RUNNER_ROOT/go" ]; do sleep 0.02; done\n`;

/** What has run since this was last asked, in its order. */
function takeRan(root: string): readonly string[] {
  const path = join(root, 'ran');
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  rmSync(path);
  return lines;
}

const namesIn = (lines: readonly string[]) => lines.map((line) => line.split(' ')[0]);

function ran(root: string, ...args: readonly string[]) {
  const { status, stderr } = runCommand(args, { cwd: root, env: cronEnv(root) });
  expect([0, 1], stderr).toContain(status);
  return namesIn(takeRan(root));
}

const DAY = 86_400_000;

test('with a time of its own, it runs at that time if the other one has succeeded by then, else as soon as it has', async () => {
  const root = makeTemporaryRoot({
    'jobs/daily/dump.sh': script('dump'),
    'jobs/hourly/mail.sh': script('mail', '@schedule daily at 08:30 in UTC', '@after daily/dump'),
  });
  endOrphans(root);
  // The files are older than the first of these times.
  const first = (Math.floor(Date.now() / DAY) + 2) * DAY;
  const at = async (day: number, time: string, tier: string) => {
    const now = first + day * DAY + Date.parse(`1970-01-01T${time}Z`);
    const { status, stderr } = await runWithFault(root, [tier], { clockMs: now - Date.now() });
    expect([0, 1], stderr).toContain(status);
    return takeRan(root).map((line) => line.replace(/ .*T(\d\d:\d\d).*/, line.startsWith('mail') ? ' $1' : ''));
  };
  expect(await at(0, '08:05', 'daily')).toEqual(['dump']);
  expect(await at(0, '08:40', 'hourly')).toEqual(['mail 08:30']);
  expect(await at(1, '08:05', 'daily')).toEqual(['dump']);
  expect(await at(1, '08:10', 'hourly')).toEqual([]);
  expect(await at(1, '08:40', 'hourly')).toEqual(['mail 08:30']);
  expect(await at(1, '09:10', 'hourly')).toEqual([]);
  writeFileSync(join(root, 'bad-dump'), '');
  expect(await at(2, '08:05', 'daily')).toEqual(['dump']);
  expect(await at(2, '08:40', 'hourly')).toEqual([]);
  expect(await at(2, '09:10', 'hourly')).toEqual([]);
  rmSync(join(root, 'bad-dump'));
  expect(await at(2, '10:00', 'daily')).toEqual(['dump', 'mail 08:30']);
  expect(await at(2, '10:10', 'hourly')).toEqual([]);
  // Without a success since, the next time waits as well; times that pass meanwhile are one.
  expect(await at(3, '08:40', 'hourly')).toEqual([]);
  expect(await at(4, '08:40', 'hourly')).toEqual([]);
  expect(await at(4, '09:00', 'daily')).toEqual(['dump', 'mail 08:30']);
  expect(await at(4, '09:10', 'hourly')).toEqual([]);
  expect(await at(5, '08:05', 'daily')).toEqual(['dump']);
  expect(await at(5, '08:40', 'hourly')).toEqual(['mail 08:30']);
});

test('a time lapses with its day: a success of the next day counts for the next time', async () => {
  const root = makeTemporaryRoot({
    'jobs/daily/dump.sh': script('dump'),
    'jobs/hourly/mail.sh': script('mail', '@schedule daily at 08:30 in UTC', '@after daily/dump'),
  });
  endOrphans(root);
  const first = (Math.floor(Date.now() / DAY) + 2) * DAY;
  const clockAt = (day: number, time: string) => first + day * DAY + Date.parse(`1970-01-01T${time}Z`) - Date.now();
  const call = async (day: number, time: string, ...args: readonly string[]) => {
    const { status, stdout, stderr } = await runWithFault(root, args, {
      clockMs: clockAt(day, time),
      env: { TZ: 'UTC' },
    });
    expect([0, 1], stderr).toContain(status);
    return stdout.replaceAll(/\s+/g, ' ');
  };
  const at = async (day: number, time: string, tier: string) => {
    await call(day, time, tier);
    return takeRan(root).map((line) => line.replace(/^dump.*/, 'dump'));
  };
  const mail = (day: number) => `mail ${new Date(first + day * DAY).toISOString().slice(0, 10)}T08:30:00.000Z`;
  expect(await at(0, '02:00', 'daily')).toEqual(['dump']);
  expect(await at(0, '08:40', 'hourly')).toEqual([mail(0)]);
  writeFileSync(join(root, 'bad-dump'), '');
  expect(await at(1, '02:00', 'daily')).toEqual(['dump']);
  expect(await at(1, '08:40', 'hourly')).toEqual([]);
  rmSync(join(root, 'bad-dump'));
  expect(await at(2, '02:00', 'daily')).toEqual(['dump']);
  expect(await at(2, '07:40', 'hourly')).toEqual([]);
  const told = /waits until [^,]*08:30, its next time, because the day of its last one is over/;
  expect(await call(2, '07:45', 'why', 'hourly/mail')).toMatch(told);
  expect(await call(2, '07:45', 'status')).toMatch(told);
  expect(await call(2, '07:45', 'hourly', '--dry-run')).toMatch(told);
  expect(await call(2, '07:45', 'check')).toContain('OK');
  // Once, for the second of its two times.
  expect(await at(2, '08:35', 'hourly')).toEqual([mail(2)]);
  expect(await at(2, '09:40', 'hourly')).toEqual([]);
  expect(await at(3, '02:00', 'daily')).toEqual(['dump']);
  expect(await at(3, '08:40', 'hourly')).toEqual([mail(3)]);
});

test('a script that always ends on the next day does not keep another one waiting for ever', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': script('a', '@schedule daily at 23:30 in UTC'),
    'jobs/hourly/b.sh': script('b', '@schedule daily at 23:30 in UTC', '@after a'),
  });
  const first = (Math.floor(Date.now() / DAY) + 2) * DAY;
  for (const day of [0, 1, 2]) {
    // The pass comes after midnight; the time before was that of the day before.
    const clockMs = first + day * DAY + 600_000 - Date.now();
    expect((await runWithFault(root, ['hourly'], { clockMs })).stderr).toBe('');
    const time = `${new Date(first + (day - 1) * DAY).toISOString().slice(0, 10)}T23:30:00.000Z`;
    expect(takeRan(root)).toEqual([`a ${time}`, `b ${time}`]);
  }
});

test('after a boot, it runs behind what the boot runs; without one, it waits', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/other.sh': '#!/bin/sh\n', 'jobs/daily/other.sh': '#!/bin/sh\n' });
  endOrphans(root);
  const pass = async (tier: string) => {
    const { status, stderr } = await runWithFault(root, [tier], { uptimeS: 0 });
    expect([status, stderr]).toEqual([0, '']);
    return namesIn(takeRan(root));
  };
  const boot = () =>
    changeLog(root, `update chores set name = 'boot ${hostname()} earlier' where name like 'boot ${hostname()} %'`);
  await pass('hourly');
  const files = {
    'hourly/a-cache': script('a-cache', '@reboot', '@after z-mount'),
    'hourly/z-mount': script('z-mount', '@reboot'),
    'daily/check': script('check', '@after hourly/z-mount'),
  };
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(join(root, 'jobs', `${name}.sh`), content, { mode: 0o755 });
  }
  expect(await pass('daily')).toEqual([]);
  boot();
  expect((await pass('hourly')).toSorted()).toEqual(['a-cache', 'check', 'z-mount']);
  expect(await pass('hourly')).toEqual([]);
  expect(await pass('daily')).toEqual([]);
  boot();
  expect(await pass('daily')).toEqual(['z-mount', 'a-cache', 'check']);
});

test('what a budget leaves of a chain goes on with the next call, and runs once for each end', () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': `${script('a')}sleep 1.1\n`,
    'jobs/hourly/b.sh': script('b', '@after a'),
    'jobs/hourly/c.sh': script('c', '@after b'),
  });
  expect(ran(root, 'hourly', '--budget', '1s')).toEqual(['a']);
  expect(queryLog(root, `select name, state from jobs where finished_at is null order by name`)).toEqual([
    { name: 'hourly/b', state: 'queued' },
    { name: 'hourly/c', state: 'queued' },
  ]);
  // Those that wait already come first.
  expect(ran(root, 'hourly', '--budget', '1s')).toEqual(['b', 'c']);
  expect(ran(root, 'hourly')).toEqual(['a', 'b', 'c']);
});

test('one line for all tiers runs a chain over several tiers in one call', async () => {
  const root = await makeSeenRoot({
    'jobs/hourly/report.sh': script('report', '@after daily/fetch'),
    'jobs/daily/fetch.sh': script('fetch'),
    'jobs/weekly/sum.sh': script('sum', '@after hourly/report'),
  });
  expect(ran(root, 'due')).toEqual(['fetch', 'report', 'sum']);
  expect(ran(root, 'due')).toEqual([]);
});

test.each<[NodeJS.Signals, string, readonly string[]]>([
  ['SIGINT', 'cancelled', []],
  ['SIGTERM', 'queued', ['d']],
])(
  '%s in the middle of a chain stops it there; what was free is %s, the rest waits, and the next pass runs it all',
  async (signal, state, left) => {
    const root = makeTemporaryRoot({
      'jobs/hourly/a.sh': script('a'),
      'jobs/hourly/b.sh': lasting('b', '@after a'),
      'jobs/hourly/c.sh': script('c', '@after b'),
      'jobs/hourly/d.sh': script('d', '@after-failure b'),
      'jobs/daily/e.sh': script('e', '@after hourly/c'),
    });
    endOrphans(root);
    expect(ran(root, 'daily')).toEqual([]);
    const pass = startCommand(['--root', root, 'hourly'], { cwd: root, env: cronEnv(root) });
    await until('the second one has begun', () => existsSync(join(root, 'begun-b')));
    pass.kill(signal);
    await pass.ended;
    expect(namesIn(takeRan(root))).toEqual(['a', 'b']);
    expect(queryLog(root, 'select name, state, links_met from jobs order by name')).toEqual([
      // Those that wait for others go on waiting, whoever has stopped the pass.
      { name: 'daily/e', state: 'queued', links_met: 0 },
      { name: 'hourly/a', state: 'finished', links_met: null },
      { name: 'hourly/b', state: 'failed', links_met: 1 },
      { name: 'hourly/c', state: 'queued', links_met: 0 },
      { name: 'hourly/d', state, links_met: 1 },
    ]);
    writeFileSync(join(root, 'go'), '');
    expect(ran(root, 'hourly')).toEqual([...left, 'a', 'b', 'c', 'e']);
    expect(ran(root, 'hourly')).toEqual(['a', 'b', 'c']);
  },
);

test('its retry does not wait again, whatever has become of the other one meanwhile', () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': script('a'),
    'jobs/hourly/b.sh': script('b', '@after a', '@retries 1', '@retry-delay 1h'),
    'jobs/hourly/c.sh': script('c', '@after b'),
  });
  writeFileSync(join(root, 'bad-b'), '');
  expect(ran(root, 'hourly')).toEqual(['a', 'b']);
  rmSync(join(root, 'bad-b'));
  writeFileSync(join(root, 'bad-a'), '');
  expect(ran(root, 'hourly')).toEqual(['a']);
  changeLog(root, `update jobs set run_at = 1000 where state = 'retrying'`);
  expect(ran(root, 'hourly').toSorted()).toEqual(['a', 'b', 'c']);
  expect(ran(root, 'hourly')).toEqual(['a']);
  rmSync(join(root, 'bad-a'));
  expect(ran(root, 'hourly')).toEqual(['a', 'b', 'c']);
});

test('on several machines, one for each waits for its own machine, one for all waits for every machine', async () => {
  const fleet = makeFleet(server);
  const pull = { 'jobs/weekly/pull.sh': script('pull', '@every-host') };
  const [one, other] = [fleet.machine('web-1', pull), fleet.machine('web-2', pull)];
  const took = async (machine: TestMachine) => {
    expect([0, 1]).toContain((await machine.call('weekly')).status);
    return namesIn(takeRan(machine.root));
  };
  const nextWeek = () => fleet.ask('update jobs set scheduled_for = scheduled_for - 604800000');
  for (const machine of [one, other]) {
    expect(await took(machine)).toEqual(['pull']);
    writeFileSync(join(machine.root, 'jobs/weekly/all.sh'), script('all', '@after pull'), { mode: 0o755 });
    const warm = script('warm', '@every-host', '@after pull');
    writeFileSync(join(machine.root, 'jobs/weekly/warm.sh'), warm, { mode: 0o755 });
  }
  await nextWeek();
  writeFileSync(join(other.root, 'bad-pull'), '');
  expect(await took(other)).toEqual(['pull']);
  expect(await took(one)).toEqual(['pull', 'warm']);
  expect((await one.call('why', 'weekly/all')).stdout.replaceAll(/\s+/g, ' ')).toContain(
    'it waits for weekly/pull on web-2, which failed',
  );
  expect((await other.call('why', 'weekly/warm')).stdout.replaceAll(/\s+/g, ' ')).toContain(
    'it waits for weekly/pull on web-2, which failed',
  );
  const status = async (machine: TestMachine) => (await machine.call('status')).stdout.replaceAll(/\s+/g, ' ');
  expect(await status(other)).toContain('weekly/warm · waits for weekly/pull on web-2, which failed');
  // Each machine tells it of the script that is for all of them, and of its own.
  expect(await status(one)).toContain('weekly/warm · waits for other scripts; queued since');
  expect(await status(one)).toContain('weekly/all · waits for weekly/pull on web-2, which failed');
  rmSync(join(other.root, 'bad-pull'));
  await nextWeek();
  expect((await took(other)).toSorted()).toEqual(['all', 'pull', 'warm']);
  // The one for all machines has used both ends.
  expect(await took(one)).toEqual(['pull', 'warm']);
});
