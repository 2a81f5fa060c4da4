import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import type { SqliteStatement } from 'kysely';
import { findDriver } from '../../../src/store/sqlite/driver.ts';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { SPOOL_AT } from '../../support/faults/spool.ts';
import { makeFinishedRun } from '../../support/log.ts';
import { meet } from '../../support/until.ts';

/**
 * Replays the spool of a root. It is killed before its write to the log of this number, or right before
 * the file goes ("unlink"); or it waits until so many others are there ("meet:2").
 */
const [root = '', how = ''] = process.argv.slice(2);
const die = (): void => void process.kill(process.pid, 'SIGKILL');

if (how === 'unlink') {
  fs.rmSync = die;
  syncBuiltinESMExports();
}
const { replaySpool } = await import('../../../src/worker/recovery/replay-spool.ts');

let isAtWork = false;
let writes = 0;
const { driver } = await findDriver();
const store = await openSqliteStore(stateFolderOf(root), {
  driver: {
    ...driver,
    open: (...place) => {
      const connection = driver.open(...place);
      const prepare = (text: string): SqliteStatement => {
        const statement = connection.prepare(text);
        const note = (): void => {
          if (!isAtWork || !/^\s*(begin|insert|update|delete|commit)/i.test(text)) return;
          writes += 1;
          if (writes === Number(how)) die();
        };
        return {
          reader: statement.reader,
          iterate: (values) => statement.iterate(values),
          all: (values) => {
            note();
            return statement.all(values);
          },
          run: (values) => {
            note();
            return statement.run(values);
          },
        };
      };
      return Object.create(connection, { prepare: { value: prepare } });
    },
  },
});

const state = stateFolderOf(root);
const [, others] = how.split('meet:');
if (others !== undefined) meet(root, 'replay', Number(others));
isAtWork = true;
const replayed = await replaySpool(store, [state], {
  ...{ state, workerId: null, at: SPOOL_AT + 60_000, missedCap: 0 },
  endLostRun: async () => {
    const end = makeFinishedRun({ outcome: 'crashed', reason: 'its runner died' });
    return { end, result: null, decision: null };
  },
});
await store.close();
console.log(JSON.stringify({ runs: replayed.runs, notes: replayed.notes, writes }));
