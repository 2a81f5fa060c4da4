import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  crontabBlock,
  installBlock,
  readBlock,
  readChosenTiers,
  removeBlock,
} from '../../../src/hosting/crontab/block.ts';
import { AS_INSTALLED, type AskedLines, planCrontab, reasonToVanish } from '../../../src/hosting/crontab/plan.ts';
import { installCrontab, readCrontab, removeFromCrontab, writeCrontab } from '../../../src/hosting/crontab/program.ts';
import { UsageError } from '../../../src/system/base/errors.ts';
import { makeFakeCrontab, makeTemporaryRoot } from '../../support/root.ts';

const ROOT = '/home/mé/site';
const LINES = ['7 * * * * node bin.cjs hourly', '9 3 * * * node bin.cjs daily'];
const contentOf = (lines: readonly string[], chosenTiers?: string) => ({ lines, chosenTiers });
const CONTENT = contentOf(LINES);
const BLOCK = crontabBlock(ROOT, CONTENT);

const install = (text: string, lines = LINES, root = ROOT): string =>
  installBlock(Buffer.from(text), root, contentOf(lines)).toString();
const remove = (text: string, root = ROOT): string => removeBlock(Buffer.from(text), root).toString();

/** Somebody's crontab: any bytes at all, of which the last is a newline. */
const crontabs = fc
  .array(fc.uint8Array({ maxLength: 12 }))
  .map((lines) => Buffer.concat(lines.flatMap((line) => [Buffer.from(line), Buffer.from('\n')])));

test('installing again changes not a byte', () => {
  fc.assert(
    fc.property(crontabs, (crontab) => {
      const once = installBlock(crontab, ROOT, CONTENT);
      expect(installBlock(once, ROOT, CONTENT)).toEqual(once);
    }),
  );
});

test('removing gives back the bytes from before, whatever their encoding', () => {
  fc.assert(
    fc.property(crontabs, (crontab) => {
      expect(removeBlock(installBlock(crontab, ROOT, CONTENT), ROOT)).toEqual(crontab);
    }),
  );
});

test('removing where there is no block changes not a byte', () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      expect(removeBlock(Buffer.from(bytes), ROOT)).toEqual(Buffer.from(bytes));
    }),
  );
});

test('new lines take the place of the old ones, and what stands around them stays', () => {
  const before = `# mine\r\n1 1 * * * a\r\n${BLOCK}\n  2 2 * * * b % x`;
  const lines = ['8 * * * * other'];
  expect(install(before, lines)).toBe(
    `# mine\r\n1 1 * * * a\r\n${crontabBlock(ROOT, contentOf(lines))}\n  2 2 * * * b % x\n`,
  );
});

test('a last line without its newline gets one, or the marker would become part of it', () => {
  expect(install('0 1 * * * backup')).toBe(`0 1 * * * backup\n${BLOCK}`);
  expect(install('0 1 * * * backup\r\n')).toBe(`0 1 * * * backup\r\n${BLOCK}`);
});

test('a block that an editor gave CRLF ends, or left without its last newline, is still found', () => {
  expect(remove(`a\r\n${BLOCK.replaceAll('\n', '\r\n')}b\r\n`)).toBe('a\r\nb\r\n');
  expect(remove(`a\n${BLOCK.trimEnd()}`)).toBe('a\n');
});

test('the block of another root is left alone, also of one whose path begins alike', () => {
  const other = crontabBlock(`${ROOT}2`, CONTENT);
  expect(install(other)).toBe(`${other}${BLOCK}`);
  expect(remove(`${other}${BLOCK}`)).toBe(other);
});

test('of two blocks of one root only the first remains', () => {
  expect(install(`a\n${BLOCK}b\n${BLOCK}c\n`)).toBe(`a\n${BLOCK}b\nc\n`);
});

test('what somebody has put into the block is read with its lines, and which tiers were chosen', () => {
  const lines = ['MAILTO=me', '# mine', ...LINES];
  const block = Buffer.from(`a\n${crontabBlock(ROOT, contentOf(lines, 'hourly,daily'))}b\n`);
  expect(readBlock(block, ROOT)).toEqual(lines);
  expect(readChosenTiers(block, ROOT)).toBe('hourly,daily');
  expect(readChosenTiers(Buffer.from(BLOCK), ROOT)).toBeUndefined();
});

describe('a damaged block is refused, as guessing its end could take out other lines', () => {
  const [begin = '', end = ''] = BLOCK.split('\n').filter((line) => /BEGIN|END/.test(line));
  test.each([
    ['its end is missing', `${begin}\n0 1 * * * mine\n`],
    ['its beginning is missing', `0 1 * * * mine\n${end}\n`],
    ['it begins twice', `${begin}\n${begin}\n${end}\n`],
  ])('%s', (_, text) => {
    expect(() => install(text)).toThrow(UsageError);
    expect(() => remove(text)).toThrow(/nothing was changed: .*`crontab -e`/);
  });
});

test('a user without a crontab has an empty one', () => {
  expect(readCrontab(makeFakeCrontab().env)).toEqual(Buffer.alloc(0));
});

test.each([
  "crontab: can't open 'visitor': No such file or directory",
  "crontab: can't open your crontab file.",
  'crontab: no crontab for visitor',
])('so has one for whom another cron says "%s"', (words) => {
  const { env } = makeFakeCrontab(`#!/bin/sh\necho "${words}" >&2\nexit 1\n`);
  expect(readCrontab(env)).toEqual(Buffer.alloc(0));
});

test('a crontab is read and written byte for byte', () => {
  const crontab = makeFakeCrontab();
  const bytes = Buffer.from([0x23, 0xe9, 0xff, 0x0d, 0x0a, 0x09, 0x0a]);
  writeCrontab(bytes, crontab.env);
  expect(crontab.read()).toEqual(bytes);
  expect(readCrontab(crontab.env)).toEqual(bytes);
});

test('a user who may not use cron gets the words of the host in one sentence', () => {
  const words = 'You (visitor) are not allowed to use this program (crontab)\\nSee crontab(1).';
  const { env } = makeFakeCrontab(`#!/bin/sh\nprintf '${words}\\n' >&2\nexit 1\n`);
  expect(() => readCrontab(env)).toThrow(
    '`crontab -l` could not show your crontab: You (visitor) are not allowed to use this ' +
      'program (crontab) See crontab(1). Your crontab is unchanged; try again, or use ' +
      "the cron page of your host's panel.",
  );
});

test('a last line without a newline gets one, as Debian refuses it otherwise', () => {
  const crontab = makeFakeCrontab();
  writeCrontab(Buffer.from('@daily true'), crontab.env);
  expect(crontab.read()?.toString()).toBe('@daily true\n');
  writeCrontab(Buffer.alloc(0), crontab.env);
  expect(crontab.read()).toEqual(Buffer.alloc(0));
});

test('what stands behind the block and has no newline is kept when lines are installed and removed', () => {
  const crontab = makeFakeCrontab();
  installCrontab('/home/me', CONTENT, crontab.env);
  crontab.write(`${crontab.read()}@daily true`);
  expect(installCrontab('/home/me', contentOf([...LINES, '9 4 * * * node bin.cjs daily']), crontab.env)).toBe(
    'changed',
  );
  crontab.write(String(crontab.read()).trimEnd());
  expect(removeFromCrontab('/home/me', crontab.env)).toBe('changed');
  expect(crontab.read()?.toString()).toBe('@daily true\n');
});

test('a crontab that is refused is an error with the words of the host', () => {
  const { env } = makeFakeCrontab('#!/bin/sh\ncat >/dev/null\necho "\\"-\\":0: bad minute" >&2\nexit 1\n');
  expect(() => writeCrontab(Buffer.from('x y\n'), env)).toThrow(
    '`crontab -` refused the new crontab: "-":0: bad minute. Your crontab is unchanged; try again, or use the cron ' +
      "page of your host's panel.",
  );
});

test('a crontab program that dies without a word is told with its exit code or signal', () => {
  const silent = makeFakeCrontab('#!/bin/sh\nexit 3\n');
  expect(() => readCrontab(silent.env)).toThrow(/crontab: exit code 3, no message\./);
  const killed = makeFakeCrontab('#!/bin/sh\nkill -9 $$\n');
  expect(() => readCrontab(killed.env)).toThrow(/crontab: killed by SIGKILL\./);
});

test('a host that takes the lines and drops them is found out', () => {
  const { env } = makeFakeCrontab('#!/bin/sh\ncat >/dev/null\n');
  expect(() => installCrontab('/home/me', CONTENT, env)).toThrow(
    /without an error, but `crontab -l` does not show the lines/,
  );
});

test('a host that keeps lines which were taken out is found out', () => {
  const crontab = makeFakeCrontab('#!/bin/sh\n[ "$1" = - ] || cat "$FAKE_CRONTAB"\n');
  crontab.write('# BEGIN folder-runner /home/me\n# END folder-runner /home/me\n');
  expect(() => removeFromCrontab('/home/me', crontab.env)).toThrow(
    /without an error, but `crontab -l` still shows the lines/,
  );
});

test('a host that puts its own header on top is no reason to complain', () => {
  const { env } = makeFakeCrontab(`#!/bin/sh
    case "$1" in
    -l) echo '# DO NOT EDIT THIS FILE'; cat "$FAKE_CRONTAB" 2>/dev/null || true ;;
    -) cat >"$FAKE_CRONTAB" ;;
    esac`);
  expect(installCrontab('/home/me', CONTENT, env)).toBe('changed');
});

const COMMAND = '/home/me/site/node_modules/folder-runner/dist/bin.cjs';

function plan(root: string, asked: Partial<AskedLines>, crontab = '') {
  const { content, dropped } = planCrontab(root, { ...AS_INSTALLED, ...asked }, Buffer.from(crontab), {}, COMMAND);
  return { ...content, dropped, block: crontabBlock(root, content) };
}

const makeRoot = () => makeTemporaryRoot({ 'jobs/hourly/a.sh': '', 'jobs/daily/b.sh': '', 'jobs/3days/c.sh': '' });

test.each<Partial<AskedLines>>([
  { tiers: 'hourly,daily' },
  { tiers: '3days', workMinutes: 15 },
  { due: ['--budget', '1 hour'], workMinutes: 1 },
  { due: [] },
  {},
])('what was asked for stays, when the lines are written anew without a word: %j', (asked) => {
  const root = makeRoot();
  const first = plan(root, asked);
  expect(plan(root, {}, first.block)).toEqual({ ...first, dropped: [] });
});

test('each choice can be taken back', () => {
  const root = makeRoot();
  const all = plan(root, {});
  const due = plan(root, { due: ['--budget', '55s'], workMinutes: 5 });
  expect(plan(root, { due: null, workMinutes: null }, due.block).lines).toHaveLength(3);
  expect(plan(root, { due: [] }, due.block).lines[0]).toMatch(/ due \S+$/);
  const chosen = plan(root, { tiers: 'daily' });
  expect(plan(root, { tiers: 'all' }, chosen.block).lines).toHaveLength(all.lines.length);
  expect(plan(root, { tiers: 'hourly' }, due.block)).toMatchObject({ chosenTiers: 'hourly', lines: { length: 2 } });
});

test('of tiers that were chosen, those that are gone are left out', () => {
  const root = makeRoot();
  const chosen = plan(root, { tiers: 'daily,3days' }).block.replace('daily,3days', 'daily,weekly');
  expect(plan(root, {}, chosen)).toMatchObject({ chosenTiers: 'daily', dropped: [expect.stringMatching(/ 3days /)] });
});

test.each([
  '/home/me/.nvm/versions/node/v24.1.0/lib/node_modules/folder-runner/dist/bin.cjs',
  '/home/me/nodevenv/app/22/lib/node_modules/folder-runner/dist/bin.cjs',
  '/run/user/1000/fnm_multishells/1_2/lib/node_modules/folder-runner/dist/bin.cjs',
  '/home/me/.local/share/fnm/node-versions/v24.1.0/installation/lib/node_modules/folder-runner/dist/bin.cjs',
  '/home/me/.volta/tools/image/packages/folder-runner/lib/node_modules/folder-runner/dist/bin.cjs',
  '/home/me/.asdf/installs/nodejs/24.1.0/lib/node_modules/folder-runner/dist/bin.cjs',
  '/home/linuxbrew/.linuxbrew/Cellar/node/24.1.0/lib/node_modules/folder-runner/dist/bin.cjs',
  '/home/me/.npm/_npx/0123456789abcdef/node_modules/folder-runner/dist/bin.cjs',
])('%s may vanish, and the reason is told', (path) => {
  expect(reasonToVanish(path)).toMatch(/^(?:is|belongs) /);
});

test.each([
  '/usr/local/lib/node_modules/folder-runner/dist/bin.cjs',
  '/home/me/site/node_modules/folder-runner/dist/bin.cjs',
])('%s stays', (path) => {
  expect(reasonToVanish(path)).toBeNull();
});
