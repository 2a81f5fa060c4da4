import { expect, test } from 'vitest';
import { chooseJournalMode } from '../../../src/store/sqlite/file.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

test('a local disk gets a WAL', () => {
  expect(chooseJournalMode(makeTemporaryRoot())).toBe('wal');
});

test('a file system that is not known to be local gets a rollback journal', () => {
  expect(chooseJournalMode('/proc')).toBe('truncate');
});
