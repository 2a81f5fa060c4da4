import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { callCommand, type Ended } from '../../support/command.ts';
import { type FakeCrontab, makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';

const script = 'console.log(1)';
const leavesFile = "import { writeFileSync } from 'node:fs'; writeFileSync('was-here', '');";
const usual = {
  'jobs/15min/a.mjs': script,
  'jobs/hourly/b.mjs': script,
  'jobs/daily/c.mjs': script,
  'jobs/manual/d.mjs': script,
};

const cron = (root: string, args: readonly string[], crontab: FakeCrontab): Promise<Ended> =>
  callCommand(['cron', ...args], { cwd: root, env: crontab.env });

test('--print writes the block to paste, with a line for each tier that has a period', async () => {
  const root = realpathSync(makeTemporaryRoot(usual));
  const crontab = makeFakeCrontab();
  const { status, stdout } = await cron(root, ['--print'], crontab);
  expect(status).toBe(0);
  const lines = stdout.split('\n').filter((line) => /^\d/.test(line));
  const script = join(crontab.env.HOME as string, '.folder-runner/cron');
  const ends = ['15min', 'hourly', 'daily'].map((tier) =>
    expect.stringMatching(RegExp(` sh ${script} ${tier} ${root}$`)),
  );
  expect(lines).toEqual(ends);
  expect(existsSync(script)).toBe(true);
  expect(stdout).toMatch(/^# BEGIN folder-runner [\s\S]*# END folder-runner .*\n$/);
});

test.each([
  ['', 'Cron mails failures to your account here; a line MAILTO=me@example.org above these sends them elsewhere.'],
  ['MAILTO=me@exämple.org\n', 'Cron mails failures to me@exämple.org.'],
  ['MAILTO=""\n', 'MAILTO is empty above these lines: cron mails no failures.'],
])('--install below %j says to whom cron mails failures', async (above, said) => {
  const crontab = makeFakeCrontab();
  crontab.write(above);
  const { status, stdout } = await cron(makeTemporaryRoot(usual), ['--install'], crontab);
  expect(status).toBe(0);
  expect(stdout.split('\n')).toContain(said);
});

test('what this shell knows of a database, and cron does not, is said without its address', async () => {
  const root = makeTemporaryRoot(usual);
  const crontab = makeFakeCrontab();
  const env = { ...crontab.env, RUNNER_DATABASE_URL: 'mysql://a:secret@h/d', RUNNER_HOST: 'web1' };
  const print = async () => (await callCommand(['cron', '--print'], { cwd: root, env })).stderr;
  const told = /^Note: cron does not know RUNNER_DATABASE_URL and RUNNER_HOST, which are set here: write it into/m;
  expect(await print()).toMatch(told);
  expect(await print()).not.toContain('secret');
  crontab.write(Buffer.from('RUNNER_HOST=web1\n'));
  expect(await print()).toMatch(/^Note: cron does not know RUNNER_DATABASE_URL, which is set here/m);
  crontab.write(Buffer.from('RUNNER_HOST=web1\nRUNNER_DATABASE_URL=mysql://a:secret@h/d\n'));
  expect(await print()).not.toContain('cron does not know');
});

test('--install adds the block once, --remove takes it out, and the rest stays as it was', async () => {
  const root = makeTemporaryRoot(usual);
  const crontab = makeFakeCrontab();
  const mine = Buffer.from('MAILTO=me\r\n\n# caf\xe9\n0 1 * * * date +\\%F\n', 'latin1');
  crontab.write(mine);

  const first = await cron(root, ['--install'], crontab);
  expect(first.stdout).toContain('Your crontab now has these lines');
  const installed = crontab.read();
  expect(installed?.subarray(0, mine.length)).toEqual(mine);

  const second = await cron(root, ['--install'], crontab);
  expect(second.stdout).toContain('Your crontab already had these lines');
  expect(crontab.read()).toEqual(installed);

  const removed = await cron(root, ['--remove'], crontab);
  expect(removed.stdout).toContain('The lines were removed from your crontab');
  expect(crontab.read()).toEqual(mine);
  expect([first.status, second.status, removed.status]).toEqual([0, 0, 0]);
});

test('--remove without lines in the crontab says so', async () => {
  const { status, stdout } = await cron(makeTemporaryRoot(usual), ['--remove'], makeFakeCrontab());
  expect(status).toBe(0);
  expect(stdout).toContain('There were no lines in your crontab');
});

test('--tiers chooses the tiers, and installing again with others replaces them', async () => {
  const root = makeTemporaryRoot(usual);
  const crontab = makeFakeCrontab();
  await cron(root, ['--install', '--tiers', 'hourly, daily'], crontab);
  expect(crontab.read()?.toString()).toMatch(/ hourly \S+\n.* daily \S+\n# END/);
  await cron(root, ['--install', '--tiers', '15min'], crontab);
  expect(crontab.read()?.toString()).toMatch(/--install --tiers 15min`.*\n[^\n]* 15min \S+\n# END/);
});

test.each([
  ['hourle', /no tier "hourle".*hourly/],
  ['manual', /"manual" has no period/],
  [' , ', /names no tier/],
])('--tiers %j is refused in a sentence', async (tiers, sentence) => {
  const { status, stderr } = await cron(makeTemporaryRoot(usual), ['--print', '--tiers', tiers], makeFakeCrontab());
  expect(status).toBe(2);
  expect(stderr).toMatch(sentence);
  expect(stderr.trim()).not.toContain('\n');
});

test('a root without a tier that has a period has nothing for cron', async () => {
  const root = makeTemporaryRoot({ 'jobs/manual/d.mjs': script });
  const { status, stderr } = await cron(root, ['--print'], makeFakeCrontab());
  expect(status).toBe(2);
  expect(stderr).toMatch(/has a period for a name.*runner init/);
});

test('without a crontab program the lines to paste are printed, and the exit code is 2', async () => {
  const root = makeTemporaryRoot(usual);
  const env = { PATH: '/nowhere', HOME: root };
  const { status, stdout, stderr } = await callCommand(['cron', '--install'], { cwd: root, env });
  expect(status).toBe(2);
  expect(stderr).toMatch(/no `crontab` program here.*paste these lines/);
  expect(stdout).toMatch(/^# BEGIN [\s\S]* 15min \S+\n[\s\S]* hourly \S+\n[\s\S]* daily \S+\n# END /);
});

test('a root that no crontab line can hold is refused in a sentence', async () => {
  const root = makeTemporaryRoot({ 'new\nline/jobs/hourly/a.mjs': script });
  const { status, stderr } = await cron(root, ['--root', 'new\nline', '--print'], makeFakeCrontab());
  expect(status).toBe(2);
  expect(stderr).toMatch(/holds a newline or another control character/);
});

test('two ways at once, or --tiers alone, are wrong use', async () => {
  const root = makeTemporaryRoot(usual);
  const crontab = makeFakeCrontab();
  expect((await cron(root, ['--install', '--remove'], crontab)).status).toBe(2);
  expect((await cron(root, ['--remove', '--tiers', 'hourly'], crontab)).status).toBe(2);
  expect(await cron(root, ['--tiers', 'hourly'], crontab)).toMatchObject({
    status: 2,
    stderr: expect.stringContaining('--tiers needs --print, --install or --import --apply'),
  });
});

const ofLines = [['--due'], ['--no-due'], ['--tiers', 'hourly'], ['--work'], ['--no-work'], ['--budget', '5m']];
const ofImport = [['--apply'], ['--json'], ['--format', 'crontab']];

test.each([
  ...ofLines.flatMap((option) => [[], ['--import'], ['--remove'], ['--undo']].map((mode) => [...mode, ...option])),
  ...ofImport.flatMap((option) =>
    [[], ['--print'], ['--install'], ['--remove'], ['--undo']].map((mode) => [...mode, ...option]),
  ),
])('%s %s is refused: no option goes unheard', async (...args) => {
  const crontab = makeFakeCrontab();
  crontab.write('@daily true\n');
  const option = args.find((arg) => !/^--(?:print|install|remove|undo|import)$/.test(arg)) as string;
  const { status, stdout, stderr } = await cron(makeTemporaryRoot(usual), args, crontab);
  expect({ status, stdout, stderr }).toEqual({ status: 2, stdout: '', stderr: expect.stringContaining(option) });
  expect(stderr.match(/\n/g)).toHaveLength(1);
  expect(crontab.read()?.toString()).toBe('@daily true\n');
});

test('a line of the block runs its tier in a bare environment from another folder', async () => {
  const root = makeTemporaryRoot({ "it's 100%/jobs/hourly/leaves-a-file.mjs": leavesFile });
  const place = { cwd: join(root, "it's 100%"), env: { ...makeFakeCrontab().env, HOME: root } };
  const { stdout } = await callCommand(['cron', '--print'], place);
  const line = stdout.split('\n').find((each) => /^\d/.test(each)) ?? '';
  const command = line.split(' ').slice(5).join(' ').replaceAll('\\%', '%');
  const ended = spawnSync('/bin/sh', ['-c', command], {
    cwd: '/',
    env: { HOME: root, LOGNAME: 'visitor', SHELL: '/bin/sh', PATH: '/usr/bin:/bin' },
    encoding: 'utf8',
  });
  expect(ended).toMatchObject({ status: 0, stdout: '', stderr: '' });
  expect(existsSync(join(root, "it's 100%", 'was-here'))).toBe(true);
});

test('--due writes one line for all tiers, as often as the most frequent one', async () => {
  const root = realpathSync(makeTemporaryRoot(usual));
  const crontab = makeFakeCrontab();
  const { status, stdout } = await cron(root, ['--print', '--due', '--budget', '55s'], crontab);
  expect(status).toBe(0);
  const lines = stdout.split('\n').filter((line) => /^\d/.test(line));
  expect(lines).toEqual([expect.stringMatching(/^\d+-59\/15 \* \* \* \* sh \S+\/cron due \S+ --budget 55s$/)]);
});

test('the line that --due installs calls the tiers, which begin with their next period', async () => {
  const root = realpathSync(makeTemporaryRoot({ ...usual, 'jobs/daily/c.mjs': leavesFile }));
  const crontab = makeFakeCrontab();
  expect((await cron(root, ['--install', '--due'], crontab)).status).toBe(0);
  const [, command = ''] = /^[^#]\S* \S+ \S+ \S+ \S+ (.+)$/m.exec(String(crontab.read())) ?? [];
  const env = { HOME: root, PATH: '/usr/bin:/bin' };
  const { status } = spawnSync('/bin/sh', ['-c', command], { cwd: '/', env });
  expect(status).toBe(0);
  expect(existsSync(join(root, '.runner/activity.db'))).toBe(true);
  expect(existsSync(join(root, 'was-here'))).toBe(false);
});

describe('--work', () => {
  const workOf = (crontab: FakeCrontab) =>
    /^(\S+) \* \* \* \* .* work \S+ --for (\w+)$/m.exec(String(crontab.read()))?.slice(1) ?? null;

  test.each([
    [['--work'], '\\*', '55s'],
    [['--work', '15m'], '\\d+-59/15', '14m'],
    [['--due', '--work=5m'], '\\d-59/5', '275s'],
    [['--tiers', 'daily', '--work', '1h'], '\\d+', '59m'],
  ])('with %j one more line processes the queue', async (args, minutes, life) => {
    const root = realpathSync(makeTemporaryRoot(usual));
    const plain = args.filter((arg) => !arg.startsWith('--work') && !/^\d/.test(arg));
    const crontab = makeFakeCrontab();
    const without = (await cron(root, ['--print', ...plain], crontab)).stdout.split('\n');
    const { status, stdout } = await cron(root, ['--print', ...args], crontab);
    expect(status).toBe(0);
    const added = stdout.split('\n').filter((line) => !without.includes(line));
    expect(added).toEqual([
      expect.stringMatching(new RegExp(`^${minutes} \\* \\* \\* \\* sh .* work ${root} --for ${life}$`)),
    ]);
  });

  test('its line works jobs off in a bare environment', async () => {
    const root = realpathSync(makeTemporaryRoot({ ...usual, 'jobs/queue/leave.mjs': 'export default () => {};' }));
    const place = { cwd: root, env: makeFakeCrontab().env };
    await callCommand(['add', 'leave'], place);
    const crontab = makeFakeCrontab();
    const { stdout } = await cron(root, ['--print', '--work'], crontab);
    const line = stdout.split('\n').find((each) => each.includes(' work ')) ?? '';
    const command = line.split(' ').slice(5).join(' ').replace('--for 55s', '--max-jobs 1');
    const env = { HOME: root, LOGNAME: 'visitor', SHELL: '/bin/sh', PATH: '/usr/bin:/bin' };
    const ended = spawnSync('/bin/sh', ['-c', command], { cwd: '/', env, encoding: 'utf8' });
    expect(ended).toMatchObject({ status: 0, stdout: '', stderr: '' });
    expect((await callCommand(['jobs', '--state', 'finished'], place)).stdout).toContain('leave');
  });

  test('an installed line stays when the lines are written anew, until it is taken out', async () => {
    const root = makeTemporaryRoot(usual);
    const crontab = makeFakeCrontab();
    await cron(root, ['--install', '--work', '15m'], crontab);
    const installed = String(crontab.read());
    expect((await cron(root, ['--install'], crontab)).stdout).toMatch(/ work \S+ --for 14m\n/);
    expect(String(crontab.read())).toBe(installed);
    await cron(root, ['--install', '--due'], crontab);
    expect(workOf(crontab)).toEqual([expect.stringMatching(/^\d+-59\/15$/), '14m']);
    await cron(root, ['--install', '--work'], crontab);
    expect(workOf(crontab)).toEqual(['*', '55s']);
    await cron(root, ['--install'], crontab);
    expect(workOf(crontab)).toEqual(['*', '55s']);
    await cron(root, ['--install', '--work', '1h'], crontab);
    await cron(root, ['--install'], crontab);
    expect(workOf(crontab)).toEqual([expect.stringMatching(/^\d+$/), '59m']);
    await cron(root, ['--install', '--no-work'], crontab);
    expect(workOf(crontab)).toBeNull();
    await cron(root, ['--install'], crontab);
    expect(workOf(crontab)).toBeNull();
  });

  test('a line of another root, or outside the block, is not taken for an installed one', async () => {
    const root = makeTemporaryRoot(usual);
    const crontab = makeFakeCrontab();
    await cron(makeTemporaryRoot(usual), ['--install', '--work'], crontab);
    await cron(root, ['--install'], crontab);
    crontab.write(`${crontab.read()}* * * * * node bin.cjs --root ${root} work --for 55s\n`);
    expect((await cron(root, ['--install'], crontab)).stdout).not.toContain(' work ');
  });

  test('--remove takes it out with the others', async () => {
    const root = makeTemporaryRoot(usual);
    const crontab = makeFakeCrontab();
    crontab.write('MAILTO=me\n');
    await cron(root, ['--install', '--work'], crontab);
    await cron(root, ['--remove'], crontab);
    expect(String(crontab.read())).toBe('MAILTO=me\n');
  });

  test('a root with a queue and no tier for cron gets that line alone', async () => {
    const root = makeTemporaryRoot({ 'jobs/queue/a.mjs': script });
    const crontab = makeFakeCrontab();
    expect((await cron(root, ['--install', '--work'], crontab)).status).toBe(0);
    const installed = String(crontab.read());
    expect(installed.match(/^[*\d].*$/gm)).toEqual([expect.stringMatching(/ work \S+ --for 55s$/)]);
    expect((await cron(root, ['--install'], crontab)).status).toBe(0);
    expect(String(crontab.read())).toBe(installed);
    expect((await cron(root, ['--print', '--due', '--work'], crontab)).status).toBe(2);
  });

  test.each([
    [['--print', '--work', '7m'], 'found "7m"'],
    [['--print', '--work', '90s'], '--work must be the time between two workers'],
    [['--print', '--work', '2h'], 'such as 1m, 5m, 15m or 1h'],
    [['--print', '--work', 'often'], 'found "often"'],
    [['--work'], '--work needs --print, --install or --import --apply'],
    [['--no-work'], '--no-work needs --print, --install or --import --apply'],
    [['--remove', '--work'], '--remove removes all lines of the root; leave out --work.'],
  ])('%j is refused: %s', async (args, sentence) => {
    const { status, stdout, stderr } = await cron(makeTemporaryRoot(usual), args, makeFakeCrontab());
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toContain(sentence);
  });
});

test.each([
  [['--print', '--budget', '55s'], '--budget needs --due beside it'],
  [['--print', '--due', '--budget', 'soon'], '--budget must be a duration'],
  [['--due'], '--due needs --print, --install or --import --apply'],
  [['--remove', '--due'], 'leave out --due'],
  [['--print', '--due', '--tiers', 'hourly'], '--due and --tiers cannot be combined'],
])('%j is refused: %s', async (args, sentence) => {
  const { status, stderr } = await cron(makeTemporaryRoot(usual), args, makeFakeCrontab());
  expect(status).toBe(2);
  expect(stderr).toContain(sentence);
});

describe('a root that is gone', () => {
  test('has its lines taken out, and is named until then', async () => {
    const site = realpathSync(makeTemporaryRoot({ 'old/jobs/hourly/a.mjs': script, 'new/jobs/hourly/a.mjs': script }));
    const [old, moved] = [join(site, 'old'), join(site, 'new')];
    const crontab = makeFakeCrontab();
    crontab.write('MAILTO=me\n');
    await cron(old, ['--install'], crontab);
    rmSync(old, { recursive: true });
    const note =
      `Note: your crontab still calls ${old}, which has no jobs folder any more: ` +
      `\`npx folder-runner cron --remove --root ${old}\` takes these lines out.\n`;
    for (const args of [['--print'], ['--install'], []]) {
      expect((await cron(moved, args, crontab)).stderr).toBe(note);
    }
    const installed = String(crontab.read());
    expect(await cron(moved, ['--remove', '--root', old], crontab)).toEqual({
      status: 0,
      stdout: `The lines were removed from your crontab for ${old}.\n`,
      stderr: '',
    });
    expect(installed).toContain(`# BEGIN folder-runner ${old}\n`);
    expect(String(crontab.read())).toMatch(/^MAILTO=me\n# BEGIN folder-runner \S+new\n/);
    expect(String(crontab.read())).not.toContain(old);
    expect((await cron(moved, ['--print'], crontab)).stderr).toBe('');
  });
});

test('lines keep their minutes when other tiers come and go', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.mjs': script, 'jobs/20min/a.mjs': script });
  const crontab = makeFakeCrontab();
  await cron(root, ['--install'], crontab);
  const first = String(crontab.read()).match(/^\d.*$/gm) ?? [];
  for (const tier of ['5min', '10min', 'daily', '2hours']) mkdirSync(join(root, 'jobs', tier));
  await cron(root, ['--install'], crontab);
  const second = String(crontab.read()).match(/^\d.*$/gm) ?? [];
  expect(second).toHaveLength(6);
  expect(second).toEqual(expect.arrayContaining(first));
  expect((await cron(root, ['--print'], crontab)).stdout.match(/^\d.*$/gm)).toEqual(second);
});

test('folders that no line can call are named', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.mjs': script,
    'jobs/15mins/b.mjs': script,
    'jobs/by-hand/c.mjs': script,
  });
  const notes = (await cron(root, ['--print'], makeFakeCrontab())).stderr;
  expect(notes).toBe('Note: jobs/15mins is not a schedule name, so cron never runs it; did you mean 15min?\n');
  const alone = await cron(makeTemporaryRoot({ 'jobs/week/a.mjs': script }), ['--install'], makeFakeCrontab());
  expect(alone).toMatchObject({ status: 2, stderr: expect.stringContaining('Did you mean weekly by jobs/week?') });
});

test('what was chosen stays until an option changes it, and what goes is shown', async () => {
  const root = makeTemporaryRoot(usual);
  const crontab = makeFakeCrontab();
  const linesOf = () => String(crontab.read()).match(/^[*\d].*$/gm) ?? [];
  await cron(root, ['--install', '--due', '--budget', '55s'], crontab);
  const due = linesOf();
  expect((await cron(root, ['--install'], crontab)).stdout).toContain('Your crontab already had these lines');
  expect(linesOf()).toEqual(due);
  const changed = await cron(root, ['--install', '--no-due'], crontab);
  expect(changed.stdout).toContain(`This line was taken out or replaced:\n\n  ${due[0]}\n`);
  expect(linesOf()).toHaveLength(3);
  await cron(root, ['--install', '--tiers', 'daily'], crontab);
  const { stderr } = await cron(root, ['--install'], crontab);
  expect(linesOf()).toEqual([expect.stringMatching(/ daily \S+$/)]);
  expect(stderr).toBe(
    'Note: no line calls 15min, hourly, as --tiers daily was chosen: ' +
      '`npx folder-runner cron --install --tiers all` writes a line for each tier.\n',
  );
  await cron(root, ['--install', '--tiers', 'all'], crontab);
  expect(linesOf()).toHaveLength(3);
});

test('a link stays as it was named, and its releases are no sites of their own', async () => {
  const site = realpathSync(makeTemporaryRoot({ '1/jobs/hourly/a.mjs': script, '2/jobs/hourly/a.mjs': script }));
  const crontab = makeFakeCrontab();
  const current = join(site, 'current');
  symlinkSync('1', current);
  await cron(join(site, '1'), ['--install'], crontab);
  const { stderr } = await cron(site, ['--root', 'current', '--install'], crontab);
  expect(String(crontab.read())).toMatch(new RegExp(` hourly ${current}$`, 'm'));
  expect(stderr).toContain(
    `Note: your crontab also calls ${site}/1, which is the same site as ${current}, so that its`,
  );
  expect(stderr).toContain(`Note: ${current} is a link: when it leads to another release one day, the log`);
  rmSync(current);
  symlinkSync('2', current);
  symlinkSync('../state', join(site, '2/.runner'));
  const switched = await cron(site, ['--root', 'current', '--install'], crontab);
  expect(switched.stdout).toContain('Your crontab already had these lines');
  expect(switched.stderr).toContain(`also calls ${site}/1`);
  expect(switched.stderr).not.toContain('is a link');
});
