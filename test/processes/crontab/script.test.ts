import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { planLines } from '../../../src/hosting/crontab/lines.ts';
import { tierCalls } from '../../../src/hosting/crontab/plan.ts';
import { forgetRoot, refreshScript, writeCronScript } from '../../../src/hosting/crontab/script.ts';
import { sieveOf } from '../../../src/hosting/crontab/times.ts';

const HOUR = 3600;
const DAY = 24 * HOUR;
/** Without the Nodes of this machine. */
const scriptText = readFileSync('src/hosting/crontab/cron.sh', 'utf8').replace(
  / \/(?:usr|opt|home|snap)\//g,
  ' /nowhere/',
);
const own = { distFolder: '', version: '1.2.3' };

/** A home with a root, a Node and a package that print what they get, and a clock. */
function makeSite(name = 'site') {
  const home = mkdtempSync(join(tmpdir(), 'script-'));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const root = join(home, name);
  const distFolder = join(root, 'node_modules/folder-runner/dist');
  const node = join(home, 'versions/v24.1.0/bin/node');
  mkdirSync(join(root, 'jobs'), { recursive: true });
  mkdirSync(join(root, '.runner'));
  mkdirSync(distFolder, { recursive: true });
  writeFileSync(join(distFolder, 'bin.cjs'), '');
  writeFileSync(join(distFolder, 'cron.sh'), scriptText);
  makeNode(node, '24.1.0');
  mkdirSync(join(home, 'bin'));
  writeFileSync(join(home, 'bin/date'), '#!/bin/sh\nexec /bin/date -d "@$FAKE_NOW" "$@"\n', { mode: 0o755 });
  const script = { path: join(home, '.folder-runner/cron'), written: '~/.folder-runner/cron' };
  const package_ = { ...own, distFolder };
  const install = (from: string) => {
    writeCronScript(script, from, package_);
    const paths = join(home, '.folder-runner/roots', from, 'paths');
    writeFileSync(paths, readFileSync(paths, 'utf8').replace(/^.*/, node));
  };
  install(root);
  const env = { HOME: home, PATH: `${join(home, 'bin')}:/usr/bin:/bin`, TZ: 'UTC' };
  /** As cron calls the line of a tier; what stands in PATH of this machine is no Node. */
  const call = (tier: string, atSeconds = Date.UTC(2026, 5, 1) / 1000, sh: readonly string[] = ['/bin/sh']) => {
    const [line = ''] = planLines({ root, script: script.written, calls: tierCalls([tier]) }).lines;
    const [program = '', ...args] = [...sh, '-c', line.split(' ').slice(5).join(' ').replaceAll('\\%', '%')];
    return spawnSync(program, args, { cwd: '/', env: { ...env, FAKE_NOW: String(atSeconds) }, encoding: 'utf8' });
  };
  return { home, root, node, script, own: package_, env, call, install };
}

function makeNode(path: string, version: string): void {
  mkdirSync(dirname(path), { recursive: true });
  const text = `#!/bin/sh\n[ "$1" = --version ] && echo v${version} && exit\necho "started ${version} $*"\n`;
  writeFileSync(path, text, { mode: 0o755 });
}

const nextDay = Date.UTC(2026, 5, 2, 0, 7) / 1000;
const quiet = { status: 0, stdout: '', stderr: '' };

test('the call gets the root and the tier, also of a path with blanks and quotes', () => {
  const { root, own: package_, call } = makeSite("it's $HOME 100%");
  expect(call('hourly')).toMatchObject({
    status: 0,
    stdout: `started 24.1.0 ${package_.distFolder}/bin.cjs --root ${root} hourly\n`,
    stderr: '',
  });
});

test.each(['package', 'root', 'node'])('what is missing is told at once, then once a day with its cure: %s', (what) => {
  const { home, root, node, call } = makeSite();
  const [gone, sentence] = {
    package: [join(root, 'node_modules'), /its package is missing.* cd \S+\/site && npm install folder-runner\n$/],
    root: [root, /has no jobs folder any more.*`npx folder-runner cron --install`.*`crontab -e`\.\n$/],
    node: [node, /no Node 22\.18 or newer \(it was \S+v24\.1\.0.*cd \S+\/site && npx folder-runner cron --install\n$/],
  }[what] as [string, RegExp];
  // Found where it looks, and too old: as if there were none on this machine.
  if (what === 'node') makeNode(join(home, 'versions/v20.1.0/bin/node'), '20.1.0');
  renameSync(gone, `${gone}.away`);
  const told = { status: 1, stdout: expect.stringMatching(sentence), stderr: '' };
  if (what === 'node' && existsSync('/usr/bin/node')) return;
  expect(call('15min')).toMatchObject(told);
  expect(call('15min')).toMatchObject(quiet);
  expect(call('hourly')).toMatchObject(quiet);
  expect(call('hourly', nextDay)).toMatchObject(told);
  renameSync(`${gone}.away`, gone);
  expect(call('hourly', nextDay).stdout).toContain('started');
  // What is cured and goes away again is news.
  renameSync(gone, `${gone}.away`);
  expect(call('hourly', nextDay)).toMatchObject(told);
});

test('a lost .runner is told once, and the call goes on', () => {
  const { root, call } = makeSite();
  expect(call('hourly').stdout).toMatch(/^started/);
  rmSync(join(root, '.runner'), { recursive: true });
  expect(call('hourly').stdout).toMatch(
    /site\/\.runner is gone.*cd \S+site && npx folder-runner restore <file>\nstarted/,
  );
  expect(call('hourly').stdout).toMatch(/^started/);
});

test('after an upgrade of Node another one is found, the newest that is new enough, and remembered', () => {
  const { home, root, node, script, own: package_, call } = makeSite();
  renameSync(node, `${node}.away`);
  for (const version of ['20.19.0', '24.9.0', '24.10.1', '22.17.3'])
    makeNode(join(home, `versions/v${version}/bin/node`), version);
  makeNode(join(home, '.nvm/versions/node/v99.0.0/bin/node'), '99.0.0');
  expect(call('hourly').stdout).toMatch(/^started 99\.0\.0 /);
  rmSync(join(home, '.nvm'), { recursive: true });
  refreshScript(script.path, root, package_);
  expect(readFileSync(join(home, '.folder-runner/roots', root, 'paths'), 'utf8')).not.toContain('v24.1.0');
});

test('a newer version replaces the script, an older one leaves it, and it stays while other roots need it', () => {
  const { home, root, script, own: package_ } = makeSite();
  const versionOf = () => /^# folder-runner (\S+):/.exec(readFileSync(script.path, 'utf8'))?.[1];
  refreshScript(script.path, root, { ...package_, version: '1.3.0' });
  expect(versionOf()).toBe('1.3.0');
  writeCronScript(script, join(root, 'other'), { ...package_, version: '1.2.9' });
  expect(versionOf()).toBe('1.3.0');
  forgetRoot(script, root);
  expect(existsSync(script.path)).toBe(true);
  forgetRoot(script, join(root, 'other'));
  expect(existsSync(join(home, '.folder-runner'))).toBe(false);
});

test('a root behind a link is called by the name that the line has', () => {
  const { home, root, env, script, install } = makeSite();
  const current = join(home, 'current');
  symlinkSync(root, current);
  install(current);
  const sh = `sh ${script.written} hourly ${current}`;
  expect(spawnSync('/bin/sh', ['-c', sh], { env, encoding: 'utf8' }).stdout).toContain(`--root ${current} hourly`);
});

/** When cron fires a daily line: minute and hour by local time, seconds since 1970. */
const firings = (line: string, from: number, count: number, step: number): number[] => {
  const [minute = 0, hour = 0] = line.split(' ').map((field) => Number.parseInt(field, 10) || 0);
  const first = from + (step === DAY ? hour * HOUR : 0) + minute * 60 + 2;
  return Array.from({ length: count }, (_, index) => first + index * step);
};

test.each([
  ['3days', DAY, 7, 3],
  ['45min', 900, 7, 3],
  ['7min', 60, 15, 7],
  ['5hours', HOUR, 11, 5],
  ['36hours', 12 * HOUR, 7, 3],
])('%s runs at each nth firing of its line, as the views say', (tier, step, count, nth) => {
  const { script, root, env } = makeSite();
  const [line = ''] = planLines({ root, script: script.written, calls: tierCalls([tier]) }).lines;
  const times = firings(line, Date.UTC(2026, 5, 1) / 1000, count, step);
  // One shell for all, as each takes its time.
  const loop = `for FAKE_NOW in ${times.join(' ')}; do export FAKE_NOW; r=$(sh ${script.written} ${tier} ${root}); echo "$r"; done`;
  const said = spawnSync('/bin/sh', ['-c', loop], { env, encoding: 'utf8' }).stdout.split('\n').slice(0, -1);
  const started = said.map((each) => each.startsWith('started'));
  const first = started.indexOf(true);
  expect(started).toEqual(times.map((_, index) => index % nth === first % nth));
  const sieve = sieveOf(tier, line.split(' ').slice(0, 5).join(' '));
  expect(times.map((time) => Math.trunc((time + (sieve?.shift ?? 0)) / step) % nth === 0)).toEqual(started);
});

test.each(['Asia/Kathmandu', 'America/St_Johns', 'Pacific/Apia', 'Europe/Berlin'])(
  '3days keeps its days in %s, over a change of the clock and however late cron is',
  (TZ) => {
    const { script, root, env } = makeSite();
    const days = [27, 28, 29, 30, 31, 32, 33];
    const hours = ['04:07', '05:59', '09:30'];
    const times = days.flatMap((day) =>
      hours.map((hour) => `$(TZ=${TZ} /bin/date -d '2026-03-01 +${day} days ${hour}' +%s)`),
    );
    const call = `r=$(sh ${script.written} 3days ${root}); echo "$r"`;
    const loop = `for FAKE_NOW in ${times.join(' ')}; do export FAKE_NOW; ${call}; done`;
    const { stdout } = spawnSync('/bin/sh', ['-c', loop], { env: { ...env, TZ }, encoding: 'utf8' });
    const started = stdout
      .split('\n')
      .slice(0, -1)
      .map((each) => each.startsWith('started'));
    const byDay = days.map((_, index) => started.slice(index * hours.length, (index + 1) * hours.length));
    const first = byDay.findIndex(([isStarted]) => isStarted);
    expect(byDay).toEqual(days.map((_, index) => hours.map(() => index % 3 === first)));
  },
);
