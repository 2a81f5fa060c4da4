import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cronEnv, type Ended, startCommand } from '../support/command.ts';
import { startTcpProxy, type TcpProxy } from '../support/engines/links.ts';
import { type OwnServer, ownServersFor } from '../support/engines/own-server.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';

/** Runs until it is told to end. */
const waits = (label: string, tags = '') => `#!/bin/sh\n${tags}touch ${label}.started
while [ ! -e ${label}.go ]; do sleep 0.02; done\necho "printed by ${label}"\n`;
const quick = (label: string, tags = '') => `#!/bin/sh\n${tags}echo ran >> ${label}.ran\necho "printed by ${label}"\n`;
const OFFLINE = '# @offline run\n';

describe.each(ownServersFor('an outage'))('$name', ({ start }) => {
  let server: OwnServer;
  let proxy: TcpProxy;
  let count = 0;

  beforeAll(async () => {
    server = await start();
    proxy = await startTcpProxy(server.port);
  }, 120_000);

  afterAll(async () => {
    await proxy.close();
    await server.stop();
  });

  /** A machine whose way to the database can be cut. */
  async function makeMachine(files: Readonly<Record<string, string>>) {
    await proxy.mend();
    count += 1;
    const name = `test_${count}`;
    if (server.engine === 'mysql') await server.ask(`create database ${name}`);
    const root = makeTemporaryRoot(files);
    const url = server.engine === 'mysql' ? server.url('', name) : server.url();
    const options = `?connect_timeout=1${server.engine === 'mysql' ? '' : `&schema=${name}`}`;
    const env = {
      ...cronEnv(root),
      RUNNER_DATABASE_URL: `${url.replace(`:${server.port}/`, `:${proxy.port}/`)}${options}`,
      RUNNER_HOST: 'web-1',
    };
    const start = (...args: readonly string[]) => startCommand(['--root', root, ...args], { cwd: '/', env });
    const table = (called: string): string => `${name}.${called}`;
    return {
      root,
      start,
      table,
      ask: (statement: string) => server.ask(statement),
      run: (...args: readonly string[]): Promise<Ended> => start(...args).ended,
      has: (file: string) => existsSync(join(root, file)),
      touch: (file: string) => writeFileSync(join(root, file), ''),
      read: (file: string) => readFileSync(join(root, file), 'utf8'),
      spooled: () => {
        const folder = join(root, '.runner/spool');
        return existsSync(folder) ? readdirSync(folder).length : 0;
      },
      /** Every run that the database knows, the oldest first. */
      runs: () =>
        server.ask(
          `select s.name as script, r.outcome as outcome, o.output as output from ${table('runs')} r
           join ${table('scripts')} s on s.id = r.script_id left join ${table('outputs')} o on o.run_id = r.id order by r.id`,
        ) as Promise<readonly { script: string; outcome: string; output: string | null }[]>,
      /** As if it were later than it is. */
      setBack: (ms: number) => server.ask(`update ${table('jobs')} set run_at = run_at - ${ms}`),
      jobs: () =>
        server.ask(`select name, state from ${table('jobs')} order by name`) as Promise<
          readonly { name: string; state: string }[]
        >,
    };
  }

  test('without it at the start only what may run alone does; the rest waits, which is told once', async () => {
    const machine = await makeMachine({ 'jobs/hourly/a.sh': quick('a'), 'jobs/hourly/b.sh': quick('b', OFFLINE) });
    await proxy.cut();
    const first = await machine.run('hourly');
    expect(first.status).toBe(1);
    expect(first.stderr).toMatch(/^runner: The database \w+.* on localhost:\d+ cannot be reached \(.+\)\. Passes and/);
    expect(first.stderr).toContain('hourly/a waits until the database is back, unless it has the tag `@offline run`.');
    expect(first.stderr).not.toContain('test-pass-word');
    expect({ a: machine.has('a.ran'), b: machine.has('b.ran') }).toEqual({ a: false, b: true });
    expect((await machine.run('hourly')).stderr).toBe('');
    expect(machine.spooled()).toBe(2);
    await proxy.mend();
    expect(await machine.run('hourly')).toMatchObject({ status: 0, stderr: '' });
    expect(machine.spooled()).toBe(0);
    const ran = (await machine.runs()).map(({ script, output }) => `${script}: ${output?.trim()}`);
    expect(ran.filter((each) => each === 'hourly/b: printed by b').length).toBe(
      machine.read('b.ran').split('\n').length - 1,
    );
    expect(ran.filter((each) => each === 'hourly/a: printed by a')).toHaveLength(1);
  }, 60_000);

  test('what a machine ran for itself is its own: the row of another machine is still to be run', async () => {
    const tags = `# @every-host\n${OFFLINE}`;
    const machine = await makeMachine({ 'jobs/hourly/a.sh': quick('a', tags), 'jobs/daily/notes.txt': 'ignored' });
    await machine.run('hourly');
    await machine.ask(`update ${machine.table('jobs')} set host = 'web-0', state = 'queued', ready = null,
      finished_at = null, run_at = run_at - 60000, created_at = created_at - 60000`);
    await proxy.cut();
    await machine.run('hourly');
    expect(machine.read('a.ran').split('\n')).toHaveLength(3);
    await proxy.mend();
    expect(await machine.run('daily')).toMatchObject({ status: 0, stderr: '' });
    expect(machine.spooled()).toBe(0);
    expect(await machine.ask(`select host, state from ${machine.table('jobs')} order by host`)).toEqual([
      { host: 'web-0', state: 'queued' },
      { host: 'web-1', state: 'finished' },
    ]);
  }, 60_000);

  test('lost in the middle of a pass: what runs comes to its end, which is delivered once', async () => {
    const files = { 'a.sh': waits('a'), 'b.sh': quick('b'), 'c.sh': quick('c', OFFLINE) };
    const inTier = Object.entries(files).map(([name, text]) => [`jobs/hourly/${name}`, text]);
    const machine = await makeMachine({ ...Object.fromEntries(inTier), 'jobs/daily/notes.txt': 'ignored' });
    const pass = machine.start('hourly');
    await until('a runs', () => machine.has('a.started'));
    await proxy.cut();
    machine.touch('a.go');
    const { stderr } = await pass.ended;
    expect(stderr).toContain('cannot be reached');
    expect(stderr).toContain('hourly/b waits until the database is back');
    expect({ b: machine.has('b.ran'), c: machine.has('c.ran') }).toEqual({ b: false, c: true });
    expect(machine.spooled()).toBe(1);
    await proxy.mend();
    // What is left of the pass is done by the next call of any tier, unless the same tier is just being called elsewhere.
    await machine.setBack(120_000);
    expect(await machine.run('daily')).toMatchObject({ status: 0 });
    expect(machine.spooled()).toBe(0);
    const told = (await machine.runs()).map(({ script, outcome, output }) => `${script} ${outcome} ${output?.trim()}`);
    expect(told.sort()).toEqual([
      'hourly/a succeeded printed by a',
      'hourly/b succeeded printed by b',
      'hourly/c succeeded printed by c',
    ]);
  }, 60_000);

  test('lost while an end is committed: nobody knows whether it was, and it is there once', async () => {
    const machine = await makeMachine({ 'jobs/hourly/a.sh': waits('a') });
    const pass = machine.start('hourly');
    await until('a is known to run', async () => (await machine.runs().catch(() => [])).length > 0);
    const [after, answer] = server.engine === 'mysql' ? [['succeeded', 'commit'], ''] : [['succeeded'], 'COMMIT'];
    proxy.cutAnswer(after as string[], answer as string);
    machine.touch('a.go');
    expect((await pass.ended).stderr).toMatch(/was lost during a commit|cannot be reached/);
    expect(proxy.hasCut).toBe(true);
    expect(machine.spooled()).toBe(1);
    await proxy.mend();
    expect(await machine.run('work')).toMatchObject({ status: 0 });
    expect(machine.spooled()).toBe(0);
    expect(await machine.runs()).toMatchObject([{ script: 'hourly/a', outcome: 'succeeded' }]);
    expect(await machine.jobs()).toEqual([{ name: 'hourly/a', state: 'finished' }]);
  }, 60_000);

  test('lost while a beginning is committed, and back at once: it has begun once, and has not crashed', async () => {
    const machine = await makeMachine({ 'jobs/hourly/a.sh': quick('a') });
    expect(await machine.run('hourly')).toMatchObject({ status: 0 });
    const [after, answer] =
      server.engine === 'mysql' ? [['insert into runs', 'commit'], ''] : [['insert into runs'], 'COMMIT'];
    proxy.cutAnswer(after as string[], answer as string);
    const again = machine.start('run', 'hourly/a');
    await until('the answer is lost', () => proxy.hasCut);
    await proxy.mend();
    expect(await again.ended).toMatchObject({ status: 0, stderr: expect.not.stringContaining('database') });
    expect(machine.read('a.ran').split('\n')).toHaveLength(3);
    expect(machine.spooled()).toBe(0);
    expect(await machine.runs()).toMatchObject([{ outcome: 'succeeded' }, { outcome: 'succeeded' }]);
    expect(await machine.jobs()).toEqual([{ name: 'hourly/a', state: 'finished' }]);
  }, 60_000);

  test('a worker of the queue ends what it has begun, begins nothing more, and delivers its end', async () => {
    const machine = await makeMachine({ 'jobs/queue/mail.sh': waits('mail') });
    for (const _ of [1, 2]) expect(await machine.run('add', 'mail')).toMatchObject({ status: 0 });
    const worker = machine.start('work');
    await until('a job runs', () => machine.has('mail.started'));
    await proxy.cut();
    machine.touch('mail.go');
    expect(await worker.ended).toMatchObject({ status: 1, stderr: expect.stringContaining('cannot be reached') });
    expect(machine.spooled()).toBe(1);
    await proxy.mend();
    expect(await machine.run('work')).toMatchObject({ status: 0 });
    expect((await machine.runs()).map(({ outcome, output }) => `${outcome} ${output?.trim()}`)).toEqual([
      'succeeded printed by mail',
      'succeeded printed by mail',
    ]);
    expect(await machine.jobs()).toEqual([
      { name: 'mail', state: 'finished' },
      { name: 'mail', state: 'finished' },
    ]);
  }, 60_000);

  test('commands that read say in one sentence that it is away', async () => {
    const machine = await makeMachine({ 'jobs/hourly/a.sh': quick('a') });
    await proxy.cut();
    const sentence = /^(runner|Note): .*The database \w+.* on localhost:\d+ cannot be reached \(.+\)\..*\n$/;
    const ended = await Promise.all(['report', 'status', 'list', 'jobs'].map((command) => machine.run(command)));
    expect(ended.map(({ status }) => status)).toEqual([1, 0, 0, 1]);
    for (const { stderr } of ended) expect(stderr).toMatch(sentence);
  }, 60_000);

  test('who says nothing any more is given up in time', async () => {
    const machine = await makeMachine({ 'jobs/hourly/a.sh': quick('a') });
    expect(await machine.run('hourly')).toMatchObject({ status: 0 });
    proxy.silence();
    const { status, stderr } = await machine.run('hourly');
    expect(status).toBe(1);
    expect(stderr).toContain('hourly/a waits until the database is back');
  }, 60_000);
});
