import { expect, test } from 'vitest';
import { installCrontab, readCrontab, removeFromCrontab, writeCrontab } from '../../../src/hosting/crontab/program.ts';
import { makeFakeCrontab } from '../../support/root.ts';

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
  installCrontab('/home/me', contentOf(...LINES), crontab.env);
  crontab.write(`${crontab.read()}@daily true`);
  expect(installCrontab('/home/me', contentOf(...LINES, '9 4 * * * node bin.cjs daily'), crontab.env)).toBe('changed');
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

test('where there is no crontab program, the sentence says where the lines can be put', () => {
  expect(() => readCrontab({ PATH: '/nowhere' })).toThrow(
    /no `crontab` program here.*paste these lines into the cron page/,
  );
});

const LINES = ['7 * * * * node bin.cjs hourly'];
const contentOf = (...lines: readonly string[]) => ({ lines, chosenTiers: undefined });

test('installing twice says that the second time had nothing to change', () => {
  const { env } = makeFakeCrontab();
  expect(installCrontab('/home/me', contentOf(...LINES), env)).toBe('changed');
  expect(installCrontab('/home/me', contentOf(...LINES), env)).toBe('unchanged');
});

test('removing leaves what was there before, and says when there is nothing to remove', () => {
  const crontab = makeFakeCrontab();
  crontab.write('MAILTO=me\n');
  installCrontab('/home/me', contentOf(...LINES), crontab.env);
  expect(removeFromCrontab('/home/me', crontab.env)).toBe('changed');
  expect(crontab.read()?.toString()).toBe('MAILTO=me\n');
  expect(removeFromCrontab('/home/me', crontab.env)).toBe('unchanged');
});

test('a host that takes the lines and drops them is found out', () => {
  const { env } = makeFakeCrontab('#!/bin/sh\ncat >/dev/null\n');
  expect(() => installCrontab('/home/me', contentOf(...LINES), env)).toThrow(
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
  expect(installCrontab('/home/me', contentOf(...LINES), env)).toBe('changed');
});
