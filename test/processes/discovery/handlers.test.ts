import { chmodSync, mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import { type Handlers, isSettled, openHandlers } from '../../../src/discovery/handlers.ts';
import { defaultTimeoutMs } from '../../../src/schedule/period.ts';
import { defaultSettings, type Settings } from '../../../src/settings/settings.ts';
import { executable, type FileContent, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

type Files = Readonly<Record<string, FileContent>>;

/** A root whose queue has these handlers. */
function makeQueue(files: Files): string {
  const inQueue = Object.entries(files).map(([name, file]) => [`jobs/queue/${name}`, file]);
  return makeTemporaryRoot(Object.fromEntries(inQueue));
}

function open(files: Files, settings: Settings = defaultSettings): Promise<Handlers> {
  return openHandlers(makeQueue(files), settings);
}

/** As from another process, with its folders. */
function write(root: string, name: string, content: string): void {
  const path = join(root, 'jobs/queue', name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}

/** What was changed only just is read again in any case. */
async function untilSettled(path: string): Promise<void> {
  await until('it is long unchanged', () => isSettled(path));
}

describe('names', () => {
  test('a handler is called by its path below jobs/queue, a folder with an index by its own', async () => {
    const handlers = await open({
      'mail/welcome.ts': '',
      'mail/goodbye/index.py': '',
      'mail/goodbye/helper.py': '',
      'mail/eu/de/welcome.sh': '',
      'mail.js': '',
      'resize.v2.mjs': '',
      tool: executable('#!/bin/sh'),
      'index.ts': '',
      'same/same.sh': executable('#!/bin/sh'),
      'deep/index.d.ts': '',
      'deep/a.ts': '',
    });
    expect(handlers.names()).toEqual([
      'deep/a',
      'index',
      'mail',
      'mail/eu/de/welcome',
      'mail/goodbye',
      'mail/welcome',
      'resize.v2',
      'same/same',
      'tool',
    ]);
    for (const name of handlers.names()) {
      expect(handlers.find(name)).toMatchObject({ name: `queue/${name}`, tier: 'queue', refusals: [] });
    }
  });

  test('what is no script has no name, with the reasons of a tier', async () => {
    const root = makeQueue({
      'mail/_shared.ts': '',
      'mail/welcome.test.ts': '',
      'mail/notes.txt': '',
      'mail/logo.png': '',
      '_lib/a.ts': '',
      'node_modules/x/index.js': '',
      'old.disabled/a.ts': '',
      '.git/hooks/a.sh': '',
    });
    expect((await openHandlers(root, defaultSettings)).names()).toEqual([]);
    const { ignored } = await discover(root, defaultSettings);
    expect(ignored.map(({ path, reason }) => [path.slice(root.length + 12), reason])).toEqual([
      ['.git', 'hidden: its name begins with a dot'],
      ['_lib', 'its name begins with _'],
      ['mail/_shared.ts', 'its name begins with _'],
      ['mail/logo.png', 'not executable, and not a known extension'],
      ['mail/notes.txt', 'text'],
      ['mail/welcome.test.ts', 'a test'],
      ['node_modules', 'node_modules contains packages, not scripts'],
      ['old.disabled', 'disabled: its name ends in .disabled'],
    ]);
  });

  test.each([
    '',
    '/',
    '.',
    '..',
    'mail/',
    '/mail/welcome',
    'mail//welcome',
    'mail/./welcome',
    'mail/../mail/welcome',
    '../hourly/clean',
    'mail/welcome.ts',
    'mail/welcome\0',
    'mail/welcome\n',
    'Mail/Welcome',
    'queue/mail/welcome',
    'mail',
    '__proto__',
    'constructor',
    'x'.repeat(256),
    '?user=7',
    'mail?/welcome',
    'mail/welcome/?user=7',
  ])('%j is no handler', async (name) => {
    const root = makeQueue({ 'mail/welcome.ts': '' });
    writeFileSync(join(root, 'jobs/clean.sh'), '');
    expect((await openHandlers(root, defaultSettings)).find(name)).toBeNull();
  });

  test('whatever the name of a job is, it leads to a handler that is listed, or to none', async () => {
    const handlers = await open({ 'a/b.ts': '', 'a.ts': '', 'b/index.ts': '' });
    const part = fc.constantFrom('a', 'b', '..', '.', '', 'index', 'a.ts', '\0', '*', '?', 'a?x');
    const name = fc.array(part, { maxLength: 5 }).map((parts) => parts.join('/'));
    fc.assert(
      fc.property(fc.oneof(name, fc.string({ unit: 'binary' })), (each) => {
        const [path = ''] = each.split('?');
        expect(handlers.find(each)?.name).toBe(handlers.names().includes(path) ? `queue/${path}` : undefined);
      }),
    );
  });

  test('what follows a question mark in the name of a job is none of its handler', async () => {
    const handlers = await open({ 'mail/welcome.ts': '', 'mail/who?.ts': '' });
    for (const name of ['mail/welcome?user=7', 'mail/welcome?', 'mail/welcome?a?b/../c']) {
      expect(handlers.find(name)?.name).toBe('queue/mail/welcome');
    }
    expect(handlers.find('mail/who?')?.name).toBe('queue/mail/who?');
    expect(handlers.names()).toEqual(['mail/welcome', 'mail/who?']);
  });

  test('no name is longer than 255 characters', async () => {
    const folder = 'f'.repeat(127);
    const handlers = await open({ [`${folder}/${'a'.repeat(127)}.ts`]: '', [`${folder}/${'b'.repeat(128)}.ts`]: '' });
    expect(handlers.names()).toEqual([`${folder}/${'a'.repeat(127)}`]);
  });

  test('links to folders are followed, but not in a circle', async () => {
    const root = makeQueue({ 'mail/welcome.ts': '' });
    symlinkSync('.', join(root, 'jobs/queue/mail/again'));
    symlinkSync('..', join(root, 'jobs/queue/mail/up'));
    symlinkSync('mail', join(root, 'jobs/queue/post'));
    const { names } = await openHandlers(root, defaultSettings);
    expect(names()).toEqual(['mail/welcome', 'post/welcome']);
  });

  test('a link to a folder above it is no folder of handlers: each call would walk the whole machine', async () => {
    const root = makeQueue({ 'mail/welcome.ts': '' });
    const targets = { all: '/', root, jobs: '../../jobs', above: '../../..' };
    for (const [name, target] of Object.entries(targets)) symlinkSync(target, join(root, 'jobs/queue', name));
    const { handlers, ignored } = await discover(root, defaultSettings);
    expect(handlers.map(({ name }) => name)).toEqual(['queue/mail/welcome']);
    expect(ignored).toEqual(
      ['above', 'all', 'jobs', 'root'].map((name) => ({
        path: join(root, 'jobs/queue', name),
        reason: 'a link that leads back to a folder above it',
      })),
    );
  });

  test('a folder with which there are more than 5,000 entries in all is left out, as are those behind it', async () => {
    const root = makeQueue({ 'a.ts': '', 'a-folder/b.ts': '', 'z/c.ts': '' });
    const many = join(makeTemporaryRoot(), 'many');
    mkdirSync(many);
    for (let file = 0; file < 5_001; file += 1) writeFileSync(join(many, `${file}.ts`), '');
    symlinkSync(many, join(root, 'jobs/queue/many'));
    const { handlers, ignored } = await discover(root, defaultSettings);
    expect(handlers.map(({ name }) => name)).toEqual(['queue/a-folder/b', 'queue/a']);
    const reason = 'with it the folders in jobs/queue have more than 5000 entries in all';
    expect(ignored).toEqual(['many', 'z'].map((name) => ({ path: join(root, 'jobs/queue', name), reason })));
  });

  test('without jobs/queue, or without jobs, there are none', async () => {
    const root = makeTemporaryRoot();
    expect((await openHandlers(root, defaultSettings)).names()).toEqual([]);
    rmSync(join(root, 'jobs'), { recursive: true });
    expect((await openHandlers(root, defaultSettings)).names()).toEqual([]);
  });
});

describe('options', () => {
  test('tags win over globs, globs over the settings of the queue, these over the defaults', async () => {
    const settings = {
      ...defaultSettings,
      defaults: { nice: 1, retries: 1, timeoutMs: 1, maxOutputBytes: 1 },
      tiers: { queue: { nice: 2, retries: 2, timeoutMs: 2 } },
      scripts: { 'queue/mail/*': { nice: 3, retries: 3 }, 'queue/other/*': { nice: 9 } },
    };
    const handlers = await open({ 'mail/welcome.ts': '// @nice 4\n// @isolate\n' }, settings);
    expect(handlers.find('mail/welcome')?.options).toEqual({
      nice: 4,
      retries: 3,
      timeoutMs: 2,
      maxOutputBytes: 1,
      isolate: true,
    });
  });

  test('a handler may take an hour if nothing else is said', () => {
    expect(defaultTimeoutMs('queue')).toBe(3_600_000);
  });

  test('@isolate is for handlers, and elsewhere pointed out', async () => {
    const root = makeTemporaryRoot({ 'jobs/queue/a.ts': '// @isolate\n', 'jobs/hourly/b.ts': '// @isolate\n' });
    const { tiers, handlers } = await discover(root, defaultSettings);
    expect(handlers[0]?.warnings).toEqual([]);
    expect(tiers[0]?.scripts[0]?.warnings).toEqual([
      'jobs/hourly/b.ts: @isolate is for handlers in jobs/queue and has no effect here',
    ]);
  });
});

describe('refusals', () => {
  const refusalOf = (handlers: Handlers, name: string) => handlers.find(name)?.refusals;

  test('two files for one name are both refused, also a file and a folder', async () => {
    const handlers = await open({ 'mail/welcome.ts': '', 'mail/welcome.js': '', 'a.sh': '', 'a/index.ts': '' });
    expect(handlers.names()).toEqual(['a', 'mail/welcome']);
    expect(refusalOf(handlers, 'a')).toEqual([
      expect.stringMatching(/it has the same script name \(queue\/a\) as .*; rename one of them$/),
    ]);
    expect(refusalOf(handlers, 'mail/welcome')).toEqual([
      expect.stringContaining('it has the same script name (queue/mail/welcome) as '),
    ]);
  });

  test('whoever can write it, or a folder above it, can replace a handler: it is refused until that is mended', async () => {
    const paths = ['.', 'jobs', 'jobs/queue', 'jobs/queue/mail', 'jobs/queue/mail/welcome.ts'];
    const roots = paths.map((path) => ({ path, root: makeQueue({ 'mail/welcome.ts': '' }) }));
    await Promise.all(roots.map(({ path, root }) => closeAndOpen(root, path)));
  });

  async function closeAndOpen(root: string, path: string): Promise<void> {
    await untilSettled(join(root, 'jobs/queue/mail/welcome.ts'));
    const handlers = await openHandlers(root, defaultSettings);
    const refusals = () => refusalOf(handlers, 'mail/welcome');
    expect(refusals()).toEqual([]);
    chmodSync(join(root, path), 0o777);
    await until(`${path} is refused`, () => refusals()?.length === 1);
    expect(refusals()?.[0]).toContain('can be written by anybody (mode 0777)');
    chmodSync(join(root, path), 0o755);
    await until(`${path} is trusted`, () => refusals()?.length === 0);
  }

  test('wrong tags and control characters in a name refuse only that handler', async () => {
    const handlers = await open({ 'a.ts': '// @timeout soon\n', 'b\u0001.ts': '', 'c.ts': '' });
    expect(refusalOf(handlers, 'a')).toEqual([expect.stringContaining('@timeout must be')]);
    expect(handlers.find('b\u0001')).toBeNull();
    expect(refusalOf(handlers, 'c')).toEqual([]);
  });
});

describe('changes', () => {
  test('a handler is the same object until its file changes', async () => {
    const root = makeQueue({ 'mail/welcome.ts': '// @nice 1\n', 'other.ts': '' });
    await untilSettled(join(root, 'jobs/queue/other.ts'));
    const handlers = await openHandlers(root, defaultSettings);
    const find = () => handlers.find('mail/welcome');
    const [names, first, other] = [handlers.names(), find(), handlers.find('other')];
    write(root, 'mail/welcome.ts', '// @nice 2\n');
    await until('it is another', () => find() !== first);
    expect(find()?.options).toEqual({ nice: 2 });
    expect(handlers.find('other')).toBe(other);
    expect(handlers.names()).toBe(names);
  });

  test('a file that was only touched, or replaced by its like, is the same handler', async () => {
    const root = makeQueue({ 'a.ts': 'export default 1' });
    const handlers = await openHandlers(root, defaultSettings);
    const first = handlers.find('a');
    utimesSync(join(root, 'jobs/queue/a.ts'), 1, 1);
    write(root, 'b.ts', '');
    await until('that was seen', () => handlers.find('b') !== null);
    expect(handlers.find('a')).toBe(first);
    write(root, '.a.ts', 'export default 1');
    renameSync(join(root, 'jobs/queue/.a.ts'), join(root, 'jobs/queue/a.ts'));
    write(root, 'c.ts', '');
    await until('that was seen', () => handlers.find('c') !== null);
    expect(handlers.find('a')).toBe(first);
  });

  test('a change that leaves size and time as they were is seen', async () => {
    const root = makeQueue({ 'a.ts': '// @nice 1\n' });
    const path = join(root, 'jobs/queue/a.ts');
    utimesSync(path, 1, 1);
    const handlers = await openHandlers(root, defaultSettings);
    expect(handlers.find('a')?.options).toEqual({ nice: 1 });
    writeFileSync(path, '// @nice 2\n');
    utimesSync(path, 1, 1);
    await until('it is read again', () => handlers.find('a')?.options.nice === 2);
  });

  test('handlers come and go, with their folders', async () => {
    const root = makeTemporaryRoot();
    const handlers = await openHandlers(root, defaultSettings);
    expect(handlers.find('mail/welcome')).toBeNull();
    write(root, 'mail/welcome.ts', '');
    await until('it is there', () => handlers.find('mail/welcome') !== null);
    write(root, 'mail/eu/welcome.ts', '');
    await until('the deeper one is', () => handlers.names().includes('mail/eu/welcome'));
    rmSync(join(root, 'jobs/queue/mail/eu'), { recursive: true });
    await until('it is gone', () => handlers.find('mail/eu/welcome') === null);
    rmSync(join(root, 'jobs/queue/mail/welcome.ts'));
    await until('the file is gone', () => handlers.find('mail/welcome') === null);
    rmSync(join(root, 'jobs/queue'), { recursive: true });
    await until('none is there', () => handlers.names().length === 0);
  });

  test('while jobs is replaced as a whole there are none, and then there are the new ones', async () => {
    const root = makeQueue({ 'a.ts': '' });
    const handlers = await openHandlers(root, defaultSettings);
    renameSync(join(root, 'jobs'), join(root, 'jobs.old'));
    await until('there are none', () => handlers.find('a') === null);
    write(root, 'b.ts', '');
    await until('there are new ones', () => handlers.names().join() === 'b');
  });

  test('what is deployed by changing a link is seen', async () => {
    const root = makeTemporaryRoot({ 'one/a.ts': '// @nice 1\n', 'two/a.ts': '// @nice 2\n' });
    const link = join(root, 'jobs/queue');
    symlinkSync('../one', link);
    const handlers = await openHandlers(root, defaultSettings);
    expect(handlers.find('a')?.options).toEqual({ nice: 1 });
    symlinkSync('../two', `${link}.next`);
    renameSync(`${link}.next`, link);
    await until('the other is found', () => handlers.find('a')?.options.nice === 2);
  });
});
