import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, copyFileSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import { NoSuchTier } from '../../../src/discovery/jobs-folder.ts';
import type { Script } from '../../../src/discovery/script.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { UsageError } from '../../../src/system/base/errors.ts';
import { executable, type FileContent, makeTemporaryRoot } from '../../support/root.ts';
import { tries } from '../../support/tries.ts';

type Files = Readonly<Record<string, FileContent>>;

/** A root whose hourly tier holds these files. */
function makeHourly(files: Files): string {
  const inTier = Object.entries(files).map(([name, file]) => [`jobs/hourly/${name}`, file]);
  const root = makeTemporaryRoot(Object.fromEntries(inTier));
  mkdirSync(join(root, 'jobs/hourly'), { recursive: true });
  return root;
}

async function discoverHourly(root: string, settings = defaultSettings) {
  const { tiers, ignored } = await discover(root, settings, { tier: 'hourly' });
  return { scripts: tiers[0]?.scripts ?? [], ignored };
}

async function discoverOne(files: Files): Promise<Script> {
  const { scripts } = await discoverHourly(makeHourly(files));
  expect(scripts).toHaveLength(1);
  return scripts[0] as Script;
}

function names(scripts: readonly Script[]): readonly string[] {
  return scripts.map((script) => script.name);
}

function reasons(root: string, ignored: readonly { path: string; reason: string }[]) {
  return Object.fromEntries(ignored.map(({ path, reason }) => [relative(root, path), reason]));
}

describe('tiers', () => {
  test('every folder under jobs is a tier, the most frequent first, those without a period last', async () => {
    const root = makeTemporaryRoot();
    for (const tier of ['yearly', 'daily', '15min', 'reports', '2hours', 'a b']) {
      mkdirSync(join(root, 'jobs', tier));
    }
    const { tiers, ignored } = await discover(root, defaultSettings);
    expect(tiers.map(({ name, periodMs }) => [name, periodMs])).toEqual([
      ['15min', 900_000],
      ['2hours', 7_200_000],
      ['daily', 86_400_000],
      ['yearly', 31_536_000_000],
      ['a b', null],
      ['reports', null],
    ]);
    expect(ignored).toEqual([]);
  });

  test('what is no tier under jobs is named with the reason', async () => {
    const root = makeTemporaryRoot({
      'jobs/clean.sh': '',
      'jobs/.gitkeep': '',
      'jobs/package.json': '{}',
      'jobs/_shared/a.ts': '',
      'jobs/node_modules/x/index.js': '',
      'jobs/hourly.disabled/a.sh': '',
      'jobs/queue/mail/welcome.ts': '',
      'jobs/bad\nname/a.sh': '',
      [`jobs/${'é'.repeat(51)}/a.sh`]: '',
      [`jobs/${'é'.repeat(50)}/a.sh`]: '',
      'jobs/daily/a.sh': '',
    });
    symlinkSync('nowhere', join(root, 'jobs/broken'));
    const { tiers, ignored } = await discover(root, defaultSettings);
    const outside = 'not in a tier; move it into one, such as jobs/hourly';
    expect(tiers.map((tier) => tier.name)).toEqual(['daily', 'é'.repeat(50)]);
    expect(reasons(root, ignored)).toEqual({
      'jobs/clean.sh': outside,
      'jobs/.gitkeep': outside,
      'jobs/package.json': outside,
      'jobs/broken': outside,
      'jobs/_shared': 'its name begins with _',
      'jobs/node_modules': 'node_modules contains packages, not scripts',
      'jobs/hourly.disabled': 'disabled: its name ends in .disabled',
      'jobs/bad\nname': 'its name contains control characters',
      [`jobs/${'é'.repeat(51)}`]: "its name is longer than the 100 bytes that a tier's may have; rename it",
    });
  });

  test('jobs/queue is no tier: it has handlers', async () => {
    const root = makeTemporaryRoot({ 'jobs/queue/mail/welcome.ts': '', 'jobs/queue/mail.txt': '' });
    const { tiers, handlers, ignored } = await discover(root, defaultSettings);
    expect(tiers).toEqual([]);
    expect(handlers).toMatchObject([{ name: 'queue/mail/welcome', tier: 'queue', refusals: [] }]);
    expect(reasons(root, ignored)).toEqual({ 'jobs/queue/mail.txt': 'text' });
  });

  test('an empty jobs/queue is not worth a word', async () => {
    const root = makeTemporaryRoot();
    mkdirSync(join(root, 'jobs/queue'));
    expect(await discover(root, defaultSettings)).toEqual({
      tiers: [],
      unread: [],
      handlers: [],
      ignored: [],
      elsewhere: [],
      warnings: [],
    });
  });

  test('a tier may be a symlink to a folder', async () => {
    const root = makeTemporaryRoot({ 'elsewhere/a.sh': '' });
    symlinkSync('../elsewhere', join(root, 'jobs/hourly'));
    expect(names((await discoverHourly(root)).scripts)).toEqual(['hourly/a']);
  });

  test('only the named tier is read, and without the glob library', async () => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '', 'jobs/daily/b.sh': '' });
    const { tiers } = await discover(root, defaultSettings, { tier: 'hourly' });
    expect(tiers.map((tier) => names(tier.scripts))).toEqual([['hourly/a']]);
    expect(loadsGlob(root, {})).toBe(false);
    expect(loadsGlob(root, { 'hourly/a': { nice: 1 } })).toBe(false);
    expect(loadsGlob(root, { 'hourly/*': { nice: 1 } })).toBe(true);
  });

  test.each([
    ['hurly', 'did you mean hourly', true],
    ['../jobs/hourly', 'the tiers here are daily, hourly', false],
    ['hourly/', 'did you mean hourly', true],
    ['.', 'the tiers here are daily, hourly', false],
    ['', 'the tiers here are daily, hourly', false],
  ])('the tier %j is wrong use', async (tier, cure, asks) => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '', 'jobs/daily/b.sh': '', 'jobs/queue/c.ts': '' });
    const asked = discover(root, defaultSettings, { tier });
    await expect(asked).rejects.toThrow(
      new NoSuchTier(`There is no tier ${JSON.stringify(tier)} in ${root}/jobs; ${cure}`, asks),
    );
  });

  test('a tier where there is none yet: how to make one', async () => {
    const root = makeTemporaryRoot({ 'jobs/queue/c.ts': '' });
    await expect(discover(root, defaultSettings, { tier: 'hourly' })).rejects.toThrow(
      'there is none yet: `npx folder-runner init` creates some, `npx folder-runner new` one with a script.',
    );
  });
});

test('to run the handlers as a tier is wrong use, with the command that runs them', async () => {
  const root = makeTemporaryRoot({ 'jobs/queue/c.ts': '' });
  await expect(discover(root, defaultSettings, { tier: 'queue' })).rejects.toThrow(
    new UsageError(
      'jobs/queue is not a tier: it contains the handlers of queued jobs, which `npx folder-runner work` processes.',
    ),
  );
});

/** Whether a pass over the hourly tier with these settings resolves the glob library. */
function loadsGlob(root: string, scripts: Readonly<Record<string, object>>): boolean {
  const source = (path: string) => JSON.stringify(new URL(`../../../src/${path}`, import.meta.url).href);
  const watch = `
    import { registerHooks } from 'node:module';
    let found = false;
    registerHooks({ resolve(specifier, context, next) {
      if (specifier === 'glob') found = true;
      return next(specifier, context);
    } });
    const { discover } = await import(${source('discovery/discover.ts')});
    const { defaultSettings } = await import(${source('settings/settings.ts')});
    const settings = { ...defaultSettings, scripts: ${JSON.stringify(scripts)} };
    await discover(process.argv[1], settings, { tier: 'hourly' });
    console.log(found);`;
  const args = ['--input-type=module', '-e', watch, root];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect(stderr).toBe('');
  return stdout.trim() === 'true';
}

describe('scripts', () => {
  test('a script is described completely', async () => {
    const content = '#!/bin/sh\n# @timeout 5m\necho\n';
    const root = makeHourly({ 'clean-tmp.sh': content });
    const path = join(root, 'jobs/hourly/clean-tmp.sh');
    expect((await discoverHourly(root)).scripts).toEqual([
      {
        name: 'hourly/clean-tmp',
        tier: 'hourly',
        path,
        launch: { kind: 'program', command: ['/bin/sh', path] },
        options: { timeoutMs: 300_000 },
        contentHash: createHash('sha256').update(content).digest('hex'),
        refusals: [],
        warnings: [],
      },
    ]);
  });

  test('they come in the order of their file names, by bytes', async () => {
    const files = ['b.sh', 'B.sh', 'a-b.sh', 'a.sh', '10.sh', '9.sh', 'ä.sh', '\uff5e.sh', '😀.sh'];
    const root = makeHourly(Object.fromEntries(files.map((file) => [file, executable('#!/bin/sh')])));
    const { scripts } = await discoverHourly(root);
    const sorted = execFileSync('sort', {
      input: readdirSync(join(root, 'jobs/hourly')).join('\n'),
      env: { LC_ALL: 'C' },
    });
    expect(scripts.map(({ path }) => relative(join(root, 'jobs/hourly'), path))).toEqual(
      sorted.toString().trim().split('\n'),
    );
  });

  test.each(['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs'])(
    '%s is run by Node, whatever its #! line and mode',
    async (extension) => {
      const script = await discoverOne({ [`a${extension}`]: '#!/usr/bin/env -S deno run\r\n' });
      expect(script).toMatchObject({ name: 'hourly/a', launch: { kind: 'node' }, refusals: [] });
    },
  );

  test.each([
    ['a.sh', '', ['/bin/sh']],
    ['a.py', '', ['python3']],
    ['a.php', '<?php', ['php']],
    ['a.pl', '', ['perl']],
    ['a.rb', '', ['ruby']],
    ['a.sh', '#!/bin/bash -e\n', ['/bin/bash', '-e']],
    ['a.py', '#! /usr/bin/env python2.7 \n', ['/usr/bin/env', 'python2.7']],
    ['a.php', '#!/usr/bin/php8.2 -q\n<?php', ['/usr/bin/php8.2', '-q']],
  ])('%s with %j needs no execute bit', async (name, content, command) => {
    const { launch, path, refusals } = await discoverOne({ [name]: content });
    expect(launch).toEqual({ kind: 'program', command: [...command, path] });
    expect(refusals).toEqual([]);
  });

  test.each([
    ['man-db', 'hourly/man-db'],
    ['backup.bash', 'hourly/backup'],
    ['a.b.c', 'hourly/a.b'],
  ])('the executable %s is run by its #! line, as %s', async (file, name) => {
    const script = await discoverOne({ [file]: executable('#!/usr/bin/env -S bash -eu\necho') });
    expect(script).toMatchObject({ name, refusals: [] });
    expect(script.launch).toEqual({ kind: 'program', command: ['/usr/bin/env', '-S bash -eu', script.path] });
  });

  test('a program for this system is run as it is, its bytes not taken for tags', async () => {
    const root = makeHourly({});
    copyFileSync('/bin/true', join(root, 'jobs/hourly/true'));
    const { scripts } = await discoverHourly(root);
    expect(scripts).toMatchObject([{ name: 'hourly/true', options: {}, refusals: [], warnings: [] }]);
    expect(scripts[0]?.launch).toEqual({ kind: 'program', command: [scripts[0]?.path] });
  });

  test("an executable without extension that asks env for node is run by the runner's own Node", async () => {
    const script = await discoverOne({ tool: executable('#!/usr/bin/env node\n// @retries 2\n') });
    expect(script).toMatchObject({ launch: { kind: 'node' }, options: { retries: 2 }, refusals: [] });
  });

  test.each([
    ['a.php', '#!/usr/bin/env php\n<?php\n/** @nice 3 */'],
    ['tool', '#!/usr/bin/php\n<?php\n/** @nice 3 */'],
    ['tool', '#!/usr/bin/env -S deno run\n// @nice 3'],
    ['tool', '#!/usr/bin/awk -f\n# @nice 3'],
    ['a.rb', '# @nice 3'],
    ['a.mts', '/* @nice 3 */'],
  ])('the tags of %s are found in the comments of its language: %j', async (name, content) => {
    expect((await discoverOne({ [name]: executable(content) })).options).toEqual({ nice: 3 });
  });

  test('tags behind the first 64 KB are not looked for', async () => {
    const script = await discoverOne({ 'a.sh': `#!/bin/sh\n${'\n'.repeat(65_536)}# @nice 3\n` });
    expect(script).toMatchObject({ options: {}, refusals: [] });
  });

  test('settings apply by tier, by script name and by file name', async () => {
    const root = makeHourly({ 'a.sh': '# @nice 5', 'b.py': '' });
    const settings = {
      ...defaultSettings,
      defaults: { retries: 1 },
      tiers: { hourly: { nice: 1 } },
      scripts: { 'hourly/{a,b}': { nice: 2 }, 'hourly/*.py': { nice: 3 } },
    };
    const { scripts } = await discoverHourly(root, settings);
    expect(scripts.map((script) => script.options)).toEqual([
      { retries: 1, nice: 5 },
      { retries: 1, nice: 3 },
    ]);
  });

  test.each([
    'two words.sh',
    `quo"te's.sh`,
    '100%.sh',
    'größe 漢字 😀.sh',
    '-rf.sh',
    '$(x)`y`.sh',
    '*.sh',
    'back\\slash.sh',
  ])('a script called %s works', async (file) => {
    const { name, launch, refusals } = await discoverOne({ [file]: 'echo works' });
    expect(name).toBe(`hourly/${file.slice(0, -3)}`);
    expect(refusals).toEqual([]);
    expect(run(launch)).toBe('works\n');
  });
});

function run(launch: Script['launch']): string {
  if (launch.kind === 'node') throw new Error('not a program');
  const [program, ...args] = launch.command;
  return execFileSync(program, args, { encoding: 'utf8' });
}

describe('folders', () => {
  test.each([
    ['index.ts', ''],
    ['index.sh', ''],
    ['index', executable('#!/bin/sh')],
    ['backup', executable('#!/bin/sh')],
    ['backup.sh', executable('#!/bin/sh')],
  ])('a folder with %s is one script', async (file, content) => {
    const script = await discoverOne({ [`backup/${file}`]: content, 'backup/helper.ts': '', 'backup/index.json': '' });
    expect(script).toMatchObject({ name: 'hourly/backup', refusals: [] });
    expect(script.path.endsWith(`jobs/hourly/backup/${file}`)).toBe(true);
  });

  test('its index comes before an executable of its name', async () => {
    const script = await discoverOne({ 'backup/index.ts': '', 'backup/backup': executable('#!/bin/sh') });
    expect(script.path.endsWith('backup/index.ts')).toBe(true);
  });

  test('two indexes are two files with one script name', async () => {
    const { scripts } = await discoverHourly(makeHourly({ 'a/index.js': '', 'a/index.ts': '', 'a/index.d.ts': '' }));
    expect(scripts.map((script) => script.refusals)).toEqual([
      ['jobs/hourly/a/index.js: it has the same script name (hourly/a) as jobs/hourly/a/index.ts; rename one of them'],
      ['jobs/hourly/a/index.ts: it has the same script name (hourly/a) as jobs/hourly/a/index.js; rename one of them'],
    ]);
  });

  test('any other folder is named, and in the list the files in it', async () => {
    const root = makeHourly({
      'parts/helper.ts': '',
      'parts/part.ts': '',
      'parts/deep/.hidden': '',
      'parts/node_modules/x/index.js': '',
      'x.sh/readme': '',
    });
    mkdirSync(join(root, 'jobs/hourly/empty'));
    const folder = 'a folder without an index.* file';
    const pass = await discoverHourly(root);
    expect(pass.scripts).toEqual([]);
    expect(reasons(root, pass.ignored)).toEqual({
      'jobs/hourly/empty': folder,
      'jobs/hourly/parts': folder,
      'jobs/hourly/x.sh': folder,
    });
    expect(reasons(root, (await discover(root, defaultSettings)).ignored)).toEqual({
      'jobs/hourly/empty': folder,
      'jobs/hourly/parts': folder,
      'jobs/hourly/parts/helper.ts': `it is in ${folder}`,
      'jobs/hourly/parts/part.ts': `it is in ${folder}`,
      'jobs/hourly/parts/deep/.hidden': `it is in ${folder}`,
      'jobs/hourly/x.sh': folder,
      'jobs/hourly/x.sh/readme': `it is in ${folder}`,
    });
  });

  test('of a large folder the files are counted', async () => {
    const files = Object.fromEntries(Array.from({ length: 21 }, (_, index) => [`many/${index}.php`, '']));
    const root = makeHourly(files);
    expect(reasons(root, (await discover(root, defaultSettings)).ignored)).toEqual({
      'jobs/hourly/many': 'a folder without an index.* file; it contains 21 files',
    });
  });
});

describe('ignored files', () => {
  test('each is named with its reason', async () => {
    const root = makeHourly({
      '.hidden.sh': '',
      '_part.ts': '',
      'a.d.ts': '',
      'README.md': '',
      'data.csv': '',
      forgotten: '#!/bin/sh',
      'node_modules/x/index.js': '',
      'old.disabled/index.ts': '',
    });
    execFileSync('mkfifo', [join(root, 'jobs/hourly/pipe.sh')]);
    symlinkSync('pipe.sh', join(root, 'jobs/hourly/to-pipe.sh'));
    const { scripts, ignored } = await discoverHourly(root);
    expect(scripts).toEqual([]);
    expect(reasons(join(root, 'jobs/hourly'), ignored)).toEqual({
      '.hidden.sh': 'hidden: its name begins with a dot',
      '_part.ts': 'its name begins with _',
      'a.d.ts': 'a type declaration, which does nothing',
      'README.md': 'documentation',
      'data.csv': 'not executable, and not a known extension',
      forgotten: 'not executable, and not a known extension; to run it by its #! line: chmod +x jobs/hourly/forgotten',
      node_modules: 'node_modules contains packages, not scripts',
      'old.disabled': 'disabled: its name ends in .disabled',
      'pipe.sh': 'not a file: a pipe, a socket or a device',
      'to-pipe.sh': 'not a file: a pipe, a socket or a device',
    });
  });
});

describe('refusals', () => {
  test('two files with one script name are both refused, and others are not', async () => {
    const { scripts } = await discoverHourly(makeHourly({ 'a.sh': '', 'a/index.ts': '', 'b.ts': '' }));
    expect(scripts.map(({ name, refusals }) => [name, refusals])).toEqual([
      [
        'hourly/a',
        ['jobs/hourly/a/index.ts: it has the same script name (hourly/a) as jobs/hourly/a.sh; rename one of them'],
      ],
      [
        'hourly/a',
        ['jobs/hourly/a.sh: it has the same script name (hourly/a) as jobs/hourly/a/index.ts; rename one of them'],
      ],
      ['hourly/b', []],
    ]);
  });

  test('wrong tags refuse the script with every problem', async () => {
    const { refusals, warnings } = await discoverOne({
      'a.py': '#!/usr/bin/python3\n# @timeout soon\n# @nice x\n# @timout 5m',
    });
    expect(refusals).toEqual([
      'jobs/hourly/a.py:2: @timeout must be a duration such as 30s, 10m or 2h, found "soon"',
      'jobs/hourly/a.py:3: @nice must be a whole number from 0 to 19, found "x"',
    ]);
    expect(warnings).toEqual(['jobs/hourly/a.py:4: @timout is not known and has no effect; did you mean @timeout?']);
  });

  test.each([
    [
      'CRLF',
      "it's.sh",
      '#!/bin/sh -e\r\necho works\r\n',
      /^jobs\/hourly\/it's\.sh:1: the #! line needs an interpreter and a line end without CR, found "#!\/bin\/sh -e\\r" with a Windows line end \(CRLF\); convert the file with: (.*)$/,
    ],
    [
      'a byte-order mark',
      "it's.sh",
      '\ufeff#!/bin/sh\necho works\n',
      /^jobs\/hourly\/it's\.sh:1: a byte-order mark before #! hides the interpreter; remove it with: (.*)$/,
    ],
  ])('%s in the #! line is refused with a cure that works', async (_title, file, content, message) => {
    const root = makeHourly({ [file]: content });
    const [refused] = (await discoverHourly(root)).scripts;
    expect(refused?.refusals).toEqual([expect.stringMatching(message)]);
    const [, cure = ''] = message.exec(refused?.refusals[0] ?? '') ?? [];
    execFileSync('/bin/sh', ['-c', cure], { cwd: root });
    const [cured] = (await discoverHourly(root)).scripts;
    expect(cured?.refusals).toEqual([]);
    expect(run(cured?.launch ?? { kind: 'node' })).toBe('works\n');
  });

  test.each(['.mjs', '.ts', '.mts', '.cjs', '.js'])(
    'a byte-order mark and a #! line in %s: refused exactly if Node cannot run it',
    async (extension) => {
      const source = extension === '.cjs' || extension === '.js' ? 'require("node:fs");' : 'export {};';
      const script = await discoverOne({ [`a${extension}`]: `\ufeff#!/usr/bin/env node\n${source}\n` });
      const { status } = spawnSync(process.execPath, [script.path]);
      expect(script.refusals.length === 0).toBe(status === 0);
    },
  );

  test.each([
    [
      'a.sh',
      '#!\necho',
      'jobs/hourly/a.sh:1: the #! line needs an interpreter, found none; write one such as #!/bin/sh',
    ],
    [
      'tool',
      'echo',
      'jobs/hourly/tool: an executable file without a known extension needs a #! line or a program for this system, found neither; write a first line such as #!/bin/sh',
    ],
    [
      'tool',
      '',
      'jobs/hourly/tool: an executable file without a known extension needs a #! line or a program for this system, found an empty file; write a first line such as #!/bin/sh',
    ],
  ])('%s with %j is refused', async (file, content, refusal) => {
    expect((await discoverOne({ [file]: executable(content) })).refusals).toEqual([refusal]);
  });

  test("control characters in a name are refused, and never part of the script's name", async () => {
    const script = await discoverOne({ 'a\n\u001b[31m.sh': '' });
    expect(script.name).toBe('hourly/a\\n\\u001b[31m');
    expect(script.refusals).toEqual([
      'jobs/hourly/a\\n\\u001b[31m.sh: its name contains control characters; rename it',
    ]);
  });

  test('a name that is too long with that of its tier is refused, and cut', async () => {
    const [label, longest, wide] = ['x'.repeat(249), 'y'.repeat(248), `${'z'.repeat(240)}😀😀`];
    const root = makeHourly({ [`${label}.sh`]: '', [`${longest}.sh`]: '', [`${wide}.py`]: '' });
    const { scripts } = await discoverHourly(root);
    const refusal = `jobs/hourly/${label}.sh: its name is too long: tier and name together have at most 255 characters; rename it`;
    expect(scripts.map(({ name, refusals }) => [name, refusals])).toEqual([
      [`hourly/${'x'.repeat(247)}…`, [refusal]],
      [`hourly/${longest}`, []],
      [`hourly/${wide}`, []],
    ]);
  });

  test('a name that is not UTF-8 is refused', async () => {
    const root = makeHourly({});
    writeFileSync(Buffer.concat([Buffer.from(`${root}/jobs/hourly/a`), Buffer.from([0xff]), Buffer.from('.sh')]), '');
    const { scripts } = await discoverHourly(root);
    expect(scripts.map((script) => script.refusals)).toEqual([
      ['jobs/hourly/a\ufffd.sh: its name is not valid UTF-8; rename it'],
    ]);
  });

  test('symlinks work, and broken or looping ones are refused', async () => {
    const root = makeHourly({ 'a.sh': 'echo works', 'own/index.ts': '' });
    const link = (target: string, name: string) => symlinkSync(target, join(root, 'jobs/hourly', name));
    link('a.sh', 'b.sh');
    link('own', 'c');
    link('nowhere', 'd.sh');
    link('e.sh', 'e.sh');
    link('..', 'f');
    const { scripts, ignored } = await discoverHourly(root);
    expect(Object.fromEntries(scripts.map(({ name, refusals }) => [name, refusals]))).toEqual({
      'hourly/a': [],
      'hourly/b': [],
      'hourly/c': [],
      'hourly/d': ['jobs/hourly/d.sh: a symlink to "nowhere", which does not exist; fix or remove it'],
      'hourly/e': ['jobs/hourly/e.sh: a symlink that leads back to itself; fix or remove it'],
      'hourly/own': [],
    });
    expect(ignored.map(({ path }) => relative(root, path))).toEqual(['jobs/hourly/f']);
    const linked = scripts.find(({ name }) => name === 'hourly/b');
    expect(run(linked?.launch ?? { kind: 'node' })).toBe('works\n');
  });

  test('what cannot be read is refused with the cure', async () => {
    const root = makeHourly({ 'a.sh': '', 'b/index.ts': '' });
    for (const folder of ['', 'jobs', 'jobs/hourly']) chmodSync(join(root, folder), 0o755);
    chmodSync(join(root, 'jobs/hourly/a.sh'), 0o000);
    chmodSync(join(root, 'jobs/hourly/b'), 0o000);
    onTestFinished(() => chmodSync(join(root, 'jobs/hourly/b'), 0o755));
    const { scripts } = await asOrdinaryUser(() => discoverHourly(root));
    expect(scripts.map(({ refusals }) => refusals)).toEqual([
      ['jobs/hourly/a.sh: it cannot be read: permission denied; allow it with: chmod u+rX jobs/hourly/a.sh'],
      ['jobs/hourly/b: it cannot be read: permission denied; allow it with: chmod u+rX jobs/hourly/b'],
    ]);
    expect(scripts.map(({ contentHash }) => contentHash)).toEqual([null, null]);
  });
});

/** Root may read everything, so it steps down for a moment. */
async function asOrdinaryUser<T>(action: () => Promise<T>): Promise<T> {
  if (process.geteuid?.() !== 0) return action();
  process.seteuid?.(65_534);
  try {
    return await action();
  } finally {
    process.seteuid?.(0);
  }
}

describe('warnings', () => {
  test('a shell script with Windows line ends runs, with a warning and a cure that works', async () => {
    const root = makeHourly({ 'a.sh': 'echo works\r\n' });
    const [script] = (await discoverHourly(root)).scripts;
    const [, cure = ''] =
      /^jobs\/hourly\/a\.sh: its lines end as on Windows \(CRLF\), which a shell takes as part of each command; convert it with: (.*)$/.exec(
        script?.warnings[0] ?? '',
      ) ?? [];
    expect(script?.refusals).toEqual([]);
    execFileSync('/bin/sh', ['-c', cure], { cwd: root });
    expect(readFileSync(join(root, 'jobs/hourly/a.sh'), 'utf8')).toBe('echo works\n');
    expect((await discoverHourly(root)).scripts[0]?.warnings).toEqual([]);
  });

  test('a script of a small shell such as ash is a shell script, too', async () => {
    const files = {
      'a.sh': '#!/bin/ash\necho so >/dev/stderr\n',
      'b.sh': '#!/bin/busybox ash\necho so >/dev/stderr\n',
    };
    const { scripts } = await discoverHourly(makeHourly(files));
    const empties = "> /dev/stderr empties the run's output so far; write >&2 or >&1 instead";
    expect(scripts.map((script) => script.warnings)).toEqual([
      [`jobs/hourly/a.sh:2: ${empties}`],
      [`jobs/hourly/b.sh:2: ${empties}`],
    ]);
  });

  test('@memory says that it has no effect on scripts of other languages', async () => {
    const files = { 'a.sh': '# @memory 64mb', 'b.ts': '// @memory 64mb' };
    const { scripts } = await discoverHourly(makeHourly(files));
    expect(scripts.map((script) => script.warnings)).toEqual([
      ['jobs/hourly/a.sh: @memory limits only the heap of Node scripts and has no effect here'],
      [],
    ]);
  });
});

describe('any folder', () => {
  const letters = fc.constantFrom('a', 'B', '.', '-', '_', ' ', '~', '%', "'", '"', '\n', '\\', '*', 'é', '漢', '😀');
  const stem = fc.array(letters, { minLength: 1, maxLength: 8 }).map((signs) => signs.join(''));
  const extension = fc.constantFrom('', '.sh', '.ts', '.d.ts', '.js', '.bak', '.test.ts', '.json', '.xyz', '~');
  const name = fc
    .tuple(stem, extension)
    .map((parts) => parts.join(''))
    .filter((text) => text !== '.' && text !== '..');
  const content = fc.oneof(
    fc.uint8Array({ maxLength: 80 }).map((bytes) => Buffer.from(bytes)),
    fc
      .constantFrom('', '#!', '#!/bin/sh\n', '#!/bin/sh\r\n', '\ufeff#!/bin/sh\n', '\x7fELF', '# @timeout x')
      .map((text) => Buffer.from(text)),
  );
  const file = fc.record({ name, content, mode: fc.constantFrom(0o644, 0o755) });

  test('has each of its files either as a script or ignored with a reason', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(file, { selector: (one) => one.name, maxLength: 8 }), async (files) => {
        const root = makeHourly(Object.fromEntries(files.map((one) => [one.name, one])));
        const { scripts, ignored } = await discoverHourly(root);
        const found = [...scripts, ...ignored].map(({ path }) => path).toSorted();
        expect(found).toEqual(
          readdirSync(join(root, 'jobs/hourly'))
            .map((one) => join(root, 'jobs/hourly', one))
            .toSorted(),
        );
        for (const { name, refusals, warnings } of scripts) {
          expect([name, ...refusals, ...warnings].join('')).not.toMatch(/\p{Cc}/u);
        }
      }),
      { numRuns: tries(100) },
    );
  });
});

test.each([
  ['console.log(1)', true],
  ['export default () => {};', false],
  ['export { run as default }; const run = () => {};', false],
  ['module.exports = () => {};', false],
  ['exports.default = () => {};', false],
  // It starts itself; the runner calling it as well would run it twice.
  ['/* import.meta.main */ export default () => {};\n// require.main', false],
  ['export default main; if (import.meta.main) main(); function main() {}', true],
  ['module.exports = main; if (require.main === module) main(); function main() {}', true],
  [`console.log(1);${' '.repeat(65_536)}`, false],
])(
  'of the script %#, a function for the runner is looked for unless it can have none',
  async (source, exportsNothing) => {
    const root = makeTemporaryRoot({ 'jobs/hourly/a.js': source });
    const [script] = (await discover(root, defaultSettings, { tier: 'hourly' })).tiers[0]?.scripts ?? [];
    expect(script?.launch).toEqual(exportsNothing ? { kind: 'node', exportsNothing } : { kind: 'node' });
  },
);

test.each([
  ['echo ill > /dev/stderr', '>'],
  ['echo ill >/dev/stdout', '>'],
  ['echo ill 2>/dev/stderr', '>'],
  ['echo ill >> /dev/stderr', null],
  ['echo ill >&2', null],
  ['# echo ill > /dev/stderr', null],
  ['echo ill > /dev/null', null],
])('the shell line %j is pointed out when it would empty the output', async (line, found) => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': `#!/bin/bash\n${line}\n` });
  const [script] = (await discover(root, defaultSettings, { tier: 'hourly' })).tiers[0]?.scripts ?? [];
  const warning = expect.stringMatching(/^jobs\/hourly\/a\.sh:2: > \/dev\/std(err|out) empties/);
  expect(script?.warnings).toEqual(found === null ? [] : [warning]);
});

test('a folder that is called as a command is no tier, and says so', async () => {
  const root = makeTemporaryRoot({ 'jobs/report/a.sh': 'exit 0\n' });
  const { tiers, ignored } = await discover(root, defaultSettings);
  expect(tiers).toEqual([]);
  expect(ignored[0]?.reason).toBe('`npx folder-runner report` is a command; rename the folder');
});
