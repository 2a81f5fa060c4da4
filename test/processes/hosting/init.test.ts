import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { findPackageFolder, startRoot } from '../../../src/commands/site/setup.ts';
import { UsageError } from '../../../src/system/base/errors.ts';
import { type Ended, runCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const packageFolder = new URL('../../..', import.meta.url).pathname;

const make = (root: string, isForced = false) => startRoot(root, join(packageFolder, 'dist'), isForced).entries;

const modeOf = (...path: string[]): number => lstatSync(join(...path)).mode & 0o777;

test('a new root has three tiers and the queue with one example each, and a state folder', () => {
  const root = join(makeTemporaryRoot(), 'deep', 'root');
  expect(make(root)).toEqual(
    [
      'jobs/15min',
      'jobs/15min/check-site.ts.disabled',
      'jobs/hourly',
      'jobs/hourly/disk-use.ts',
      'jobs/daily',
      'jobs/daily/backup-activity-log.ts',
      'jobs/queue',
      'jobs/queue/post-webhook.ts',
      '.runner',
      '.gitignore',
    ].map((path) => ({ path, state: 'created' })),
  );
  const copy = readFileSync(join(root, 'jobs/15min/check-site.ts.disabled'), 'utf8');
  expect(copy).toBe(readFileSync(join(packageFolder, 'jobs/15min/check-site.ts'), 'utf8'));
});

test('a script that sends a report by mail is made where it is asked for, and runs this command', () => {
  const root = makeTemporaryRoot({ 'jobs/weekly/mine.sh': 'true' });
  const path = 'jobs/weekly/report-by-mail.sh';
  const digest = () => startRoot(root, join(packageFolder, 'dist'), false, true).entries;
  expect(digest()).toContainEqual({ path, state: 'created' });
  expect(digest()).toContainEqual({ path, state: 'already there' });
  expect(readFileSync(join(root, path), 'utf8')).toMatch(/^exec node \S+\/dist\/bin\.cjs report --mail$/m);
  expect(make(makeTemporaryRoot()).map((entry) => entry.path)).not.toContain(path);
});

test('that script finds a package of its root wherever the root is moved', () => {
  const root = makeTemporaryRoot();
  const installed = join(root, 'node_modules/folder-runner');
  for (const part of ['package.json', 'jobs']) {
    cpSync(join(packageFolder, part), join(installed, part), { recursive: true });
  }
  startRoot(root, join(installed, 'dist'), false, true);
  expect(readFileSync(join(root, 'jobs/weekly/report-by-mail.sh'), 'utf8')).toContain(
    '\nexec node "$RUNNER_ROOT"/node_modules/folder-runner/dist/bin.cjs report --mail\n',
  );
});

test('a second time everything exists already and stays as it is', () => {
  const root = makeTemporaryRoot();
  make(root);
  const example = join(root, 'jobs/hourly/disk-use.ts');
  writeFileSync(example, 'console.log("mine")');
  expect(new Set(make(root).map(({ state }) => state))).toEqual(new Set(['already there']));
  expect(readFileSync(example, 'utf8')).toBe('console.log("mine")');
});

test('a tier with scripts of its own gets no example', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/mine.sh': 'true' });
  expect(make(root)).toContainEqual({ path: 'jobs/hourly', state: 'already there' });
  expect(readdirSync(join(root, 'jobs/hourly'))).toEqual(['mine.sh']);
});

test('nobody else can read the state folder or write to jobs, even under umask 000', () => {
  const umask = process.umask(0);
  onTestFinished(() => {
    process.umask(umask);
  });
  const root = makeTemporaryRoot();
  make(root);
  expect(modeOf(root, '.runner')).toBe(0o700);
  expect(modeOf(root, 'jobs/hourly')).toBe(0o755);
  expect(modeOf(root, 'jobs/hourly/disk-use.ts')).toBe(0o644);
});

test('the state folder keeps itself out of git', () => {
  const root = makeTemporaryRoot({ '.gitignore': 'dist\n' });
  make(root);
  expect(readFileSync(join(root, '.runner/.gitignore'), 'utf8')).toBe('*\n');
  expect(readFileSync(join(root, '.gitignore'), 'utf8')).toBe('dist\n');
});

test('nothing is made behind a link, and what it leads to keeps its mode', () => {
  const other = makeTemporaryRoot({ 'jobs/hourly/x': '', 'state/x': '' });
  for (const path of ['jobs/hourly', 'state']) chmodSync(join(other, path), 0o755);
  const root = makeTemporaryRoot({ 'jobs/daily/mine.sh': '' });
  rmSync(join(other, 'jobs/hourly/x'));
  symlinkSync(join(other, 'jobs/hourly'), join(root, 'jobs/hourly'));
  symlinkSync(join(other, 'state'), join(root, '.runner'));
  expect(make(root).filter(({ state }) => state === 'behind a link')).toEqual(
    ['jobs/hourly', '.runner'].map((path) => ({ path, state: 'behind a link' })),
  );
  expect(readdirSync(other, { recursive: true }).toSorted()).toEqual(['jobs', 'jobs/hourly', 'state', 'state/x']);
  expect([modeOf(other, 'jobs/hourly'), modeOf(other, 'state')]).toEqual([0o755, 0o755]);
  const served = join(makeTemporaryRoot(), 'public_html');
  mkdirSync(served);
  symlinkSync(join(other, 'jobs'), join(served, 'jobs'));
  make(served, true);
  expect(readdirSync(join(other, 'jobs'))).toEqual(['hourly']);
});

test('in a web root both folders refuse visitors, by the words of Apache 2.4 and 2.2', () => {
  const root = join(makeTemporaryRoot(), 'public_html');
  make(root, true);
  for (const folder of ['jobs', '.runner']) {
    const rules = readFileSync(join(root, folder, '.htaccess'), 'utf8');
    expect(rules).toMatch(/Require all denied[\s\S]*Deny from all/);
  }
});

test('a file where a folder is needed is told in a sentence', () => {
  const root = makeTemporaryRoot({ 'jobs/15min': 'a file' });
  expect(() => make(root)).toThrow(UsageError);
  expect(() => make(root)).toThrow(
    /jobs\/15min.*a file is where a folder is needed\. Correct that, or choose another folder\.$/,
  );
  expect(() => make(join(root, 'jobs/15min/deeper'))).toThrow(/a file is where a folder is needed/);
});

test('the package is found from its dist folder, past other package files', () => {
  const root = makeTemporaryRoot({
    'package.json': '{"name":"somebody-s-site"}',
    'node_modules/folder-runner/package.json': '{"name":"folder-runner"}',
    'node_modules/folder-runner/dist/package.json': '{"type":"commonjs"}',
  });
  const folder = join(root, 'node_modules', 'folder-runner');
  expect(findPackageFolder(join(folder, 'dist'))).toBe(folder);
});

test("the project's own folder holds the jobs that init copies", () => {
  const folder = findPackageFolder(import.meta.dirname);
  expect(existsSync(join(folder, 'jobs', 'hourly'))).toBe(true);
});

test('a command outside its package is a defect, told as such', () => {
  const root = makeTemporaryRoot({ 'package.json': 'not JSON' });
  mkdirSync(join(root, 'dist'));
  expect(() => findPackageFolder(join(root, 'dist'))).toThrow(/outside its own package/);
});

const init = (cwd: string, args: readonly string[] = [], env: NodeJS.ProcessEnv = {}): Ended =>
  runCommand(['init', ...args], { cwd, env: { HOME: cwd, PATH: '/usr/bin:/bin', ...env } });

test('init says what it created and what to do next', () => {
  const root = makeTemporaryRoot();
  const { status, stdout, stderr } = init(root);
  expect(status).toBe(0);
  expect(stdout).toMatch(/ created +jobs\/hourly\n +created +jobs\/hourly\/disk-use\.ts\n/);
  expect(stdout).toMatch(/Next:[\s\S]*npx folder-runner hourly[\s\S]*npx folder-runner cron --install/);
  expect(stderr).toBe('');
});

test('an example that needs a setting is disabled until somebody enables it, and stays enabled then', () => {
  const root = makeTemporaryRoot();
  const env = { HOME: root, PATH: '/usr/bin:/bin' };
  const call = (...args: string[]) => runCommand(args, { cwd: root, env });
  expect(init(root).stdout).toMatch(/Set CHECK_URL,[\s\S]*npx folder-runner enable 15min\/check-site\n/);
  expect(call('list').stdout).toMatch(/\ndisabled · 1 script · `npx folder-runner enable .*\n {2}15min\/check-site/);
  expect(call('report').stdout).toContain('`npx folder-runner hourly` runs that tier now');
  expect(call('enable', '15min/check-site').status).toBe(0);
  expect(init(root).stdout).not.toMatch(/check-site/);
  expect(readdirSync(join(root, 'jobs/15min'))).toEqual(['check-site.ts']);
});

test('an example that is enabled before it is set up says that it does nothing, and does not look green', () => {
  const root = makeTemporaryRoot();
  const env = { HOME: root, PATH: '/usr/bin:/bin' };
  init(root);
  runCommand(['enable', '15min/check-site'], { cwd: root, env });
  expect(runCommand(['15min'], { cwd: root, env }).status).toBe(0);
  expect(queryLog(root, 'select outcome, warning from runs')).toEqual([
    { outcome: 'succeeded', warning: expect.stringContaining('Nothing is checked: set CHECK_URL to the address') },
  ]);
  expect(runCommand(['status'], { cwd: root, env }).stdout).toContain('Nothing is checked: set CHECK_URL');
});

test.each([[[]], [['--digest']]])('what init prints fits 80 columns: %s', (args) => {
  const [place, ...lines] = init(makeTemporaryRoot(), args).stdout.split('\n');
  expect(place).toMatch(/^\//);
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
});

test('init makes the log, which its owner alone can read, so that the first insert of a site finds its table', () => {
  const root = makeTemporaryRoot();
  expect(init(root).stdout).toMatch(/ created +\.runner\/activity\.db\n/);
  expect(modeOf(root, '.runner/activity.db')).toBe(0o600);
  const log = new Database(join(root, '.runner/activity.db'), { fileMustExist: true });
  log.prepare('insert into jobs (name) values (?)').run('post-webhook');
  log.close();
  const env = { HOME: root, PATH: '/usr/bin:/bin' };
  expect(runCommand(['jobs'], { cwd: root, env }).stdout).toContain('post-webhook');
  expect(init(root).stdout).toMatch(/ already there +\.runner\/activity\.db\n/);
});

test('a log that cannot be made is told, and the root is there all the same', () => {
  const root = makeTemporaryRoot();
  mkdirSync(join(root, '.runner/activity.db'), { recursive: true });
  const { status, stderr } = init(root);
  expect(status).toBe(0);
  expect(stderr).toMatch(/^Note: the activity log could not be created; the first pass tries again\. /);
  expect(existsSync(join(root, 'jobs/hourly'))).toBe(true);
});

test('the made root runs at once: its examples do something without being set up', () => {
  const root = makeTemporaryRoot();
  init(root);
  const env = { HOME: root, PATH: '/usr/bin:/bin' };
  for (const tier of ['15min', 'hourly', 'daily']) {
    expect(runCommand([tier], { cwd: root, env })).toEqual({ status: 0, stdout: '', stderr: '' });
  }
  expect(runCommand(['report'], { cwd: root, env }).stdout).toMatch(/check-site \(disabled\) .* never run/);
  // On a database server the log is no file that could be copied.
  const backup = existsSync(join(root, '.runner/activity.db')) ? /^Backed up / : /^Nothing to back up/;
  expect(queryLog(root, 'select script, outcome, output from runs order by started_at, id')).toEqual([
    { script: 'hourly/disk-use', outcome: 'succeeded', output: expect.stringContaining(' in all, in ') },
    { script: 'daily/backup-activity-log', outcome: 'succeeded', output: expect.stringMatching(backup) },
  ]);
});

test('init a second time says that all exists already', () => {
  const root = makeTemporaryRoot();
  init(root);
  const { status, stdout } = init(root);
  expect(status).toBe(0);
  expect(stdout).not.toMatch(/ created /);
  expect(stdout).toContain('already there  jobs/hourly');
});

test('the folder may be an argument, --root or RUNNER_ROOT, in this order', () => {
  const root = makeTemporaryRoot();
  init(root, ['a', '--root', 'b'], { RUNNER_ROOT: join(root, 'c') });
  init(root, ['--root', 'd'], { RUNNER_ROOT: join(root, 'c') });
  init(root, [], { RUNNER_ROOT: join(root, 'e') });
  const made = ['a', 'b', 'c', 'd', 'e'].filter((name) => existsSync(join(root, name, 'jobs/15min')));
  expect(made).toEqual(['a', 'd', 'e']);
});

test('inside a web root nothing is made, also behind a link, unless it is forced', () => {
  const root = makeTemporaryRoot();
  mkdirSync(join(root, 'public_html'));
  symlinkSync('public_html', join(root, 'site'));
  for (const folder of ['public_html/runner', 'site/new', 'site']) {
    const { status, stdout, stderr } = init(root, [folder]);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toMatch(/is inside .*public_html, .*anybody could read your scripts.* --force\n$/);
    expect(existsSync(join(root, folder, 'jobs'))).toBe(false);
    const forced = init(root, [folder, '--force']);
    expect(forced.status).toBe(0);
    expect(forced.stderr).toMatch(/Danger: .*public_html, .*Passes are refused until/);
    expect(existsSync(join(root, folder, 'jobs/hourly'))).toBe(true);
  }
  expect(runCommand(['hourly'], { cwd: join(root, 'site'), env: {} }).stderr).toMatch(
    /public_html, .*move it beside that folder/,
  );
  expect(existsSync(join(root, 'public_html/runner/.runner/.htaccess'))).toBe(true);
});

test('a place where nothing can be made is told in a sentence, with exit code 2', () => {
  const root = makeTemporaryRoot({ taken: 'a file' });
  const { status, stderr } = init(root, ['taken']);
  expect(status).toBe(2);
  expect(stderr).toMatch(/could not be created.*a file is where a folder is needed/);
});
