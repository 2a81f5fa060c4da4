import { expect, test } from 'vitest';
import { describeStoreFailure } from '../../../src/store/describe-failure.ts';
import {
  isCorruption,
  isStoreFailure,
  kindOfStoreFailure,
  mayBeFull,
  StoreUnavailable,
} from '../../../src/store/failures.ts';
import { stateFolderAt } from '../../../src/system/place/state-folder.ts';

const folder = stateFolderAt('/home/me/site/.runner');
const withCode = (code: string, message = 'as the system says'): Error => Object.assign(new Error(message), { code });

test.each([
  ['SQLITE_BUSY', 'locked'],
  ['SQLITE_BUSY_SNAPSHOT', 'locked'],
  ['SQLITE_LOCKED', 'locked'],
  ['SQLITE_PROTOCOL', 'locked'],
  ['SQLITE_FULL', 'full'],
  ['ENOSPC', 'full'],
  ['EDQUOT', 'full'],
  ['SQLITE_READONLY', 'read-only'],
  ['SQLITE_READONLY_DBMOVED', 'read-only'],
  ['EACCES', 'read-only'],
  ['EROFS', 'read-only'],
  ['SQLITE_CORRUPT', 'broken'],
  ['SQLITE_CORRUPT_INDEX', 'broken'],
  ['SQLITE_NOTADB', 'broken'],
  ['SQLITE_IOERR_WRITE', 'io'],
  ['SQLITE_CANTOPEN', 'io'],
  ['SQLITE_NOMEM', 'io'],
  ['EIO', 'io'],
  ['ERR_NO_SQLITE', 'no-driver'],
  ['SQLITE_ERROR', 'changed'],
  ['SQLITE_CONSTRAINT_TRIGGER', 'changed'],
  ['SQLITE_CONSTRAINT_UNIQUE', null],
  ['SQLITE_MISUSE', null],
  ['ERR_INVALID_ARG_TYPE', null],
])('%s is a failure of the kind %s', (code, kind) => {
  expect(kindOfStoreFailure(withCode(code))).toBe(kind);
  expect(isStoreFailure(withCode(code))).toBe(kind !== null);
  expect(isCorruption(withCode(code))).toBe(kind === 'broken');
});

test.each([
  ['SQLITE_FULL', true],
  ['SQLITE_IOERR_WRITE', true],
  ['SQLITE_IOERR_SHMSIZE', true],
  ['SQLITE_CANTOPEN', true],
  ['EDQUOT', true],
  ['SQLITE_IOERR_READ', false],
  ['SQLITE_BUSY', false],
  ['SQLITE_CORRUPT', false],
])('%s may be for want of room: %s', (code, expected) => {
  expect(mayBeFull(withCode(code))).toBe(expected);
});

test('what is no error of the system is no failure of the store', () => {
  for (const thrown of [new TypeError('a defect'), 'SQLITE_BUSY', null, undefined, { code: 'EIO' }]) {
    expect(isStoreFailure(thrown)).toBe(false);
  }
  expect(isStoreFailure(new StoreUnavailable('foreign', 'It is not ours.'))).toBe(true);
});

test.each([
  [
    'SQLITE_BUSY',
    '/home/me/site/.runner/activity.db stays locked by another program (as the system says). If that lasts, ' +
      'end the program: `fuser -v /home/me/site/.runner/activity.db` names it.',
  ],
  [
    'EROFS',
    '/home/me/site/.runner/activity.db cannot be written (as the system says). Make it and its folder ' +
      'writable for the user that cron runs the runner as.',
  ],
  [
    'SQLITE_READONLY_DBMOVED',
    '/home/me/site/.runner/activity.db was moved away while it was in use. The next pass uses the log ' +
      'that exists then.',
  ],
  [
    'SQLITE_FULL',
    'No space left for /home/me/site/.runner/activity.db (as the system says): the disk is full, or your ' +
      'quota is used up. Delete files that you do not need.',
  ],
  [
    'SQLITE_CORRUPT',
    '/home/me/site/.runner/activity.db seems to be damaged (as the system says). The next pass checks it: a damaged file is kept under another name, and a new log is created.',
  ],
  [
    'SQLITE_IOERR_READ',
    '/home/me/site/.runner/activity.db cannot be used (as the system says). Check the disk it is on, your ' +
      'quota, and the owner and mode of the file and its folder.',
  ],
])('%s is told with its cure', (code, sentence) => {
  expect(describeStoreFailure(withCode(code), folder)).toBe(sentence);
});

test('what was told already is told in the same words', () => {
  expect(describeStoreFailure(new StoreUnavailable('io', 'So it is.'), folder)).toBe('So it is.');
});
