import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { callAt, commandPath, cronEnv, runCommand, runNode, runPass, runPassAgain } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

describe('under cron', () => {
  test('a pass that succeeds prints nothing at all and exits 0', () => {
    const { status, stdout, stderr, runs } = runPass({
      'a.sh': 'echo to cron; echo and this >&2\n',
      'b.ts': `console.log('text' as string);\nconsole.error('error');\n`,
      'notes.txt': 'ignored',
    });
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '', stderr: '' });
    expect(runs).toHaveLength(2);
  });

  test('an empty tier and a report load no binary for the log, unlike a pass with scripts', () => {
    const root = makeTemporaryRoot({
      'jobs/hourly/notes.txt': 'ignored',
      'jobs/daily/a.sh': 'true\n',
      'note-loaded.cjs': `process.on('exit', () => require('node:fs').writeFileSync(
        'loaded.txt', Object.keys(require.cache).join('\\n')));\n`,
    });
    const loadsBinary = (command: string): boolean => {
      const args = ['--require', './note-loaded.cjs', commandPath, command];
      expect(runNode(args, { cwd: root, env: cronEnv(root) })).toMatchObject({ status: 0 });
      return readFileSync(join(root, 'loaded.txt'), 'utf8').includes('better-sqlite3');
    };
    expect(['hourly', 'report', 'daily', 'hourly'].map(loadsBinary)).toEqual([...[false, false, true, false]]);
    // An import too many, and it loads what settles jobs, reads rules or talks to children as well.
    const loaded = readFileSync(join(root, 'loaded.txt'), 'utf8').split('\n');
    expect(loaded.reduce((sum, file) => sum + statSync(file).size, 0)).toBeLessThan(200_000);
    expect(queryLog(root, 'select tier, state from workers order by id')).toEqual(
      ['hourly', 'daily', 'hourly'].map((tier) => ({ tier, state: 'finished' })),
    );
  });

  test('exitZeroOnFailure exits 0 and still tells of the failure', () => {
    const { status, stderr } = runPass(
      { 'a.sh': 'exit 3\n' },
      { files: { 'runner.config.json': '{"exitZeroOnFailure":true}' } },
    );
    expect(status).toBe(0);
    expect(stderr).toContain('exit code 3');
  });
});

describe('wrong use exits 2 with one sentence', () => {
  const root = () => makeTemporaryRoot({ 'jobs/hourly/clean-tmp.sh': 'true\n', 'jobs/daily/b.sh': '' });

  test.for<readonly [readonly string[], RegExp]>([
    [['horly'], /^runner: There is no tier "horly" in .*\/jobs; did you mean hourly\?\n$/],
    [['nothing-like-it'], /; the tiers here are daily, hourly; `npx folder-runner --help` lists the commands\.\n$/],
    [['reprot'], /; did you mean `npx folder-runner report`\?\n$/],
    [['hourly/clean-tmp'], /; did you mean `npx folder-runner run hourly\/clean-tmp`\?\n$/],
    [['../jobs/hourly'], /There is no tier/],
    [
      ['terminate', '4711'],
      /^runner: There is no command "terminate"; did you mean `npx folder-runner stop 4711`\?\n$/,
    ],
    [['bury', '5'], /^runner: There is no command "bury"; did you mean `npx folder-runner job 5 bury`\?\n$/],
    [['finish', '5', '--result', '{}'], /did you mean `npx folder-runner job 5 finish`\?\n$/],
    [['retry'], /the tiers here are daily, hourly; did you mean `npx folder-runner job <id> retry`\?\n$/],
    [['shwo', '12', '--json'], /^runner: There is no command "shwo"; did you mean `npx folder-runner show`\?\n$/],
    [
      ['--wait', 'shwo', 'hourly'],
      /^runner: Unknown option --wait; `npx folder-runner .*--help` lists the options\.\n$/,
    ],
    [['jobs/hourly'], /^runner: There is no tier "jobs\/hourly" in .*; did you mean hourly\?\n$/],
    [['jobs/hourly/'], /; did you mean hourly\?\n$/],
    [['clean-tmp'], /; did you mean `npx folder-runner run hourly\/clean-tmp`\?\n$/],
    [['jobs/hourly/clean-tmp.sh'], /; did you mean `npx folder-runner run hourly\/clean-tmp`\?\n$/],
    [['--a\u001b[31mb\u009bc'], /^runner: Unknown option --ab; /],
    [['-x'], /^runner: Unknown option -x; `npx folder-runner --help` lists the options\.\n$/],
    [['rerun', '58'], /^runner: There is no command "rerun"; did you mean `npx folder-runner run <script>`\?\n$/],
    [['constructor'], /There is no tier "constructor"/],
    [['hourly', 'daily'], /^runner: Too many arguments: expected 1, found 2; .*\n$/],
    [['--rot', '/', 'hourly'], /^runner: Unknown option --rot; did you mean --root\?\n$/],
    [['report', '--sinse', '7d'], /^runner: Unknown option --sinse; did you mean --since\?\n$/],
    [['report', '--failed'], /^runner: Unknown option --failed; did you mean --outcome failed\?\n$/],
    [['jobs', '--failed'], /^runner: Unknown option --failed; did you mean --state failed\?\n$/],
    [
      ['report', '--nosuch'],
      /^runner: Unknown option --nosuch; `npx folder-runner report --help` lists the options\.\n$/,
    ],
    [
      ['run', 'hourly/clean-tmp', '--foo'],
      /^runner: Unknown option --foo; `npx folder-runner run --help` lists the options\. Options for the script come after `--`\.\n$/,
    ],
    [
      ['run', 'hourly/clean-tmp', '--quite'],
      /^runner: Unknown option --quite; did you mean --quiet\? Options for the script come after `--`\.\n$/,
    ],
    [['--dry-run'], /^runner: --dry-run needs a tier, such as `npx folder-runner hourly --dry-run`, or `due`\.\n$/],
    [['--json'], /^runner: --json needs --dry-run beside it; .*\n$/],
    [['help', 'nosuch'], /^runner: There is no command "nosuch"; `npx folder-runner --help` lists the commands\.\n$/],
    [['help', 'reprot'], /^runner: There is no command "reprot"; did you mean `npx folder-runner help report`\?\n$/],
    [['help', 'bury'], /^runner: There is no command "bury"; did you mean `npx folder-runner help job`\?\n$/],
    [
      ['help', 'hourly'],
      /^runner: "hourly" is a tier, not a command: `npx folder-runner hourly` runs it; `npx folder-runner --help` lists .*\n$/,
    ],
    [['run'], /^runner: Missing <script>; see `npx folder-runner run --help`\.\n$/],
    [['run', 'hourly'], /"hourly" is a tier, not a script: `npx folder-runner hourly` runs it/],
    [['run', 'hourly/clean-tpm'], /There is no script "hourly\/clean-tpm".*did you mean hourly\/clean-tmp\?/],
    [['run', 'horly/clean-tmp'], /There is no tier "horly" in .*did you mean hourly\?/],
    [['--root', '/proc', 'hourly'], /--root names \/proc, which has no jobs folder/],
  ])('%j', async ([args, message]) => {
    const folder = root();
    const { status, stdout, stderr } = await callAt(args, { cwd: folder, env: cronEnv(folder) });
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toMatch(message);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });

  test.for([
    ...[
      ['cancel 5', 'job 5 cancel'],
      ['retyr 5', 'job 5 retry'],
      ['5 bury', 'job 5 bury'],
      ['kikc 5', 'job 5 kick'],
    ],
    ...[
      ['finish abc 5', 'job 5 finish'],
      ['bury mail/welcome', 'job <id> bury'],
    ],
    ...[
      ['reprot hourly/clean', 'report'],
      ['hourly/clean now', 'run hourly/clean'],
      ['crontab -l', 'cron'],
    ],
    ...[
      ['logs nothing', 'tail <script>'],
      ['logs hourly/a', 'tail hourly/a'],
      ['log b', 'tail daily/b'],
    ],
    ...[
      ['rerun b', 'run daily/b'],
      ['retry b', 'run daily/b'],
      ['retry nothing', 'job <id> retry'],
    ],
    ...[
      ['start b', 'run daily/b'],
      ['restart jobs/daily/b.sh', 'run daily/b'],
      ['a --now later', 'run hourly/a'],
    ],
    ...[
      ['a.sh later', 'run hourly/a'],
      ['start hourly', 'hourly'],
      ['start hourly/clean', 'run hourly/clean'],
    ],
    ...[
      ['abort b', 'stop daily/b'],
      ['kill daily/b', 'stop daily/b'],
      ['terminate', 'stop <script>'],
    ],
  ])('`runner %s` is told of `runner %s`', async ([line = '', meant]) => {
    const folder = makeTemporaryRoot({ 'jobs/hourly/a.sh': '', 'jobs/daily/b.sh': '', 'jobs/reports/c.sh': '' });
    const { status, stderr } = await callAt(line.split(' '), { cwd: folder, env: cronEnv(folder) });
    expect(status).toBe(2);
    expect(stderr).toContain(`did you mean \`npx folder-runner ${meant}\`?`);
  });

  test('wrong settings are all told at once, and nothing runs', () => {
    const settings = { concurrency: 0, exitZeroOnFailure: 'maybe', tiers: { hourly: { timeout: 'x' } } };
    const folder = makeTemporaryRoot({
      'jobs/hourly/a.sh': 'touch "$RUNNER_ROOT/ran"\n',
      'runner.config.json': JSON.stringify(settings, null, 2),
    });
    const { status, stderr } = runCommand(['hourly'], { cwd: folder, env: cronEnv(folder) });
    expect(status).toBe(2);
    for (const setting of ['concurrency', 'exitZeroOnFailure', 'tiers.hourly.timeout']) {
      expect(stderr).toContain(setting);
    }
    expect(stderr).not.toMatch(/^ +at /m);
  });
});

test('a script that appears or changes is taken up by the next pass', () => {
  const { root, run } = runPass({ 'a.sh': 'echo one\n' });
  const hash = run('a').content_hash;
  writeFileSync(join(root, 'jobs/hourly/a.sh'), 'echo two\n');
  writeFileSync(join(root, 'jobs/hourly/b.sh'), 'echo new\n');
  const again = runPassAgain(root);
  expect([again.run('a').output, again.run('b').output]).toEqual(['two\n', 'new\n']);
  expect(again.run('a').content_hash).not.toBe(hash);
  expect(readFileSync(join(root, 'jobs/hourly/a.sh'), 'utf8')).toBe('echo two\n');
});
