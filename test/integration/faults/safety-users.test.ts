import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lchownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import { commandNames } from '../../../src/system/base/command-names.ts';
import { commandPath, cronPlace, type Ended, readRuns } from '../../support/command.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { executable, type FileContent, makeTemporaryRoot } from '../../support/root.ts';

/** In no file of the machine. */
const ALICE = 4711;
const BOB = 4712;
/** On every Debian: users whose groups are of the same name. */
const WWW_DATA = 33;
const GAMES_GROUP = 60;

// What groups may write is what a test says, whoever calls it.
process.umask(0o022);

type Files = Readonly<Record<string, FileContent>>;

/** A root, and all that is in it, of this user. */
function makeRootOf(uid: number, files: Files = { 'jobs/hourly/a.sh': 'echo ran\n' }): string {
  const root = makeTemporaryRoot(files);
  chmodSync(root, 0o755);
  for (const path of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
    lchownSync(join(root, path), uid, uid);
  }
  chownSync(root, uid, uid);
  return root;
}

function runAs(uid: number, root: string, env: NodeJS.ProcessEnv = {}, what = 'hourly'): Ended {
  const place = cronPlace(root);
  const args = [commandPath, '--root', root, ...what.split(' ')];
  const options = { uid, gid: uid, cwd: '/', env: { ...place.env, ...env } };
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { ...options, encoding: 'utf8' });
  return { status, stdout, stderr };
}

function reasonOf(root: string, label = 'a'): string | null {
  const { outcome, reason } = readRuns(root).run(label);
  return outcome === 'succeeded' ? 'it ran' : reason;
}

describe('a user runs', () => {
  test('what is their own, and what is root’s', () => {
    const root = makeRootOf(ALICE, { 'jobs/hourly/a.sh': '', 'jobs/hourly/b.sh': '' });
    for (const path of ['jobs', 'jobs/hourly', 'jobs/hourly/b.sh']) {
      chownSync(join(root, path), 0, 0);
    }
    expect(runAs(ALICE, root)).toEqual({ status: 0, stdout: '', stderr: '' });
    expect([reasonOf(root), reasonOf(root, 'b')]).toEqual(['it ran', 'it ran']);
  });

  test('no script of another user, nor from another’s folder, and the log says so', () => {
    for (const path of ['jobs/hourly/a.sh', 'jobs/hourly', 'jobs']) {
      const root = makeRootOf(ALICE);
      chownSync(join(root, path), BOB, BOB);
      expect(runAs(ALICE, root).status).toBe(1);
      expect(reasonOf(root)).toMatch(
        `${path} belongs to another user, uid ${BOB}; look at it, and replace it by a copy of your own, or allow it with`,
      );
    }
  });

  test('it all the same where it is allowed, by the settings or the environment', () => {
    const root = makeRootOf(ALICE);
    chownSync(join(root, 'jobs/hourly/a.sh'), BOB, BOB);
    expect(runAs(ALICE, root, { RUNNER_ALLOW_UNSAFE: '1' }).status).toBe(0);
    writeFileSync(join(root, 'runner.config.json'), '{ "allowUnsafe": true }');
    expect(runAs(ALICE, root).status).toBe(0);
  });

  test('nothing behind a link to another’s file, or of another, or through another’s folder', () => {
    const of = makeRootOf(BOB, { 'mine/x.sh': '', 'open/x.sh': '' });
    const links = { file: [ALICE, 'open/x.sh'], folder: [ALICE, 'mine/x.sh'], link: [BOB, 'alices.sh'] } as const;
    const root = makeRootOf(ALICE);
    writeFileSync(join(root, 'alices.sh'), '');
    chownSync(join(root, 'alices.sh'), ALICE, ALICE);
    chownSync(join(of, 'mine/x.sh'), ALICE, ALICE);
    chownSync(of, 0, 0);
    chownSync(join(of, 'open'), ALICE, ALICE);
    for (const [name, [owner, target]] of Object.entries(links)) {
      const path = join(root, 'jobs/hourly', `${name}.sh`);
      symlinkSync(join(target === 'alices.sh' ? root : of, target), path);
      lchownSync(path, owner, owner);
    }
    runAs(ALICE, root);
    expect(reasonOf(root)).toBe('it ran');
    expect(reasonOf(root, 'file')).toMatch(`${of}/open/x.sh belongs to another user, uid ${BOB}`);
    expect(reasonOf(root, 'folder')).toMatch(`${of}/mine belongs to another user, uid ${BOB}`);
    expect(reasonOf(root, 'link')).toMatch(`jobs/hourly/link.sh belongs to another user, uid ${BOB}`);
  });

  test('with nobody else’s settings, be it an empty file', () => {
    const root = makeRootOf(ALICE, { 'jobs/hourly/a.sh': '', 'runner.config.json': '{}' });
    chownSync(join(root, 'runner.config.json'), BOB, BOB);
    const { status, stderr } = runAs(ALICE, root);
    expect(status).toBe(2);
    expect(stderr).toContain(`runner.config.json belongs to another user, uid ${BOB}`);
    expect(stderr).toContain('allow it with RUNNER_ALLOW_UNSAFE=1 in the environment\n');
    expect(runAs(ALICE, root, { RUNNER_ALLOW_UNSAFE: '1' }).status).toBe(0);
  });

  test('with nobody else’s variables', () => {
    const root = makeRootOf(ALICE, { 'jobs/hourly/a.sh': '', '.env': { content: 'A=1\n', mode: 0o600 } });
    const path = join(root, '.env');
    expect(runAs(ALICE, root).status).toBe(0);
    chownSync(path, ALICE, WWW_DATA);
    expect(runAs(ALICE, root).status).toBe(0);
    const { checks } = JSON.parse(runAs(ALICE, root, {}, 'doctor --json').stdout);
    expect(checks).not.toContainEqual(expect.objectContaining({ found: expect.stringContaining('can be read') }));
    chmodSync(path, 0o640);
    expect(runAs(ALICE, root).status).toBe(0);
    expect(JSON.parse(runAs(ALICE, root, {}, 'doctor --json').stdout).checks).toContainEqual(
      expect.objectContaining({ found: `${path} can be read by the group www-data (gid ${WWW_DATA}) (mode 0640)` }),
    );
    chmodSync(path, 0o644);
    chownSync(path, BOB, BOB);
    const { status, stderr } = runAs(ALICE, root);
    expect([status, stderr]).toEqual([2, expect.stringContaining(`${path} belongs to another user, uid ${BOB}`)]);
  });

  test('with nobody else’s state folder', () => {
    const root = makeRootOf(ALICE);
    mkdirSync(join(root, '.runner'), { mode: 0o777 });
    chownSync(join(root, '.runner'), BOB, BOB);
    chmodSync(join(root, '.runner'), 0o777);
    const { status, stderr } = runAs(ALICE, root);
    expect(status).toBe(2);
    expect(stderr).toMatch(`.runner belongs to another user, uid ${BOB}`);
    expect(readdirSync(join(root, '.runner'))).toEqual([]);
  });

  test('with their own state folder only while nothing of another’s is in it', () => {
    const root = makeRootOf(ALICE);
    expect(runAs(ALICE, root).status).toBe(0);
    chmodSync(join(root, '.runner'), 0o777);
    writeFileSync(join(root, '.runner/activity.db-journal'), '');
    chownSync(join(root, '.runner/activity.db-journal'), BOB, BOB);
    const { status, stderr } = runAs(ALICE, root);
    expect(status).toBe(2);
    expect(stderr).toContain(`.runner/activity.db-journal belongs to another user, uid ${BOB}`);
  });
});

describe('files of root in a user’s .runner keep no script from running:', () => {
  /** With a temporary folder of its own, which goes with it. */
  function makeSite(): { root: string; run: (what: string) => Ended } {
    const root = makeRootOf(ALICE, {
      'jobs/hourly/a.sh': '',
      'jobs/queue/h.sh': executable('#!/bin/sh\n'),
      'tmp/x': '',
    });
    return { root, run: (what) => runAs(ALICE, root, { TMPDIR: join(root, 'tmp') }, what) };
  }

  test.each(['output', 'results', 'tmp', 'locks'])('%s', (folder) => {
    const { root, run } = makeSite();
    for (const what of ['add h', 'hourly']) expect(run(what).status).toBe(0);
    expect(run('add h').status).toBe(0);
    const path = join(root, '.runner', folder);
    chownSync(path, 0, 0);
    const { status, stderr } = run('hourly');
    expect([status, stderr]).toEqual([
      0,
      expect.stringMatching(`^runner: ${path} cannot be written \\(EACCES: .*\\). Make it .*\n$`),
    ]);
    // Why, somebody was told by the pass.
    const refusal = 'runner: no queue job was run: jobs are in the log, which cannot be used\n';
    expect(run('work')).toMatchObject({ status: 1, stderr: refusal });
    expect(run('status')).toMatchObject({ status: 0, stdout: expect.stringContaining('One run waits in the spool') });
    chownSync(path, ALICE, ALICE);
    expect(run('hourly')).toMatchObject({ status: 0, stderr: '' });
    const outcomes = readRuns(root).runs.map(({ script, outcome }) => [script, outcome]);
    expect(outcomes.toSorted()).toEqual(
      [...Array(3).fill('hourly/a'), ...Array(2).fill('queue/h')].map((script) => [script, 'succeeded']),
    );
    checkInvariants(root);
  });

  test('all of it', () => {
    const { root, run } = makeSite();
    expect(run('hourly').status).toBe(0);
    chownSync(join(root, '.runner'), 0, 0);
    expect(run('hourly').status).toBe(0);
    expect(run('status')).toMatchObject({ status: 0, stdout: expect.stringContaining('hourly') });
    chownSync(join(root, '.runner'), ALICE, ALICE);
    expect(run('hourly')).toMatchObject({ status: 0, stderr: '' });
    expect(readRuns(root).runs).toHaveLength(3);
  });
});

describe('a user whose umask takes their own rights', () => {
  test.each(['0177', '0377', '0777'])('has scripts run all the same: %s', (umask) => {
    const root = makeRootOf(ALICE);
    const command = `umask ${umask}; exec "${process.execPath}" "${commandPath}" hourly --root "${root}"`;
    const { env } = cronPlace(root);
    const { status, stderr } = spawnSync('/bin/sh', ['-c', command], {
      ...{ uid: ALICE, gid: ALICE, cwd: '/', env, encoding: 'utf8' },
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(reasonOf(root)).toBe('it ran');
  });

  test('gets back a state folder that was left too closed', () => {
    const root = makeRootOf(ALICE);
    expect(runAs(ALICE, root).status).toBe(0);
    chmodSync(join(root, '.runner/locks'), 0o400);
    chmodSync(join(root, '.runner'), 0o600);
    expect(runAs(ALICE, root)).toEqual({ status: 0, stdout: '', stderr: '' });
  });
});

test('a copy of the log names the folder that its user may not write in', () => {
  const root = makeRootOf(ALICE);
  const other = makeRootOf(BOB);
  expect(runAs(ALICE, root).status).toBe(0);
  const place = { uid: ALICE, gid: ALICE, cwd: root, env: cronPlace(root).env } as const;
  const args = [commandPath, 'backup', join(other, 'x.db')];
  const { status, stderr } = spawnSync(process.execPath, args, { ...place, encoding: 'utf8' });
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr: `runner: ${other}/x.db was not written: your user may not write in ${other}; name a file in another folder\n`,
  });
});

describe('what a group can write runs', () => {
  test('where the group is the user’s own, as on hosts with umask 002', () => {
    for (const uid of [ALICE, WWW_DATA]) {
      const root = makeRootOf(uid);
      for (const path of ['', 'jobs', 'jobs/hourly', 'jobs/hourly/a.sh']) {
        chmodSync(join(root, path), 0o775);
      }
      expect(runAs(uid, root)).toEqual({ status: 0, stdout: '', stderr: '' });
    }
  });

  test('and not where others are in it, or it is not known who is', () => {
    const cases = [
      [WWW_DATA, GAMES_GROUP, `games (gid ${GAMES_GROUP})`],
      [ALICE, WWW_DATA, `www-data (gid ${WWW_DATA})`],
      [ALICE, BOB, `gid ${BOB}`],
    ] as const;
    for (const [uid, gid, name] of cases) {
      const root = makeRootOf(uid);
      chownSync(join(root, 'jobs/hourly/a.sh'), uid, gid);
      chmodSync(join(root, 'jobs/hourly/a.sh'), 0o664);
      expect(runAs(uid, root).status).toBe(1);
      expect(reasonOf(root)).toMatch(
        `jobs/hourly/a.sh can be written by the group ${name} (mode 0664); close it with: chmod g-w jobs/hourly/a.sh`,
      );
    }
  });
});

describe('root', () => {
  test('runs no script of a user: it would be the user’s way to become root', () => {
    const root = makeRootOf(0);
    chownSync(join(root, 'jobs/hourly/a.sh'), ALICE, ALICE);
    expect(runAs(0, root).status).toBe(1);
    expect(reasonOf(root)).toMatch(
      `jobs/hourly/a.sh belongs to uid ${ALICE}, and root uses only files of its own; look at it, and replace it by a copy of your own`,
    );
  });

  test('takes no compiled code from a user’s home, as under sudo', () => {
    const root = makeRootOf(0);
    const home = makeRootOf(ALICE, { '.cache/folder-runner/x': '' });
    chmodSync(join(home, '.cache/folder-runner'), 0o700);
    expect(runAs(0, root, { HOME: home }).status).toBe(0);
    expect(readdirSync(join(home, '.cache/folder-runner'))).toEqual(['x']);
  });

  test('makes no cache in a user’s home: the user could not use it', () => {
    const [root, home] = [makeRootOf(0), makeRootOf(ALICE)];
    expect(runAs(0, root, { HOME: home }).status).toBe(0);
    expect(readdirSync(home)).toEqual(['jobs']);
  });
});

describe('root in a user’s site', () => {
  const files = {
    'jobs/hourly/a.sh': executable(
      '#!/bin/sh\n# @env SHOP_TOKEN\nid -u; id -g; id -G; echo "${SHOP_TOKEN-none} $HOME"\n',
    ),
    'jobs/queue/h.mjs': 'export default () => process.geteuid();\n',
    'runner.config.mjs': 'if (process.getuid() === 0) throw new Error("as root");\nexport default {};\n',
  };

  /** All that is there: whose it is, its mode, and when the content of files last changed. */
  const look = (root: string) =>
    ['', ...readdirSync(root, { recursive: true, encoding: 'utf8' })]
      .map((path) => {
        const stats = lstatSync(join(root, path));
        const { uid, gid, mode, mtimeMs } = stats;
        return [path, uid, gid, mode, ...(stats.isFile() ? [mtimeMs] : [])].join(' ');
      })
      .toSorted();

  const owners = (root: string) =>
    new Set(readdirSync(root, { recursive: true, encoding: 'utf8' }).map((path) => lstatSync(join(root, path)).uid));

  const asRoot = (root: string, what: string) => runAs(0, root, { SHOP_TOKEN: 'tok-4711-0815', HOME: '/root' }, what);

  const readers = [
    ...['report', 'status', 'list', 'why hourly/a', 'show 1', 'tail hourly/a', 'jobs', 'job 2', 'activity', 'doctor'],
    ...['repeat hourly', 'next', 'metrics', 'check', 'incidents', 'web token list', 'alert list', 'watch'],
    ...['completion bash'],
  ];

  const verbs = [
    ...[
      'alert test',
      'alert add command true',
      'alert remove x',
      'acknowledge hourly/a',
      'mute hourly/a',
      'unmute hourly/a',
      'report --mail',
    ],
    ...[
      'hourly',
      'due',
      'run hourly/a',
      'exec x -- true',
      'stop hourly/a',
      'work',
      'add h',
      'claim h',
      'kick h',
      'pause',
      'resume',
      'job 1 cancel',
    ],
    ...[
      'init',
      'new hourly/n',
      'disable a',
      'enable a',
      'cron --print',
      'cron --install',
      'cron --remove',
      'backup x.db',
      'restore x.db',
      'uninstall',
      'import bedrock x.db',
      'hourly --budget 5m',
      'web --port 0',
      'web token add x',
      'web token revoke x',
      'migrate --to sqlite',
      'migrate --reopen',
    ],
  ];

  test.each(['', '.runner', 'jobs'])('does nothing, whatever it is told, where %j is the user’s', (path) => {
    const root = makeRootOf(path === '' ? ALICE : 0, { ...files, '.runner/x': '' });
    chownSync(join(root, path), ALICE, ALICE);
    const before = look(root);
    for (const what of verbs) {
      expect([what, asRoot(root, what)]).toEqual([
        what,
        {
          status: 2,
          stdout: '',
          stderr:
            `runner: ${join(root, path)} belongs to uid ${ALICE}, and root does nothing in another user's site; ` +
            "call this as that user, or add --as-root to do it with that user's rights\n",
        },
      ]);
    }
    expect(runAs(0, root, { HOME: '/root', RUNNER_ALLOW_UNSAFE: '1' }).status).toBe(2);
    expect(look(root)).toEqual(before);
  });

  test('either looks or acts: each command is one of these', () => {
    const named = [...verbs, ...readers].map((what) => what.split(' ')[0] as string);
    expect(commandNames.filter((name) => !named.includes(name))).toEqual([]);
  });

  test('names the owner, and the command that becomes it', () => {
    expect(asRoot(makeRootOf(WWW_DATA, files), 'hourly').stderr).toContain(
      "belongs to www-data (uid 33), and root does nothing in another user's site; call this as that user, such as with: su -s /bin/sh -c 'runner …' www-data, or",
    );
  });

  test('makes no new one in a user’s folder', () => {
    const home = makeRootOf(ALICE, { x: '' });
    const init = (...args: string[]) =>
      spawnSync(process.execPath, [commandPath, 'init', join(home, 'new/site'), ...args], { encoding: 'utf8' });
    expect(init()).toMatchObject({ status: 2, stderr: expect.stringContaining(`${home} belongs to uid ${ALICE}`) });
    expect(readdirSync(home)).toEqual(['jobs', 'x']);
    expect(init('--as-root')).toMatchObject({ status: 0, stderr: '' });
    expect(owners(home)).toEqual(new Set([ALICE]));
  });

  test('reads as that user, and changes nothing', () => {
    const root = makeRootOf(ALICE, files);
    for (const what of ['add h', 'hourly']) expect(runAs(ALICE, root, {}, what).status).toBe(0);
    rmSync(join(root, '.cache'), { recursive: true, force: true });
    const before = look(root);
    for (const what of readers) {
      expect([what, asRoot(root, what)]).toEqual([
        what,
        { ...runAs(ALICE, root, { HOME: '/' }, what), stdout: expect.any(String) },
      ]);
      expect([what, look(root)]).toEqual([what, before]);
    }
    expect(asRoot(root, 'report').stdout).toMatch(/^ +a +.* succeeded /m);
    const fresh = makeRootOf(ALICE, files);
    for (const what of ['report', 'status', 'list']) expect(asRoot(fresh, what).status).toBe(0);
    expect(existsSync(join(fresh, '.runner'))).toBe(false);
  });

  test('does with --as-root what that user would do, and all that it makes is theirs', () => {
    const root = makeRootOf(ALICE, files);
    for (const what of ['init', 'hourly', 'add h', 'work', 'pause hourly', 'kick h']) {
      expect([what, asRoot(root, `--as-root ${what}`)]).toMatchObject([what, { status: 0, stderr: '' }]);
    }
    expect(owners(root)).toEqual(new Set([ALICE]));
    expect(asRoot(root, 'show 1').stdout).toContain(`\n${ALICE}\n${ALICE}\n${ALICE}\nnone `);
    expect(runAs(ALICE, root, {}, 'resume')).toMatchObject({ status: 0, stderr: '' });
    expect(runAs(ALICE, root)).toMatchObject({ status: 0, stderr: '' });
    checkInvariants(root);
  });

  test('reaches by its links nothing that the user could not', () => {
    const [root, other] = [makeRootOf(ALICE, files), makeRootOf(0, { 'output/x': '', 'tier/x': '' })];
    for (const path of ['output', 'tier']) chmodSync(join(other, path), 0o755);
    const links = { '.runner': '', 'jobs/daily': 'tier' };
    for (const [path, target] of Object.entries(links)) {
      symlinkSync(join(other, target), join(root, path));
      lchownSync(join(root, path), ALICE, ALICE);
    }
    const before = look(other);
    for (const what of ['init', 'hourly', 'add h', 'daily']) asRoot(root, `--as-root ${what}`);
    expect(look(other)).toEqual(before);
  });

  test('opens no queue: the library cannot become that user', async () => {
    const root = makeRootOf(ALICE, files);
    const before = look(root);
    await expect(openQueue({ root, env: { RUNNER_ALLOW_UNSAFE: '1' } })).rejects.toMatchObject({
      code: 'invalid',
      message: `${root} belongs to uid ${ALICE}, and root does nothing in another user's site; call this as that user.`,
    });
    expect(look(root)).toEqual(before);
  });

  test('says so where the user cannot read the runner or the site, or where this root may be nobody else', () => {
    const root = makeRootOf(ALICE, files);
    const dist = makeTemporaryRoot({});
    cpSync(dirname(commandPath), join(dist, 'dist'), { recursive: true });
    chmodSync(dist, 0o700);
    const run = (program: string, ...args: string[]) =>
      spawnSync(program, [...args, '--root', root, '--as-root', 'hourly'], {
        encoding: 'utf8',
        env: { PATH: process.env.PATH },
      });
    expect(run(process.execPath, join(dist, 'dist/bin.cjs'))).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/^runner: uid 4711 cannot do this: let that user read .* \(EACCES: .*\)\n$/),
    });
    const closed = makeRootOf(0, { 'site/jobs/hourly/a.sh': '' });
    chmodSync(closed, 0o700);
    chownSync(join(closed, 'site'), ALICE, ALICE);
    expect(runAs(0, join(closed, 'site'), {}, 'list')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(`(EACCES: permission denied, stat '${closed}/site')`),
    });
    expect(run('setpriv', '--bounding-set=-setuid', '--inh-caps=-setuid', process.execPath, commandPath)).toMatchObject(
      {
        status: 2,
        stderr: expect.stringMatching(/^runner: root may not take the rights of uid 4711 here \(EPERM.*\)\n$/),
      },
    );
    expect(existsSync(join(root, '.runner'))).toBe(false);
  });
});

test('root in a site of its own goes on as before', () => {
  const root = makeRootOf(0, { 'jobs/hourly/a.sh': '', 'jobs/queue/h.sh': executable('#!/bin/sh\n') });
  for (const what of ['init', 'hourly', '--as-root hourly', 'add h', 'work', 'report']) {
    expect([what, runAs(0, root, {}, what)]).toMatchObject([what, { status: 0, stderr: '' }]);
  }
});
