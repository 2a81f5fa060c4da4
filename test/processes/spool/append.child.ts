import { writeSync } from 'node:fs';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { SpoolWriter } from '../../../src/worker/loop/spool-recorder.ts';
import { makeSpooledEnd, makeSpoolingWorker } from '../../support/faults/spool.ts';

/** Adds to the spool of a root for ever, and says each time which record is there. */
const [root = ''] = process.argv.slice(2);
const writer = new SpoolWriter(stateFolderOf(root), makeSpoolingWorker());
for (let number = 0; ; number += 1) {
  writer.append(makeSpooledEnd(`${process.pid}-number-${number}`));
  writeSync(1, `${process.pid}-number-${number}\n`);
}
