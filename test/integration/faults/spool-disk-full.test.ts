import { statSync, unlinkSync } from 'node:fs';
import { expect, test } from 'vitest';
import { hasSpool, listSpoolFiles } from '../../../src/store/spool/files.ts';
import { readSpool } from '../../../src/store/spool/read.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';
import { SpoolWriter } from '../../../src/worker/loop/spool-recorder.ts';
import { makeSpooledEnd, makeSpoolingWorker, SPOOL_AT } from '../../support/faults/spool.ts';
import { makeFinishedRun } from '../../support/log.ts';
import { fillDisk, makeTemporaryRoot, mountSmallDisk } from '../../support/root.ts';
import { makeStateOf } from '../../support/store.ts';

/** A state folder on a disk of its own, of 1 MB. */
function makeSmallDisk(): StateFolder {
  const root = makeTemporaryRoot();
  mountSmallDisk(root, '1m');
  return makeStateOf(root);
}

const large = (spoolId: string) => makeSpooledEnd(spoolId, { end: makeFinishedRun({ output: 'o'.repeat(60_000) }) });

const readAll = (state: StateFolder) => listSpoolFiles(state).flatMap(({ path }) => [...readSpool(path)]);

test('a record that finds no room leaves no half line, and can be tried again', () => {
  const state = makeSmallDisk();
  const writer = new SpoolWriter(state, makeSpoolingWorker());
  writer.append(makeSpooledEnd('run-0001'));
  const [file] = listSpoolFiles(state);
  const size = () => statSync(file?.path ?? '').size;
  const before = size();
  fillDisk(state.reserve);
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
  fillDisk(state.reserve);
  expect(() => new SpoolWriter(state, makeSpoolingWorker())).toThrow('ENOSPC');
  expect(hasSpool(state)).toBe(false);
});

test('a spool whose last line finds no room is handed over without it', () => {
  const state = makeSmallDisk();
  const writer = new SpoolWriter(state, makeSpoolingWorker());
  writer.append(makeSpooledEnd('run-0001'));
  fillDisk(state.reserve);
  const reason = 'r'.repeat(10_000);
  expect(() => writer.close({ finishedAt: SPOOL_AT, reason })).toThrow('ENOSPC');
  expect(listSpoolFiles(state)).toMatchObject([{ isClosed: true }]);
  expect(readAll(state)).toMatchObject([{ type: 'worker' }, { spoolId: 'run-0001' }]);
});
