import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { makeFleet, type TestFleet, type TestMachine } from '../../support/engines/machines.ts';
import { type OwnServer, startOwnPostgres } from '../../support/engines/own-server.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

let server: OwnServer;
beforeAll(async () => {
  server = await startOwnPostgres();
}, 120_000);
afterAll(async () => {
  await server?.stop();
});

interface Run {
  readonly script: string;
  readonly host: string;
  readonly outcome: string;
  readonly reason: string | null;
  readonly scheduled_for: string;
  readonly left_job: string | null;
}

function readRuns(fleet: TestFleet): Promise<readonly Run[]> {
  return fleet.ask<Run>(
    `select scripts.name as script, host, runs.outcome, runs.reason, runs.scheduled_for, left_job from runs
     join scripts on scripts.id = script_id join workers on workers.id = worker_id
     join hosts on hosts.id = host_id order by runs.id`,
  );
}

const readEvents = (fleet: TestFleet) =>
  fleet.ask<{ event: string; detail: string | null }>('select event, detail from events order by id');

/** Says which machine runs it, in a file that all of them see. */
const tell = (file: string, seconds = 0.2) =>
  `#!/bin/sh\necho "$RUNNER_HOST $RUNNER_SCRIPT" >> ${file}\nsleep ${seconds}\n`;

function linesOf(file: string): readonly string[] {
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').toSorted() : [];
}

/** As if `runner due` had seen the tiers long ago: one that no call has seen begins with its next period. */
const seenLongAgo = (fleet: TestFleet) => fleet.ask(`update chores set done_at = 0 where name like 'due %'`);

const DAY_MS = 86_400_000;
const quiet = { status: 0, stdout: '', stderr: '' };
const names = ['a', 'b', 'c', 'd', 'e', 'f'];

function scriptsIn(tier: string, content: string) {
  return Object.fromEntries(names.map((name) => [`jobs/${tier}/${name}.sh`, content]));
}

describe('once for each slot', () => {
  test('machines that are called at the same moment share the scripts of their tier', async () => {
    const fleet = makeFleet(server);
    const ran = join(makeTemporaryRoot(), 'ran');
    const machines = ['web-1', 'web-2', 'web-3'].map((name) => fleet.machine(name, scriptsIn('weekly', tell(ran))));
    expect(await Promise.all(machines.map((machine) => machine.call('weekly')))).toEqual([quiet, quiet, quiet]);
    const runs = await readRuns(fleet);
    expect(runs.map(({ script, outcome }) => `${script} ${outcome}`).toSorted()).toEqual(
      names.map((name) => `weekly/${name} succeeded`),
    );
    expect(linesOf(ran)).toEqual(runs.map(({ host, script }) => `${host} ${script}`).toSorted());
    expect(new Set(runs.map(({ host }) => host)).size).toBeGreaterThan(1);
    // What others run is no news.
    expect(await readEvents(fleet)).toEqual([]);
  });

  test('runs of a moment have their process in the log, those of handlers too', async () => {
    const fleet = makeFleet(server);
    const machine = fleet.machine('web-1', {
      'jobs/daily/a.sh': '#!/bin/sh\necho $$\n',
      'jobs/queue/told.mjs': 'export default () => console.log(process.pid);\n',
    });
    await machine.call('add', 'told');
    await machine.call('add', 'told');
    expect(await machine.call('daily')).toEqual(quiet);
    expect(await machine.call('work')).toEqual(quiet);
    const runs = await fleet.ask<{ readonly pid: number; readonly output: string }>(
      'select pid, output from runs join outputs on run_id = runs.id',
    );
    expect(runs.map(({ pid }) => Number(pid))).toEqual(runs.map(({ output }) => Number(output)));
    expect(runs).toHaveLength(3);
  });

  test('who comes later in the slot has nothing to do; in the next one all is run again', async () => {
    const fleet = makeFleet(server);
    const ran = join(makeTemporaryRoot(), 'ran');
    const files = scriptsIn('weekly', tell(ran, 0));
    const [early, late] = [fleet.machine('web-1', files), fleet.machine('web-2', files)];
    expect(await early.call('weekly')).toEqual(quiet);
    expect(await late.call('weekly')).toEqual(quiet);
    expect(linesOf(ran)).toEqual(names.map((name) => `web-1 weekly/${name}`));
    await fleet.ask('update jobs set scheduled_for = scheduled_for - 604800000');
    expect(await late.call('weekly')).toEqual(quiet);
    expect(linesOf(ran)).toEqual(['web-1', 'web-2'].flatMap((host) => names.map((name) => `${host} weekly/${name}`)));
  });

  test('whatever their clocks show, machines have the same slot, and times of the database', async () => {
    const fleet = makeFleet(server);
    const ran = join(makeTemporaryRoot(), 'ran');
    const machines = [-300_000, 0, 300_000].map((skewMs, index) =>
      fleet.machine(`web-${index}`, scriptsIn('weekly', tell(ran)), { skewMs }),
    );
    const before = Date.now();
    expect(await Promise.all(machines.map((machine) => machine.call('weekly')))).toEqual([quiet, quiet, quiet]);
    expect(linesOf(ran)).toHaveLength(names.length);
    const workers = await fleet.ask<{ scheduled_for: string; started_at: string; finished_at: string }>(
      'select scheduled_for, started_at, finished_at from workers',
    );
    expect(workers).toHaveLength(3);
    expect(new Set(workers.map(({ scheduled_for }) => scheduled_for)).size).toBe(1);
    const runs = await fleet.ask<{ started_at: string; finished_at: string }>(
      'select started_at, finished_at from runs',
    );
    for (const { started_at, finished_at } of [...workers, ...runs]) {
      expect(Number(started_at)).toBeGreaterThan(before - 1_500);
      expect(Number(finished_at)).toBeLessThan(Date.now() + 1_500);
      expect(Number(finished_at)).toBeGreaterThanOrEqual(Number(started_at));
    }
    const offsets = await fleet.ask<{ host: string; clock_offset_ms: string }>(
      'select host, clock_offset_ms from machines order by host',
    );
    expect(offsets.map(({ clock_offset_ms }) => Math.round(Number(clock_offset_ms) / 10_000) * 10_000)).toEqual([
      300_000, 0, -300_000,
    ]);
  });

  test('a machine has the scripts that it has; those of others stay theirs', async () => {
    const fleet = makeFleet(server);
    const ran = join(makeTemporaryRoot(), 'ran');
    const all = fleet.machine('web-1', scriptsIn('weekly', tell(ran, 0)));
    const some = fleet.machine('web-2', { 'jobs/weekly/a.sh': tell(ran, 0), 'jobs/weekly/own.sh': tell(ran, 0) });
    expect(await some.call('weekly')).toEqual(quiet);
    expect(await all.call('weekly')).toEqual(quiet);
    expect(linesOf(ran)).toEqual([
      ...names.slice(1).map((name) => `web-1 weekly/${name}`),
      'web-2 weekly/a',
      'web-2 weekly/own',
    ]);
    const open = await fleet.ask(`select name, state from jobs where state <> 'finished'`);
    expect(open).toEqual([]);
  });

  test('what only a machine has that was not seen for five weeks is cancelled, and the machine forgotten', async () => {
    const fleet = makeFleet(server);
    const files = { 'jobs/weekly/a.sh': '#!/bin/sh\n' };
    const here = fleet.machine('web-1', files);
    const gone = fleet.machine('web-2', {
      'jobs/weekly/own.sh': '#!/bin/sh\n# @retries 1\nexit 1\n',
      'jobs/weekly/on-each.sh': '#!/bin/sh\n# @every-host\n# @retries 1\nexit 1\n',
    });
    expect((await gone.call('weekly')).status).toBe(1);
    const states = () =>
      fleet.ask<object>(`select name, state, reason from jobs where name <> 'weekly/a' order by name`);
    const machines = async () =>
      (await fleet.ask<{ host: string }>('select host from machines order by host')).map(({ host }) => host);
    const fiveWeeksOn = async () => {
      await fleet.ask(`update machines set seen_at = seen_at - ${35 * DAY_MS} where host = 'web-2'`);
      await fleet.ask(`update jobs set run_at = run_at - ${36 * DAY_MS} where name <> 'weekly/a'`);
    };
    const nextSlot = () =>
      fleet.ask(`update jobs set scheduled_for = scheduled_for - 604800000 where name = 'weekly/a'`);
    await fleet.ask(`update machines set seen_at = seen_at - ${34 * DAY_MS}`);
    expect(await here.call('weekly')).toEqual(quiet);
    const waiting = ['on-each', 'own'].map((name) => ({ name: `weekly/${name}`, state: 'retrying' }));
    expect(await states()).toMatchObject(waiting);
    expect(await machines()).toEqual(['web-1', 'web-2']);
    await fiveWeeksOn();
    await nextSlot();
    expect(await here.call('weekly')).toEqual(quiet);
    expect(await machines()).toEqual(['web-1']);
    expect(await fleet.ask('select distinct host from copies')).toEqual([{ host: 'web-1' }]);
    await nextSlot();
    expect(await here.call('weekly')).toEqual(quiet);
    expect(await states()).toEqual([
      { name: 'weekly/on-each', state: 'cancelled', reason: 'its machine is gone' },
      { name: 'weekly/own', state: 'cancelled', reason: 'its script no longer exists' },
    ]);
  });

  test('runner due runs what no machine has run in this period, each script once', async () => {
    const fleet = makeFleet(server);
    const ran = join(makeTemporaryRoot(), 'ran');
    const files = scriptsIn('weekly', tell(ran, 0));
    const machines = ['web-1', 'web-2'].map((name) => fleet.machine(name, files));
    const more = fleet.machine('web-3', { ...files, 'jobs/weekly/own.sh': tell(ran, 0) });
    expect(await more.call('due')).toEqual(quiet);
    expect(linesOf(ran)).toHaveLength(0);
    await seenLongAgo(fleet);
    expect(await Promise.all(machines.map((machine) => machine.call('due')))).toEqual([quiet, quiet]);
    expect(linesOf(ran)).toHaveLength(names.length);
    expect(await more.call('due')).toEqual(quiet);
    expect(await more.call('due')).toEqual(quiet);
    expect(linesOf(ran)).toHaveLength(names.length + 1);
    const passes = await fleet.ask<{ host: string }>(`select host from workers join hosts on hosts.id = host_id`);
    expect(passes.filter(({ host }) => host === 'web-3')).toHaveLength(1);
  });
});

describe('by hand', () => {
  test('a script is run again in its slot, but not while another machine runs it', async () => {
    const fleet = makeFleet(server);
    const ran = join(makeTemporaryRoot(), 'ran');
    const files = {
      'jobs/weekly/a.sh': `#!/bin/sh\necho "$RUNNER_HOST" >> ${ran}\nwhile [ ! -e ${ran}.go ]; do sleep 0.05; done\n`,
    };
    const [one, other] = [fleet.machine('web-1', files), fleet.machine('web-2', files)];
    const pass = one.start('weekly');
    await until('it runs', () => linesOf(ran).length === 1);
    const refused = await other.call('run', 'weekly/a');
    expect(`${refused.stdout}${refused.stderr}`).toContain('weekly/a is still running on web-1 (pid ');
    writeFileSync(`${ran}.go`, '');
    expect(await pass.ended).toEqual(quiet);
    expect((await other.call('run', 'weekly/a')).status).toBe(0);
    expect(linesOf(ran)).toEqual(['web-1', 'web-2']);
    expect((await readEvents(fleet)).filter(({ event }) => event === 'run-orphaned')).toEqual([]);
    // The slot has had its run all the same.
    expect(await other.call('weekly')).toEqual(quiet);
    expect(linesOf(ran)).toEqual(['web-1', 'web-2']);
  });
});

describe('where a script runs', () => {
  test('@host leaves it to some machines, @every-host has each of them run it', async () => {
    const fleet = makeFleet(server);
    const ran = join(makeTemporaryRoot(), 'ran');
    const body = tell(ran, 0).replace('#!/bin/sh\n', '');
    const files = {
      'jobs/weekly/on-db.sh': `#!/bin/sh\n# @host db-*\n${body}`,
      'jobs/weekly/on-each.sh': `#!/bin/sh\n# @every-host\n${body}`,
      'jobs/weekly/on-each-web.sh': `#!/bin/sh\n# @host web-*\n# @every-host\n${body}`,
      'jobs/weekly/once.sh': `#!/bin/sh\n${body}`,
    };
    const machines = ['web-1', 'web-2', 'db-1'].map((name) => fleet.machine(name, files));
    for (const machine of machines) expect(await machine.call('weekly')).toEqual(quiet);
    const expected = [
      ...['db-1 weekly/on-db', 'db-1 weekly/on-each', 'web-1 weekly/on-each', 'web-2 weekly/on-each'],
      ...['web-1 weekly/on-each-web', 'web-2 weekly/on-each-web', 'web-1 weekly/once'],
    ].toSorted();
    expect(linesOf(ran)).toEqual(expected);
    const { stdout } = await (machines[0] as TestMachine).call('list');
    expect(stdout).toContain('on other machines · 1 script\n  weekly/on-db · runs on db-*; this is web-1\n');
    const refused = await (machines[0] as TestMachine).call('run', 'weekly/on-db');
    expect(refused).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('weekly/on-db runs on db-*; this is web-1'),
    });
  });
});

describe('a machine that gives no sign of life', () => {
  const lasting = (ran: string, tags = '') =>
    `#!/bin/sh\n${tags}echo "$RUNNER_HOST $RUNNER_SCRIPT" >> ${ran}\n[ "$RUNNER_HOST" = web-2 ] && exit 0\nwhile [ ! -e ${ran}.go ]; do sleep 0.05; done\necho late\n`;

  async function begin(tags = '', call = 'weekly') {
    const fleet = makeFleet(server);
    const ran = join(makeTemporaryRoot(), 'ran');
    const files = { 'jobs/weekly/a.sh': lasting(ran, tags), 'jobs/weekly/b.sh': tell(ran, 0) };
    const [one, other] = [fleet.machine('web-1', files), fleet.machine('web-2', files)];
    if (call === 'due') {
      await one.call('due');
      await seenLongAgo(fleet);
    }
    const pass = one.start(call);
    await until('its run is in the log', async () => (await readRuns(fleet).catch(() => [])).length === 1);
    // It is there before its process is.
    await until('its script has begun', () => linesOf(ran).length === 1);
    return { fleet, ran, one, other, pass };
  }

  test('is left alone as long as its lease lasts, and its work taken over after that', async () => {
    const { fleet, ran, one, other, pass } = await begin('# @on-crash retry\n# @retry-delay 1s\n');
    expect(await other.call('weekly')).toEqual(quiet);
    // What was not begun is anybody's.
    expect(linesOf(ran)).toEqual(['web-1 weekly/a', 'web-2 weekly/b']);
    pass.kill('SIGKILL');
    await pass.ended;
    expect(await other.call('weekly')).toEqual(quiet);
    expect(linesOf(ran)).toEqual(['web-1 weekly/a', 'web-2 weekly/b']);
    await fleet.silence(one);
    await other.call('weekly');
    await until('it is tried again', async () => {
      await other.call('weekly');
      return linesOf(ran).length === 3;
    });
    expect(linesOf(ran)).toEqual(['web-1 weekly/a', 'web-2 weekly/a', 'web-2 weekly/b']);
    const runs = (await readRuns(fleet)).filter(({ script }) => script === 'weekly/a');
    expect(runs).toMatchObject([
      { host: 'web-1', outcome: 'crashed', left_job: 'retrying' },
      { host: 'web-2', outcome: 'succeeded' },
    ]);
    expect(runs[0]?.reason).toMatch(/^web-1 has given no sign of life since 1969-12-31T/);
    const [worker] = await fleet.ask<{ state: string; reason: string }>(
      `select state, reason from workers where id = 1`,
    );
    expect(worker).toMatchObject({
      state: 'crashed',
      reason: expect.stringMatching(/^web-1 has given no sign of life/),
    });
  });

  test('who has never been seen before takes over, too, but not who lacks the script while others have it', async () => {
    const { fleet, one, other, pass } = await begin('# @on-crash fail\n');
    expect(await other.call('weekly')).toEqual(quiet);
    pass.kill('SIGKILL');
    await pass.ended;
    await fleet.silence(one);
    const state = () => fleet.ask(`select state from jobs where name = 'weekly/a'`);
    const without = fleet.machine('db-1', { 'jobs/weekly/own.sh': '#!/bin/sh\n' });
    await without.call('weekly');
    expect(await state()).toEqual([{ state: 'running' }]);
    const fresh = fleet.machine('web-3', { 'jobs/weekly/a.sh': '#!/bin/sh\n# @on-crash fail\n' });
    await fresh.call('weekly');
    expect(await state()).toEqual([{ state: 'failed' }]);
  });

  test('after a pass of runner due that died, the tags of its script decide, and status says no more', async () => {
    const { fleet, ran, one, other, pass } = await begin('', 'due');
    pass.kill('SIGKILL');
    await pass.ended;
    await fleet.silence(one);
    // For a minute it is left to the same line of others' crontabs.
    await fleet.ask('update jobs set run_at = run_at - 60000');
    for (let calls = 0; calls < 2; calls += 1) await other.call('due');
    expect(linesOf(ran)).toEqual(['web-1 weekly/a', 'web-2 weekly/b']);
    expect(await fleet.ask(`select state from jobs where name = 'weekly/a'`)).toEqual([{ state: 'failed' }]);
    await fleet.ask(`update workers set state = 'crashed'`);
    const { tiers } = JSON.parse((await other.call('status', '--json')).stdout);
    expect(tiers).toMatchObject([{ tier: 'weekly', isDueAgain: false }]);
    expect((await other.call('why', 'weekly/a')).stdout).not.toContain('runner due');
  });

  test('its policy is the script’s own: after @on-crash skip nobody tries it again', async () => {
    const { fleet, ran, one, other, pass } = await begin('# @on-crash skip\n# @retries 3\n');
    pass.kill('SIGKILL');
    await pass.ended;
    await fleet.silence(one);
    await other.call('weekly');
    await other.call('weekly');
    expect(linesOf(ran)).toEqual(['web-1 weekly/a', 'web-2 weekly/b']);
    expect(await fleet.ask(`select state from jobs where name = 'weekly/a'`)).toEqual([{ state: 'cancelled' }]);
  });

  test('should it live after all, it starts nothing more, and changes nothing that others have settled', async () => {
    const { fleet, ran, one, other, pass } = await begin('# @on-crash fail\n');
    await fleet.ask(`insert into pauses (name, kind, until, created_at) values ('weekly/b', 'pause', null, 0)`);
    await fleet.silence(one);
    expect((await other.call('weekly')).status).toBe(0);
    writeFileSync(`${ran}.go`, '');
    const { stderr } = await pass.ended;
    expect(stderr.match(/another machine has taken over the runs of web-1/g)).toHaveLength(1);
    // The second one was paused for all others, and is none of the first one's any more.
    expect(linesOf(ran)).toEqual(['web-1 weekly/a']);
    const [run] = await fleet.ask<{ outcome: string; output: string }>(
      `select outcome, output from runs left join outputs on run_id = id where script_id =
        (select id from scripts where name = 'weekly/a')`,
    );
    expect(run).toEqual({ outcome: 'crashed', output: 'late\n' });
    const [worker] = await fleet.ask('select state from workers where id = 1');
    expect(worker).toEqual({ state: 'crashed' });
  });

  test('jobs of the queue that it had are run by others', async () => {
    const fleet = makeFleet(server);
    const ran = join(makeTemporaryRoot(), 'ran');
    const files = { 'jobs/queue/a.sh': lasting(ran, '# @on-crash retry\n# @retry-delay 1s\n') };
    const [one, other] = [fleet.machine('web-1', files), fleet.machine('web-2', files)];
    expect((await other.call('add', 'a')).status).toBe(0);
    const worker = one.start('work');
    await until('its run is in the log', async () => (await readRuns(fleet)).length === 1);
    worker.kill('SIGKILL');
    await worker.ended;
    await fleet.silence(one);
    await until('another machine runs it', async () => {
      await other.call('work');
      return linesOf(ran).length === 2;
    });
    expect(linesOf(ran)).toEqual(['web-1 queue/a', 'web-2 queue/a']);
    expect(await readRuns(fleet)).toMatchObject([
      { host: 'web-1', outcome: 'crashed' },
      { host: 'web-2', outcome: 'succeeded' },
    ]);
  });
});

test('two machines that have one name are told by doctor, a machine that was booted again is not', async () => {
  const fleet = makeFleet(server);
  const machine = fleet.machine('web-1', scriptsIn('weekly', '#!/bin/sh\n'));
  const told = 'several machines have the name web-1: passes of different boots took turns within a day';
  const setBoot = (to: string, from = '') =>
    fleet.ask(`update hosts set boot_id = '${to}' where boot_id like '${from}%' returning boot_id as "bootId"`);
  await machine.call('weekly');
  const [{ bootId }] = (await fleet.ask<{ bootId: string }>('select boot_id as "bootId" from hosts')) as [
    { bootId: string },
  ];
  await setBoot('another');
  await machine.call('weekly');
  expect((await machine.call('doctor')).stdout).not.toContain(told);
  // The first of the two calls once more.
  await setBoot('second', bootId);
  await setBoot(bootId, 'another');
  await machine.call('weekly');
  expect((await machine.call('doctor')).stdout).toContain(told);
});

test('what machines do not have alike is told by list, status and doctor', async () => {
  const fleet = makeFleet(server);
  const files = scriptsIn('weekly', '#!/bin/sh\n');
  const one = fleet.machine('web-1', { ...files, 'jobs/weekly/new.sh': '#!/bin/sh\n' });
  const other = fleet.machine('web-2', { ...files, 'jobs/weekly/a.sh': '#!/bin/sh\ntrue\n' }, { skewMs: -300_000 });
  expect(await one.call('weekly')).toEqual(quiet);
  expect(await other.call('weekly')).toEqual(quiet);
  const sentences = ['weekly/a on web-2 is not the same as on web-1', 'weekly/new is missing on web-2'];
  for (const machine of [one, other]) {
    for (const command of ['list', 'status', 'doctor']) {
      const { stdout } = await machine.call(command);
      for (const sentence of sentences) expect([command, stdout]).toEqual([command, expect.stringContaining(sentence)]);
    }
  }
  const { stdout } = await other.call('doctor');
  expect(stdout).toMatch(/this is web-2; seen within a week: web-1, web-2/);
  expect(stdout).toMatch(/the clock of web-2 is (5m|4m 5\ds|5m 1s) behind the database's/);
});

describe('what is gone', () => {
  const fails = '#!/bin/sh\nexit 3\n';
  const openIncidents = async (machine: TestMachine) =>
    (JSON.parse((await machine.call('incidents', '--json')).stdout).incidents as { subject: string }[]).map(
      ({ subject }) => subject,
    );

  test('an incident lasts while another machine runs its script, and ends once none does', async () => {
    const fleet = makeFleet(server);
    const one = fleet.machine('web-1', { 'jobs/weekly/a.sh': fails, 'jobs/weekly/b.sh': '#!/bin/sh\n' });
    const other = fleet.machine('web-2', { 'jobs/weekly/b.sh': '#!/bin/sh\n', 'jobs/hourly/c.sh': '#!/bin/sh\n' });
    await other.call('hourly');
    await one.call('weekly');
    expect(await openIncidents(one)).toEqual(['weekly/a']);
    writeFileSync(join(one.root, 'jobs/weekly/a.sh'), `#!/bin/sh\n# @host web-2\nexit 3\n`);
    await one.call('weekly');
    expect(await openIncidents(one)).toEqual(['weekly/a']);
    writeFileSync(join(one.root, 'jobs/weekly/a.sh'), `#!/bin/sh\n# @host web-9\nexit 3\n`);
    expect((await one.call('weekly')).stderr).toContain('weekly/a: gone: it runs on web-9');
    expect(await openIncidents(other)).toEqual([]);
  });
});
