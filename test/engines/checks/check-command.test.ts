// What cannot be read is SQLite's file.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { checkCodes } from '../../../src/checks/list.ts';
import { addSettledRun, HOUR, MINUTE } from '../../support/alerts.ts';
import { inRoot } from '../../support/command.ts';
import { queryLog, testOfSqlite } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { writeLog } from '../../support/written-log.ts';

async function open(files: Readonly<Record<string, string>> = {}) {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n', ...files });
  const log = await writeLog(root);
  await log.addPass('hourly', Date.now() - MINUTE);
  const addJob = (name: string, ageMs: number) =>
    log.change('insert into jobs (name, run_at) values (?, ?)', name, Date.now() - ageMs);
  return { root, log, addJob };
}

const figures =
  /jobs_failed=0;10; jobs_due=0;1000;10000 oldest_job=0s;7200;28800 crashes=0;3;9 disk_free=\d+B;1024:;204:$/;

test('where all is well: 0, a line with the figures, and a line for each check', async () => {
  const { root } = await open({
    'runner.config.json': '{ "checks": { "diskFull": "1kb", "crashes": true, "tierSkipped": false } }',
  });
  const { status, stdout, stderr } = await inRoot(root, 'check');
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  const [first, ...lines] = stdout.trimEnd().split('\n');
  expect(first).toMatch(new RegExp(`^RUNNER OK - ${checkCodes.length} checks \\| ${figures.source}`));
  expect(lines.map((line) => /^ok {8}([a-z-]+) {2,}\S/.exec(line)?.[1])).toEqual(checkCodes);
  expect(stdout).toContain('not checked: the settings give it no threshold');
});

test('1 for a warning, 2 for something critical, the worst first, each with its cure; other checks on demand', async () => {
  const { root, log, addJob } = await open({ 'runner.config.json': '{ "checks": { "jobsLate": "10m" } }' });
  addJob('mail|x\u001b[2J', 20 * MINUTE);
  const warned = await inRoot(root, 'check', 'jobs-late');
  expect(warned.status).toBe(1);
  expect(warned.stdout).toMatch(
    /^RUNNER WARNING - the oldest job that is due has waited for 20m \(mail¦x\\u001b\[2J\) \| oldest_job=12\d\ds;600;2400\n/,
  );
  expect(warned.stdout).toMatch(
    /^warning {3}jobs-late {2}the oldest .*\n(?: {21}\S.*\n)? {21}→ See `npx folder-runner status`/m,
  );
  expect((await inRoot(root, 'check', 'tier-overdue', 'disk-full')).status).toBe(0);
  await addSettledRun(log, 'hourly/a', Date.now() - HOUR, { outcome: 'failed', reason: 'exit code 7' });
  const { status, stdout } = await inRoot(root, 'check');
  expect(status).toBe(2);
  expect(stdout).toMatch(/^RUNNER CRITICAL - hourly\/a failed 1h(?: \ds)? ago: exit code 7 \(and 1 more\) \|/);
  const [, second] = stdout.split('\n');
  expect(second).toMatch(/^critical {2}script-failing/);
});

test('as JSON for programs', async () => {
  const { root, addJob } = await open({ 'runner.config.json': '{ "checks": { "jobsWaiting": 1 } }' });
  addJob('mail', 0);
  const { status, stdout } = await inRoot(root, 'check', '--json', 'jobs-waiting', 'tier-overdue');
  expect(status).toBe(1);
  expect(JSON.parse(stdout)).toEqual({
    status: 'warning',
    checks: [
      { code: 'tier-overdue', status: 'ok', subject: 'tiers', message: '1 tier is called as expected', hint: null },
      {
        code: 'jobs-waiting',
        status: 'warning',
        subject: 'queue',
        message: '1 job is due, most of them mail (1)',
        hint: expect.stringContaining('run more of them'),
      },
    ],
  });
});

// It takes a log that is ruined, as a file can be.
testOfSqlite('3 where nothing is known: no log, one that cannot be read, wrong settings, wrong use', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': 'true\n' });
  const unknown = async (...args: string[]) => {
    const { status, stdout, stderr } = await inRoot(root, 'check', ...args);
    expect(status).toBe(3);
    return (stdout + stderr).split('\n')[0];
  };
  expect(await unknown()).toMatch(
    /^RUNNER UNKNOWN - could not be checked: nothing has run here yet, so there is no log/,
  );
  expect(await unknown('disk-ful')).toBe('RUNNER UNKNOWN - There is no check "disk-ful"; did you mean disk-full?');
  expect(await unknown('--jso')).toContain('Unknown option --jso');
  const { log } = await (async () => ({ log: await writeLog(root) }))();
  await log.store.close();
  writeFileSync(log.state.database, 'no database at all, but long enough to look like one');
  expect(await unknown('--json')).toBe('{');
  expect(await unknown()).toMatch(/^RUNNER UNKNOWN - could not be checked: /);
  writeFileSync(join(root, 'runner.config.json'), '{ "checks": { "jobsLate": "soon" } }');
  expect(await unknown()).toMatch(/^RUNNER UNKNOWN - .*runner\.config\.json.*checks\.jobsLate.*true or false/);
});

test('it changes nothing', async () => {
  const { root, log } = await open();
  await log.store.close();
  const rows = () =>
    ['workers', 'jobs', 'runs', 'events', 'chores', 'incidents', 'deliveries', 'metrics', 'deviations'].map((table) =>
      queryLog(root, `select * from ${table}`),
    );
  const found = rows();
  await inRoot(root, 'check');
  expect(rows()).toEqual(found);
});
