import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import stripAnsi from 'strip-ansi';
import { describe, expect, onTestFinished, test } from 'vitest';
import { commandPath, cronPlace, runner, startCommand } from '../../support/command.ts';
import { changeLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import { brokenImport, writeHistory } from '../../support/web/dashboard.ts';

const hasScript = spawnSync('script', ['--version']).status === 0;

const ENTER = '\x1b[?1049h';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const HOME = '\x1b[H';
const COLUMNS = 60;

/** `runner watch` on a terminal of 24 lines. */
async function openWatch(root: string, env: Readonly<Record<string, string>> = {}, columns = COLUMNS) {
  const watch = `exec '${process.execPath}' '${commandPath}' watch --root '${root}'`;
  const notes = makeTemporaryRoot();
  const inside = `stty cols ${columns} rows 24; tty >'${notes}/tty'; echo $$ >'${notes}/pid'; ${watch}`;
  const child = spawn('script', ['-qec', inside, '/dev/null'], {
    env: { ...cronPlace(root).env, LC_ALL: 'C.UTF-8', TERM: 'xterm', ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let printed = '';
  child.stdout.on('data', (chunk) => (printed += chunk));
  const ended = once(child, 'close').then(([code]) => code as number);
  const lines = () => stripAnsi(printed.slice(printed.lastIndexOf(HOME))).split(/\r+\n/);
  const shows = (what: string, form: RegExp) => until(`it shows ${what}`, () => form.test(lines().join('\n')));
  await until('it is there', () => printed.includes(HOME));
  const file = (name: string) => readFileSync(join(notes, name), 'utf8').trim();
  return {
    ...{ ended, lines, shows },
    printed: () => printed,
    press: (keys: string) => void child.stdin.write(keys),
    kill: (signal: NodeJS.Signals) => process.kill(Number(file('pid')), signal),
    resize: (columns: number) => execFileSync('stty', ['-F', file('tty'), 'cols', String(columns)]),
  };
}

const scripts = {
  'jobs/hourly/a.sh': 'true\n',
  'jobs/hourly/b-slow.sh':
    'echo begun; while ! [ -e "$RUNNER_ROOT/go" ]; do sleep 0.05; done; cat "$RUNNER_ROOT/go"; exit 3\n',
  'jobs/queue/mail.sh': 'true\n',
};

const UP = '\x1b[A';
const PAGE_UP = '\x1b[5~';
const HOME_KEY = '\x1b[H';
const DOWN = '\x1b[B';
const ESC = '\x1b';

describe.runIf(hasScript)('on a terminal', () => {
  test('all is seen live, and opened by keys', async () => {
    const root = makeTemporaryRoot(scripts);
    const watch = await openWatch(root, { NO_COLOR: '1' });
    await watch.shows('that nothing goes on yet', /\[1 scripts\][\s\S]*Nothing is running/);
    const pass = startCommand(['--root', root, 'hourly'], cronPlace(root));
    await watch.shows('what runs', /running\n +hourly\/b-slow · for \d/);
    watch.press('4');
    await watch.shows('its output', /\[4 output\][\s\S]*hourly\/b-slow · run 2 · running\s+begun/);
    writeFileSync(join(root, 'go'), 'and \x1b[31mover\n');
    await watch.shows('the rest of it', /run 2 · failed\s+begun\nand over/);
    await pass.ended;
    watch.press('2');
    await watch.shows('all runs', /\[2 runs\][\s\S]*› +2 +hourly\/b-slow +\S+ \S+ +failed[\s\S]*\n +1 +hourly\/a/);
    watch.press(`${DOWN}${DOWN}k\r`);
    await watch.shows('the selected one', /hourly\/b-slow · run 2 · failed\nexit code 3[\s\S]*esc back/);
    watch.press(`${ESC}`);
    await watch.shows('the list again', /› +2 +hourly\/b-slow/);
    watch.press('1');
    await watch.shows('scripts, the failing one first', /› hourly\/b-slow/);
    watch.press('j');
    await watch.shows('scripts with the second selected', /› hourly\/a/);
    watch.press('k');
    await watch.shows('scripts with the first selected', /› hourly\/b-slow/);
    watch.press('\r');
    await watch.shows('its runs', /hourly\/b-slow · since[\s\S]*› +2 /);
    watch.press('w');
    await watch.shows('an empty queue', /\[3 queue\][\s\S]*No jobs found in the queue/);
    runner(root, 'add', 'mail');
    await watch.shows('the job', /› +\d+ +mail +queued/);
    watch.press('\r');
    await watch.shows('all about the job', /mail · job \d+/);
    expect(
      watch
        .lines()
        .map((line) => [...line].length)
        .filter((length) => length > COLUMNS),
    ).toEqual([]);
    expect(watch.lines()).toHaveLength(24);
    watch.resize(100);
    await watch.shows('the time beside the tabs', /4 output +\d\d-\d\d|4 output +\d{4}-/);
    watch.press('q');
    expect(await watch.ended).toBe(0);
    expect(watch.printed().startsWith(ENTER)).toBe(true);
    expect(watch.printed().trimEnd().endsWith(LEAVE)).toBe(true);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colours, which are not wanted
    expect(watch.printed()).not.toMatch(/\x1b\[[\d;]*m/);
  });

  test('what is wrong stands first, is reached by keys again, and the script that fails heads the others', async () => {
    const { root } = await writeHistory({ scripts: 40, failing: { 'hourly/import-orders-005': brokenImport } });
    changeLog(
      root,
      `insert into incidents (subject, code, severity, opened_at, last_at, message) values
      ('hourly', 'tier-overdue', 'warning', ${Date.now()}, ${Date.now()}, 'it was not called')`,
    );
    const watch = await openWatch(root, { NO_COLOR: '1' }, 80);
    const head = /s\] [^\n]*\n\s*2 open incidents\s[\s\S]*import-orders-005/;
    await watch.shows('what is wrong', head);
    expect(watch.lines().join('\n')).not.toMatch(/↑ \d+ more/);
    for (const key of [UP, HOME_KEY, PAGE_UP]) {
      watch.press('\x1b[F');
      await watch.shows('the last script', /↑ \d+ more[\s\S]*› /);
      if (key !== HOME_KEY) watch.press(PAGE_UP.repeat(9));
      watch.press(key);
      await watch.shows(`what is wrong, by ${JSON.stringify(key)}`, head);
    }
    watch.press(DOWN.repeat(60));
    await watch.shows('the cursor at the end', /› \S+\/[\s\S]*\n\s*\n1-4 view/);
    watch.press('\x1b[H');
    await watch.shows('the head', head);
    watch.press('\r');
    await watch.shows('the one that fails', /hourly\/import-orders-005 · since (?!1970)/);
    watch.press('?');
    await watch.shows('the keys', /page up[\s\S]*these keys/);
    // The second key comes before a terminal could tell Esc from the beginning of a sequence.
    watch.press(`${ESC}${ESC}`);
    await watch.shows('the scripts again', head);
    watch.press(`\r`);
    await watch.shows('its runs again', /import-orders-005 · since/);
    watch.press(`${ESC}2`);
    await watch.shows('runs, by the key after Esc', /\[2 runs\]/);
  });

  test('the cursor stays on the run that it was on, whatever comes above it', async () => {
    const { root, log } = await writeHistory({ passes: 2 });
    const watch = await openWatch(root, { NO_COLOR: '1' });
    watch.press('2');
    await watch.shows('runs', /\[2 runs\][\s\S]*› +\d+ /);
    const runOf = () => /› +(\d+) /.exec(watch.lines().join('\n'))?.[1] as string;
    const run = runOf();
    const id = await log.addRun('hourly/clean-uploads', Date.now());
    await watch.shows('the new run', new RegExp(`\n +${id} +hourly/clean-uploads[\\s\\S]*› +${run} `));
    watch.press('\r');
    await watch.shows('what was selected', new RegExp(`· run ${run} ·`));
  });

  test('is given back by Ctrl-C, by a signal, and by a crash', async () => {
    const root = makeTemporaryRoot(scripts);
    const ended = async (end: (watch: Awaited<ReturnType<typeof openWatch>>) => void, env = {}) => {
      const watch = await openWatch(root, env);
      end(watch);
      const code = await watch.ended;
      expect(watch.printed()).toContain(LEAVE);
      return { code, after: watch.printed().slice(watch.printed().lastIndexOf(LEAVE) + LEAVE.length) };
    };
    writeFileSync(join(root, 'crash.cjs'), `process.on('SIGUSR2', () => { throw new Error('a defect'); });`);
    const crash = { NODE_OPTIONS: `--require ${join(root, 'crash.cjs')}` };
    const [interrupted, terminated, crashed] = await Promise.all([
      ended((watch) => watch.press('\x03')),
      ended((watch) => watch.kill('SIGTERM')),
      ended((watch) => watch.kill('SIGUSR2'), crash),
    ]);
    expect(interrupted).toEqual({ code: 0, after: '' });
    expect(terminated).toEqual({ code: 143, after: '' });
    expect(crashed.code).not.toBe(0);
    expect(crashed.after).toContain('a defect');
  });
});

test('without a terminal it says what to use instead', () => {
  const root = makeTemporaryRoot(scripts);
  const { status, stdout, stderr } = runner(root, 'watch');
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  expect(stderr).toBe(
    'runner: runner watch needs a terminal; `npx folder-runner status` and `npx folder-runner report` print the same once.\n',
  );
});
