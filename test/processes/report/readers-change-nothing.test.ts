import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { inRoot, jsonOf, makeQueueSite } from '../../support/command.ts';
import { isAlive, killGroup } from '../../support/faults/faults.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import { NO_SUCH_PID } from '../../support/written-log.ts';
import { killRunner } from './killed-runner.ts';

const readers: readonly string[] = [
  ...['status', 'report', 'metrics', 'why waits', 'show 1', 'tail waits', 'jobs', 'activity', 'list', 'alert list'],
];

async function endGroup(pid: number): Promise<void> {
  killGroup(pid);
  await until('the script is gone', () => !isAlive(pid));
}

const contentOf = (root: string) =>
  ['workers', 'jobs', 'runs', 'events'].map((table) => queryLog(root, `select * from main.${table}`));

describe('of a run that died with its runner', () => {
  test('who looks records nothing, and a pass does', async () => {
    const { root, pid } = await killRunner();
    await endGroup(pid);
    const before = contentOf(root);
    for (const line of readers) await inRoot(root, ...line.split(' '));
    expect(contentOf(root)).toEqual(before);
    // So that it ends when it is run again.
    writeFileSync(join(root, 'go'), '');
    await inRoot(root, 'due');
    expect(queryLog(root, 'select outcome, output from runs')[0]).toEqual({
      ...{ outcome: 'crashed', output: 'begun\n' },
    });
  });

  test('each tells what the pass will find', async () => {
    const { root, pid } = await killRunner();
    await endGroup(pid);
    const { stdout } = await inRoot(root, 'status');
    expect(stdout).toMatch(/\n {2}hourly\/waits · for .* · cut off: its process is gone · /);
    expect(stdout).toMatch(/\nhourly .*, crashed +/);
    const died = /the runner \(pid \d+ on .*\) died while it ran/;
    expect((await inRoot(root, 'report')).stdout).toMatch(/\n {2}waits +\d+ \S+ \S+ +crashed /);
    expect((await inRoot(root, 'report')).stdout).toMatch(died);
    expect((await inRoot(root, 'show', '1')).stdout).toMatch(/ · run 1 · crashed\n/);
    expect((await inRoot(root, 'show', '1')).stdout).toMatch(/\noutput\nbegun\n$/);
    expect(await inRoot(root, 'tail', 'waits')).toMatchObject({
      ...{ stdout: 'begun\n', stderr: expect.stringMatching(died) },
    });
    const why = (await inRoot(root, 'why', 'waits')).stdout;
    expect(why).toContain('and was cut off: its process is gone');
    expect(why).toMatch(/\n\nIt was cut off some time after .*: its process is gone\.\n/);
    expect(why).not.toMatch(/still runs|goes on/);
  });

  test('the log is read while another holds it', async () => {
    const { root, pid } = await killRunner();
    await endGroup(pid);
    const other = new Database(join(root, '.runner/activity.db'));
    onTestFinished(() => void other.close());
    other.exec('begin immediate');
    expect(await inRoot(root, 'status')).toMatchObject({ status: 0, stderr: '' });
  });
});

test('of a run that outlived its runner and then ended, it is known that it ended', async () => {
  const { root, pid } = await killRunner();
  writeFileSync(join(root, 'go'), '');
  const results = join(root, '.runner/results');
  await until('it wrote down its end', () => readdirSync(results).length > 0);
  await until('it is gone', () => !isAlive(pid));
  expect((await inRoot(root, 'status')).stdout).toContain('has ended; the next pass records how');
  expect((await inRoot(root, 'show', '1')).stdout).toContain('it has ended; the next pass records how\n');
  await inRoot(root, 'due');
  expect((await inRoot(root, 'show', '1')).stdout).toContain(' · run 1 · succeeded\n');
});

test('what still runs without its runner is left alone, and called by its name', async () => {
  const { root, pid } = await killRunner({ 'runner.config.json': '{"defaults":{"timeout":"1s"}}' });
  const [run] = queryLog<{ started_at: number }>(root, 'select started_at from runs');
  await until('its time is over', () => Date.now() > (run?.started_at ?? 0) + 1200);
  expect((await inRoot(root, 'status')).stdout).toMatch(
    /hourly\/waits · for .* · still running, although its runner is gone · /,
  );
  expect((await inRoot(root, 'report')).stdout).toContain('still running, although its runner is gone');
  expect((await inRoot(root, 'why', 'waits')).stdout).toContain('It has been running without its runner since ');
  expect(isAlive(pid)).toBe(true);
  const { running } = JSON.parse((await inRoot(root, 'status', '--json')).stdout);
  expect(running).toMatchObject([{ script: 'hourly/waits', pid, isOrphan: true, liveness: 'alive' }]);
});

test('a job whose claim has expired, or whose worker died, says so', async () => {
  const root = makeQueueSite();
  await inRoot(root, 'add', 'export');
  await inRoot(root, 'add', 'export');
  await inRoot(root, 'claim');
  changeLog(root, 'update jobs set lease_expires_at = 1 where id = 1');
  changeLog(root, "insert into hosts values (1, ?, null, '0', '0')", hostname());
  changeLog(
    root,
    `insert into workers (kind, state, host_id, pid, started_at) values ('queue', 'running', 1, ?, 0)`,
    NO_SUCH_PID,
  );
  changeLog(root, "update jobs set state = 'running', ready = null, claim_token = '1.1' where id = 2");
  const reasons = ['its claim has expired', `its worker (pid ${NO_SUCH_PID} on ${hostname()}) died`];
  const { jobs } = jsonOf(await inRoot(root, 'jobs', '--json'));
  expect(jobs).toMatchObject([
    { id: 2, reason: reasons[1] },
    { id: 1, reason: reasons[0] },
  ]);
  for (const id of [1, 2]) {
    expect((await inRoot(root, 'job', String(id))).stdout).toContain(`\n${reasons[id - 1]}\n`);
  }
});

test('where nothing ever ran, nothing is made by looking', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/waits.mjs': '' });
  for (const line of readers.filter((each) => !each.startsWith('show'))) {
    expect(await inRoot(root, ...line.split(' '))).toMatchObject({ status: 0 });
  }
  expect(existsSync(join(root, '.runner'))).toBe(false);
});
