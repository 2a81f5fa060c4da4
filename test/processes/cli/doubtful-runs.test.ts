import { rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { inRoot, jsonOf } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const DOUBT = 'exit code 0, but its output tells of a failure: ';

const config = JSON.stringify({ env: { PATH: '/usr/bin:/bin' } });

test('a run that exits 0 though its output tells of a failure is shown everywhere, and mailed once until it is over', async () => {
  const root = makeTemporaryRoot({
    'runner.config.json': config,
    'jobs/hourly/backup.sh': 'no-such-dump shop > "$RUNNER_TMPDIR/dump"\necho packed\n',
    'jobs/hourly/fine.sh': 'true\n',
  });
  const warning = expect.stringMatching(
    /^exit code 0, but its output tells of a failure: \S+backup\.sh: (?:line )?1: no-such-dump: (?:command )?not found; no-such-dump is not installed, or not on the PATH of scripts \(\/usr\/bin:\/bin\)$/,
  );
  const first = await inRoot(root, 'hourly');
  expect(first).toMatchObject({ status: 0, stdout: '' });
  const [head, mailed, ...more] = first.stderr.split('\n\n');
  expect({ head, more }).toEqual({
    head: `runner: 1 of 2 scripts of hourly succeeded with a warning (${root} on ${hostname()})`,
    more: [],
  });
  expect(mailed).toMatch(new RegExp(`^hourly/backup succeeded after \\d+ms: ${DOUBT}`));
  expect(mailed).toMatch(/ {2}\| packed\n {2}full output: cd \/.* && npx folder-runner show \d/);
  expect((await inRoot(root, 'hourly')).stderr).toBe('');

  const run = expect.objectContaining({ outcome: 'succeeded', reason: null, warning, suspect: true });
  const { runs } = jsonOf(await inRoot(root, 'report', 'hourly/backup', '--json'));
  expect(runs).toEqual([run, run]);
  expect(jsonOf(await inRoot(root, 'show', '1', '--json'))).toEqual(run);
  const overview = jsonOf(await inRoot(root, 'report', '--json'));
  expect(overview.scripts[0]?.lastRun).toEqual(run);
  const { incidents } = jsonOf(await inRoot(root, 'incidents', '--json'));
  expect(incidents).toMatchObject([
    { subject: 'hourly/backup', code: 'script-suspect', severity: 'warning', occurrences: 2, error: warning },
  ]);
  for (const command of ['report', 'status', 'incidents', 'why hourly/backup', 'show 1', 'report --csv', 'check']) {
    const { stdout } = await inRoot(root, ...command.split(' '));
    expect.soft(stdout.replace(/\s+/g, ' '), command).toContain('exit code 0, but');
  }

  const shown = async (...args: string[]) => (await inRoot(root, ...args)).stdout.split('\n');
  expect((await shown('show', '1'))[0]).toMatch(/^hourly\/backup · run 1 · succeeded \(warning\)$/);
  expect(await shown('report')).toEqual(
    expect.arrayContaining([
      expect.stringMatching(/^hourly · every hour · last pass .* · 2 succeeded \(1 with a warning\) in /),
      expect.stringMatching(/^ {2}backup .* succeeded \(warning\) /),
      expect.stringMatching(/^ {2}fine .* succeeded {2,}/),
    ]),
  );
  expect(overview.tiers[0]?.lastPass).toMatchObject({ succeeded: 2, withWarning: 1 });
  const [, , titles, newest] = await shown('report', 'hourly/backup');
  expect({ titles, newest }).toEqual({
    titles: expect.stringMatching(/^run .* why$/),
    newest: expect.stringMatching(/ succeeded \(warning\) .* warning: \S/),
  });
  expect((await shown('activity')).filter((line) => / finished +warning: \S+/.test(line))).toHaveLength(2);
  const { activity } = jsonOf(await inRoot(root, 'activity', '--json'));
  const ends = activity.filter(({ event }: { event: string }) => event === 'job-finished');
  expect(ends.map((end: { name: string; warning: string }) => [end.name, end.warning])).toEqual([
    ['hourly/fine', null],
    ['hourly/backup', warning],
    ['hourly/fine', null],
    ['hourly/backup', warning],
  ]);

  const costs = (await shown('metrics')).join('\n');
  expect(costs).toMatch(/^script +runs +failed +warned +p50 /m);
  expect(costs).toMatch(/^hourly\/backup +2 +0 +2 /m);
  expect((await shown('metrics', 'hourly/backup')).join('\n')).toMatch(/ runs +failed +warned +p50 /);
  expect((await shown('metrics', 'hourly/fine')).join('\n')).toMatch(/ runs +failed +p50 /);
  const told = queryLog<{ warning: string | null }>(
    root,
    `select warning from activity where event = 'job-finished' order by run_id`,
  );
  expect(told.map((row) => row.warning)).toEqual([warning, null, warning, null]);
  const prometheus = await shown('metrics', '--prometheus');
  expect(prometheus.filter((line) => line.startsWith('runner_last_run_warned'))).toEqual([
    'runner_last_run_warned{script="hourly/backup"} 1',
    'runner_last_run_warned{script="hourly/fine"} 0',
  ]);

  writeFileSync(join(root, 'jobs/hourly/backup.sh'), 'echo packed\n');
  const over = await inRoot(root, 'hourly');
  expect(over.stderr).toMatch(/\nhourly\/backup succeeds without a warning, after 2 warnings since \d+ \S+ \S+\n$/);
  expect((await inRoot(root, 'hourly')).stderr).toBe('');
});

test('its end is told, and it may begin again; a failure in between is a failure', async () => {
  const root = makeTemporaryRoot({ 'runner.config.json': config, 'jobs/hourly/a.sh': 'no-such-program; true\n' });
  const writes = (text: string) => writeFileSync(join(root, 'jobs/hourly/a.sh'), text);
  expect((await inRoot(root, 'hourly')).stderr).toContain('succeeded after');
  writes('echo broken\nexit 3\n');
  const failed = await inRoot(root, 'hourly');
  expect(failed).toMatchObject({ status: 1, stderr: expect.stringContaining('exit code 3') });
  writes('true\n');
  const over = (await inRoot(root, 'hourly')).stderr;
  expect(over).toContain('hourly/a succeeds without a warning, after 1 warning since');
  expect(over).toContain('hourly/a succeeds again, after 1 failure since');
  writes('no-such-program; true\n');
  expect((await inRoot(root, 'hourly')).stderr).toContain('succeeded after');
});

test('`check` warns of it until it is over, for as long as its script is there', async () => {
  const root = makeTemporaryRoot({
    'runner.config.json': config,
    'jobs/hourly/a.sh': 'no-such-program; true\n',
    'jobs/queue/mail.sh': 'no-such-mailer; true\n',
  });
  const check = async () => {
    const { status, stdout } = await inRoot(root, 'check', 'script-suspect');
    return { status, text: stdout.replace(/\s+/g, ' ') };
  };
  await inRoot(root, 'hourly');
  expect(await check()).toEqual({
    status: 1,
    text: expect.stringMatching(
      /^RUNNER WARNING - hourly\/a succeeded with a warning \d+m?s ago: exit code 0, but .* → Run `npx folder-runner show 1`; if/,
    ),
  });
  await inRoot(root, 'hourly');
  await inRoot(root, 'add', 'mail');
  await inRoot(root, 'work');
  const { text: both } = await check();
  expect(both).toContain('hourly/a succeeded with a warning 2 times, since ');
  expect(both).toContain('queue/mail succeeded with a warning ');
  rmSync(join(root, 'jobs/queue/mail.sh'));
  writeFileSync(join(root, 'runner.config.json'), '{ "checks": { "scriptSuspect": 3 } }');
  expect((await check()).status).toBe(0);
  writeFileSync(join(root, 'runner.config.json'), config);
  expect((await check()).text).not.toContain('queue/mail');
  writeFileSync(join(root, 'jobs/hourly/a.sh'), 'true\n');
  await inRoot(root, 'hourly');
  expect(await check()).toMatchObject({
    status: 0,
    text: expect.stringContaining('no script succeeded with a warning'),
  });
});

test('a pass with a failure and a warning tells of both in one line', async () => {
  const root = makeTemporaryRoot({
    'runner.config.json': config,
    'jobs/hourly/a.sh': 'no-such-program; true\n',
    'jobs/hourly/b.sh': 'exit 3\n',
  });
  expect((await inRoot(root, 'hourly')).stderr.split('\n')[0]).toBe(
    `runner: 1 of 2 scripts of hourly did not succeed, 1 succeeded with a warning (${root} on ${hostname()})`,
  );
});

test('@expect makes of it a failure, which is mailed as such', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '# @expect packed\necho begun\n' });
  const { status, stderr } = await inRoot(root, 'hourly');
  expect(status).toBe(1);
  expect(stderr).toContain('hourly/a failed after');
  expect(stderr).toContain('exit code 0, but no line of its output matches @expect packed');
});

test('`list` names a script that keeps its output to itself', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': '# comment >> log 2>&1\necho a\nphp x.php >> "$HOME/my.log" 2>&1\n',
    'jobs/hourly/b.sh': 'exec >> /tmp/b.log 2>&1\necho b\n',
    'jobs/hourly/c.sh':
      'command -v php >/dev/null 2>&1 || exit 0\nmysqldump shop > dump.sql\nexec 9> lock\necho a >&2\n',
    'jobs/hourly/d.sh': 'nohup php daemon.php >> d.log 2>&1 &\n',
  });
  const { tiers } = jsonOf(await inRoot(root, 'list', '--json'));
  const warnings = Object.fromEntries(
    (tiers[0]?.scripts ?? []).map(({ script, warnings: found }: { script: string; warnings: string[] }) => [
      script,
      found,
    ]),
  );
  expect(warnings).toEqual({
    'hourly/a': [expect.stringMatching(/^jobs\/hourly\/a\.sh:3: >> "\$HOME\/my\.log" 2>&1 /)],
    'hourly/b': [expect.stringMatching(/^jobs\/hourly\/b\.sh:1: >> \/tmp\/b\.log /)],
    'hourly/c': [],
    'hourly/d': [],
  });
});
