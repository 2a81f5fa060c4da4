import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, statSync, unlinkSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import {
  createStateFolder,
  type StateFolder,
  stateFolderOf,
} from '../../src/config/state-folder.ts';
import { hasSpool } from '../../src/store/spool/has-spool.ts';
import { readSpool } from '../../src/store/spool/read-spool.ts';
import { listSpoolFiles } from '../../src/store/spool/spool-files.ts';
import { createSpoolWriter } from '../../src/store/spool/spool-writer.ts';
import { makeFinishedRun } from '../support/finished-run.ts';
import { makeSpooledRun, makeSpoolingWorker, SPOOL_AT } from '../support/spool.ts';

/** A state folder on a file system of its own, of 1 MB. */
function makeSmallDisk(): StateFolder {
  const root = mkdtempSync(join(tmpdir(), 'small-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'small-disk', root]);
  onTestFinished(() => {
    execFileSync('umount', ['--lazy', root]);
    rmSync(root, { recursive: true });
  });
  const state = stateFolderOf(root);
  createStateFolder(state);
  return state;
}

/** Writes until no byte has room any more. */
function fill(path: string): void {
  const fd = openSync(path, 'w');
  const bytes = Buffer.alloc(4096, 'x');
  expect(() => {
    for (;;) writeSync(fd, bytes);
  }).toThrow('ENOSPC');
  closeSync(fd);
}

const large = (spoolId: string) =>
  makeSpooledRun(spoolId, { run: makeFinishedRun({ output: 'o'.repeat(60_000) }) });

const readAll = (state: StateFolder) =>
  listSpoolFiles(state).flatMap(({ path }) => [...readSpool(path)]);

test('a record that finds no room leaves no half line, and can be tried again', () => {
  const state = makeSmallDisk();
  const writer = createSpoolWriter(state, makeSpoolingWorker());
  writer.append(makeSpooledRun('run-0001'));
  const [file] = listSpoolFiles(state);
  const size = () => statSync(file?.path ?? '').size;
  const before = size();
  fill(state.reserve);
  for (let times = 0; times < 3; times += 1) {
    expect(() => writer.append(large('run-0002'))).toThrow(
      expect.objectContaining({
        name: 'SpoolError',
        code: 'ENOSPC',
        message: expect.stringMatching(/spool\/.+\.part cannot be written: ENOSPC/),
      }),
    );
    expect(size()).toBe(before);
  }
  unlinkSync(state.reserve);
  writer.append(large('run-0002'));
  writer.close({ finishedAt: SPOOL_AT, reason: null });
  expect(readAll(state)).toMatchObject([
    { type: 'worker' },
    { spoolId: 'run-0001' },
    large('run-0002'),
    { type: 'finished' },
  ]);
});

test('a spool that finds no room at all is not there', () => {
  const state = makeSmallDisk();
  fill(state.reserve);
  expect(() => createSpoolWriter(state, makeSpoolingWorker())).toThrow('ENOSPC');
  expect(hasSpool(state)).toBe(false);
});

test('a spool whose last line finds no room is handed over without it', () => {
  const state = makeSmallDisk();
  const writer = createSpoolWriter(state, makeSpoolingWorker());
  writer.append(makeSpooledRun('run-0001'));
  fill(state.reserve);
  const reason = 'r'.repeat(10_000);
  expect(() => writer.close({ finishedAt: SPOOL_AT, reason })).toThrow('ENOSPC');
  expect(listSpoolFiles(state)).toMatchObject([{ isClosed: true }]);
  expect(readAll(state)).toMatchObject([{ type: 'worker' }, { spoolId: 'run-0001' }]);
});
