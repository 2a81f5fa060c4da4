import { expect, test } from 'vitest';
import { readCrontab, writeCrontab } from '../../src/hosting/crontab-program.ts';
import { makeFakeCrontab } from '../support/fake-crontab.ts';

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
      'program (crontab) See crontab(1). Your crontab is unchanged.',
  );
});

test('a crontab that is refused is an error with the words of the host', () => {
  const { env } = makeFakeCrontab();
  expect(() => writeCrontab(Buffer.from('no newline'), env)).toThrow(
    "`crontab -` refused the new crontab: new crontab file is missing newline before EOF, can't " +
      'install. Your crontab is unchanged.',
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
