import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { inRoot, jsonOf } from '../../support/command.ts';
import { runAt } from '../../support/faults/faults.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const FAILS = 'echo no route\nexit 3\n';

/** A root whose script lab/fail has failed, and cron was told of it. */
async function makeFailed(files: Readonly<Record<string, string>> = {}): Promise<string> {
  const root = makeTemporaryRoot({ 'jobs/lab/fail.sh': FAILS, 'jobs/hourly/ok.sh': 'true\n', ...files });
  expect((await inRoot(root, 'lab')).stderr).toContain('lab/fail failed after');
  return root;
}

type Change = (root: string) => unknown;

const changes: readonly (readonly [what: string, change: Change, reason: string])[] = [
  ['deleted', (root) => rmSync(join(root, 'jobs/lab/fail.sh')), 'jobs/lab has no script of that name any more'],
  [
    'renamed',
    (root) => renameSync(join(root, 'jobs/lab/fail.sh'), join(root, 'jobs/lab/other.sh')),
    'jobs/lab has no script of that name any more',
  ],
  [
    'moved to another tier',
    (root) => renameSync(join(root, 'jobs/lab/fail.sh'), join(root, 'jobs/yearly.sh')),
    'jobs/lab has no script of that name any more',
  ],
  ['disabled', (root) => inRoot(root, 'disable', 'lab/fail'), 'it is disabled'],
  [
    'sent to another host',
    (root) => writeFileSync(join(root, 'jobs/lab/fail.sh'), `# @host web-9\n${FAILS}`),
    'it runs on web-9; this is ',
  ],
  ['removed with its tier', (root) => rmSync(join(root, 'jobs/lab'), { recursive: true }), 'jobs/lab does not exist'],
];

test.each(changes)('an incident ends, told once, when its script is %s', async (_, change, reason) => {
  const root = await makeFailed();
  await change(root);
  expect((await inRoot(root, 'check', 'script-failing')).status).toBe(0);
  const { status, stderr } = await inRoot(root, 'hourly');
  expect(status).toBe(0);
  expect(stderr).toMatch(/^runner: failures and recoveries \(.*\)\n\nlab\/fail: gone: .*, after 1 failure since /);
  expect(stderr).toContain(`gone: ${reason}`);
  expect(await inRoot(root, 'hourly')).toMatchObject({ status: 0, stderr: '' });
  expect((await inRoot(root, 'incidents')).stdout).toBe('Nothing is wrong, as far as runs and checks tell.\n');
  expect((await inRoot(root, 'incidents', '--all')).stdout).toMatch(/#1 lab\/fail · 1 failure since .* · gone since /);
  expect(jsonOf(await inRoot(root, 'incidents', '--all', '--json'))).toMatchObject({
    incidents: [{ ending: 'gone', hint: expect.stringContaining(reason), recoveredAt: expect.any(String) }],
  });
});

test('no later call tells of a script that was deleted: a day, two days, years after its failure', async () => {
  const root = await makeFailed();
  rmSync(join(root, 'jobs/lab'), { recursive: true });
  const hour = 3_600_000;
  const said: string[] = [];
  for (const hours of [1, 25, 50, 24_000]) {
    const time = new Date(Date.now() + hours * hour).toISOString().slice(0, 16).replace('T', ' ');
    said.push(...((await runAt(root, time, 'hourly')).stderr.match(/^.*lab\/fail.*$/gm) ?? []));
    expect((await runAt(root, time, 'status')).stdout).not.toContain('lab/fail');
  }
  expect(said).toEqual([
    expect.stringMatching(/^lab\/fail: gone: jobs\/lab does not exist any more, after 1 failure since /),
  ]);
});

test('readers show no incident of a script that is gone, before a call has noted it', async () => {
  const root = await makeFailed();
  rmSync(join(root, 'jobs/lab/fail.sh'));
  expect((await inRoot(root, 'incidents')).stdout).toBe('Nothing is wrong, as far as runs and checks tell.\n');
  expect((await inRoot(root, 'status')).stdout).not.toContain('lab/fail');
});

test('an incident stays while nobody can tell whether its script is there', async () => {
  const root = await makeFailed();
  renameSync(join(root, 'jobs/lab'), join(root, 'mounted'));
  const link = join(root, 'jobs/lab');
  // Of a disk that is away.
  const { symlinkSync } = await import('node:fs');
  symlinkSync(join(root, 'away'), link);
  expect(await inRoot(root, 'hourly')).toMatchObject({ status: 0, stderr: '' });
  rmSync(link);
  renameSync(join(root, 'mounted'), link);
  // A script that is refused, or a link that leads nowhere, is there.
  rmSync(join(link, 'fail.sh'));
  symlinkSync(join(root, 'away.sh'), join(link, 'fail.sh'));
  expect(await inRoot(root, 'hourly')).toMatchObject({ status: 0, stderr: '' });
  expect((await inRoot(root, 'incidents')).stdout).toContain('#1 lab/fail');
});

test('an incident of a handler that is gone lasts as long as failed jobs are left', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/mail.sh': FAILS, 'jobs/hourly/ok.sh': 'true\n' });
  await inRoot(root, 'add', 'mail?to=7');
  await inRoot(root, 'work');
  rmSync(join(root, 'jobs/queue/mail.sh'));
  expect(await inRoot(root, 'hourly')).toMatchObject({ stderr: '' });
  await inRoot(root, 'job', '1', 'delete');
  expect((await inRoot(root, 'hourly')).stderr).toContain('queue/mail: gone: its handler does not exist any more');
  expect((await inRoot(root, 'incidents')).stdout).toContain('Nothing is wrong');
});

test('findings of checks about a tier end with the tier', async () => {
  const root = makeTemporaryRoot({ 'jobs/15min/a.sh': 'true\n', 'jobs/hourly/ok.sh': 'true\n' });
  await inRoot(root, 'hourly');
  const { changeLog } = await import('../../support/log.ts');
  for (const code of ['tier-overdue', 'tier-skipped', 'crashes']) {
    changeLog(
      root,
      `insert into incidents (subject, code, severity, opened_at, last_at, printed_at, due_at)
       values ('15min', '${code}', 'critical', 1, 1, 1, null)`,
    );
  }
  expect((await inRoot(root, 'hourly')).stderr).toBe('');
  rmSync(join(root, 'jobs/15min'), { recursive: true });
  mkdirSync(join(root, 'jobs/weekly'));
  const { stderr } = await inRoot(root, 'hourly');
  expect(stderr.match(/^(.*): over, after .* \(15min, gone: jobs\/15min does not exist any more\)$/gm)).toHaveLength(3);
  expect((await inRoot(root, 'incidents')).stdout).toContain('Nothing is wrong');
});

test('an incident that is closed by hand is over, told once, and opens anew with the next failure', async () => {
  const root = await makeFailed();
  expect((await inRoot(root, 'incidents', 'close', '1', '2')).stderr).toContain('No open incident has the number 2');
  expect((await inRoot(root, 'incidents', 'close', 'lab/fail')).stderr).toContain(
    'close expects numbers of incidents, found "lab/fail"',
  );
  expect((await inRoot(root, 'incidents')).stdout).toContain('#1 lab/fail');
  expect((await inRoot(root, 'incidents', 'close', '1')).stdout).toBe('Closed: #1 lab/fail.\n');
  expect((await inRoot(root, 'check', 'script-failing')).status).toBe(0);
  expect((await inRoot(root, 'hourly')).stderr).toContain('lab/fail: closed by hand, after 1 failure since');
  expect(await inRoot(root, 'hourly')).toMatchObject({ stderr: '' });
  expect(queryLog(root, `select detail from events where event = 'incident-closed'`)).toEqual([
    { detail: '#1 lab/fail' },
  ]);
  expect((await inRoot(root, 'incidents', '--all')).stdout).toMatch(/#1 lab\/fail · .* · closed \d/);
  await inRoot(root, 'lab');
  const { incidents } = jsonOf(await inRoot(root, 'incidents', '--json'));
  expect(incidents).toMatchObject([{ id: 2, subject: 'lab/fail', ending: null }]);
});

test('check names the run to look at, and is no more than a warning for a tier that nobody calls', async () => {
  const root = await makeFailed({ 'jobs/hourly/bad.sh': FAILS });
  expect(await inRoot(root, 'check', 'script-failing')).toMatchObject({ status: 1 });
  await inRoot(root, 'hourly');
  const { status, stdout } = await inRoot(root, 'check', 'script-failing');
  expect(status).toBe(2);
  expect(stdout).toMatch(
    /critical +script-failing +hourly\/bad failed .* ago: exit code 3\n +→ Run `npx folder-runner show 2`\./,
  );
  expect(stdout).toMatch(/warning +script-failing +lab\/fail failed .*\n +→ Run `npx folder-runner show 1`\./);
});
