import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { queryLog } from '../support/log.ts';
import { until } from '../support/until.ts';
import { type CronDaemon, catchMail, type MailCatcher, startCronDaemon } from './cron-daemon.ts';
import { addCronUser, type CronUser } from './cron-user.ts';

/** What a user may have in a crontab; the last line shows that mail arrives. Not UTF-8. */
const OWN_LINES = Buffer.from(
  '# r\xe9pertoire\n\nSECRET_TOKEN = "from the crontab"\n\t*  *\t* * *   echo by hand\n@yearly true\n',
  'latin1',
);

/** The next full minute, and the passes. */
const A_MINUTE_MS = 90_000;

interface Run {
  readonly outcome: string;
  readonly exit_code: number | null;
  readonly output: string;
}

let user: CronUser;
let daemon: CronDaemon;
let mail: MailCatcher;
let wellRoot: string;
let failingRoot: string;

beforeAll(async () => {
  mail = catchMail();
  user = addCronUser();
  daemon = await startCronDaemon();
  wellRoot = addRoot('site', {
    'environment.sh': 'env\n',
    'place.sh': 'pwd\nreadlink /proc/self/fd/0\nps -o tty= -p $$\n',
    'typed.ts': "const answer: string = 'typed';\nconsole.log(answer);\n",
  });
  failingRoot = addRoot('my 100% shop', { 'breaks.sh': 'echo went wrong >&2\nexit 3\n' });
  user.run('crontab', ['-'], OWN_LINES);
  user.runner('cron', '--install', '--root', wellRoot);
  user.runner('cron', '--install', '--root', failingRoot);
  // Root looks only while no pass runs: where it makes SQLite's files first, their owner cannot write them for an instant.
  const haveRun = (): boolean => daemon.isIdle() && [wellRoot, failingRoot].every(hasPass);
  await until('cron has run both tiers', haveRun, A_MINUTE_MS);
  await until('cron has sent its mail', () => daemon.isIdle());
}, 2 * A_MINUTE_MS);

afterAll(() => {
  daemon?.stop();
  user?.remove();
  mail?.remove();
});

test('cron runs the installed lines and the runs are in the log', () => {
  expect(readRun(wellRoot, 'typed')).toEqual({ outcome: 'succeeded', exit_code: 0, output: 'typed\n' });
  expect(readRun(failingRoot, 'breaks')).toEqual({ outcome: 'failed', exit_code: 3, output: 'went wrong\n' });
});

test('its calls count as made by cron, and not by hand', () => {
  expect(queryLog(wellRoot, 'select distinct triggered_by as calledBy from workers')).toEqual([{ calledBy: 'cron' }]);
});

test("a script gets the environment of all callers and the runner's variables, nothing of the crontab", () => {
  const environment = readEnvironment();
  expect(environment).toMatchObject({
    HOME: user.home,
    LOGNAME: user.name,
    SHELL: '/bin/sh',
    LANG: 'C.UTF-8',
    PATH: `${dirname(user.nodePath)}:/usr/local/bin:/usr/bin:/bin`,
    RUNNER_ROOT: wellRoot,
    RUNNER_SCRIPT: '1min/environment',
    RUNNER_ATTEMPT: '1',
    RUNNER_COUNTS: expect.stringMatching(/\.counts$/),
    RUNNER_LAST_SUCCESS: '',
    RUNNER_PREVIOUSLY_CRASHED: '',
  });
  expect(environment.RUNNER_TMPDIR).toMatch(new RegExp(`^${wellRoot}/`));
  expect(environment.RUNNER_SCHEDULED_FOR).toMatch(/T\d\d:\d\d:00\.000Z$/);
  const known = /^(HOME|LOGNAME|USER|SHELL|PATH|LANG|TZ|RUNNER_\w+|PWD|_)$/;
  expect(Object.keys(environment).filter((name) => !known.test(name))).toEqual([]);
});

test('a script runs in the root, with no input and no terminal', () => {
  expect(readRun(wellRoot, 'place').output).toBe(`${wellRoot}\n/dev/null\n?\n`);
});

test('cron mails a failing pass and nothing of one that succeeds', () => {
  const mails = mail.readMails().filter((text) => text.includes(user.name));
  expect(mails.filter((text) => text.includes(wellRoot))).toEqual([]);
  const failures = mails.filter((text) => text.includes('breaks'));
  expect(failures).toHaveLength(countPasses(failingRoot));
  expect(failures[0]).toContain('went wrong');
  expect(failures[0]).toContain('exit code 3');
  expect(mails.filter((text) => text.endsWith('\nby hand\n'))).toHaveLength(mails.length - failures.length);
  expect(mails.length).toBeGreaterThan(failures.length);
});

test('what is removed is one block; the other lines stay byte for byte', () => {
  user.runner('cron', '--remove', '--root', wellRoot);
  const between = user.run('crontab', ['-l']);
  expect(between.subarray(0, OWN_LINES.length)).toEqual(OWN_LINES);
  expect(between.toString()).toContain('my 100\\% shop');
  expect(between.toString()).not.toContain(wellRoot);
  user.runner('cron', '--remove', '--root', failingRoot);
  expect(user.run('crontab', ['-l'])).toEqual(OWN_LINES);
});

/** A root with these shell or TypeScript files in a tier that runs each minute. */
function addRoot(name: string, scripts: Readonly<Record<string, string>>): string {
  const root = join(user.home, name);
  mkdirSync(join(root, 'jobs/1min'), { recursive: true });
  for (const [file, content] of Object.entries(scripts)) {
    writeFileSync(join(root, 'jobs/1min', file), content);
  }
  user.ownHome();
  return root;
}

function hasPass(root: string): boolean {
  try {
    return countPasses(root) > 0;
  } catch {
    // There is no log before the first pass.
    return false;
  }
}

function countPasses(root: string): number {
  return queryLog(root, `select 1 from workers where state = 'finished'`).length;
}

function readRun(root: string, script: string): Run {
  const [run] = queryLog<Run>(
    root,
    'select outcome, exit_code, output from runs where script = ? order by id limit 1',
    `1min/${script}`,
  );
  if (run === undefined) throw new Error(`${script} has not run`);
  return run;
}

function readEnvironment(): Record<string, string> {
  const lines = readRun(wellRoot, 'environment').output.trim().split('\n');
  return Object.fromEntries(lines.map((line) => line.split(/=(.*)/s).slice(0, 2)));
}
