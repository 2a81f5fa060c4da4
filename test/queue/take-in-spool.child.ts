import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import type { KyselyPlugin } from 'kysely';
import { stateFolderOf } from '../../src/place/state-folder.ts';
import { openStore } from '../../src/store/sqlite/open.ts';

import { makeFinishedRun } from '../support/finished-run.ts';
import { meet } from '../support/meet.ts';
import { SPOOL_AT } from '../support/spool.ts';

/**
 * Takes in the spool of a root. It is killed before its query of this number, or right before the
 * file goes ("unlink"); or it waits until so many others are there ("meet:2").
 */
const [root = '', how = ''] = process.argv.slice(2);
const die = (): void => void process.kill(process.pid, 'SIGKILL');

if (how === 'unlink') {
  fs.rmSync = die;
  syncBuiltinESMExports();
}
const { takeInSpool } = await import('../../src/recovery/replay-spool.ts');

let queries = 0;
const killer: KyselyPlugin = {
  transformQuery: ({ node }) => {
    queries += 1;
    if (queries === Number(how)) die();
    return node;
  },
  transformResult: async ({ result }) => result,
};

const state = stateFolderOf(root);
const store = await openStore(state);
const [, others] = how.split('meet:');
if (others !== undefined) meet(root, 'take-in', Number(others));
const taken = await takeInSpool(store.db.withPlugin(killer), [state], {
  state,
  workerId: null,
  at: SPOOL_AT + 60_000,
  endLostRun: async () => makeFinishedRun({ outcome: 'crashed', reason: 'its runner died' }),
});
await store.close();
console.log(JSON.stringify({ runs: taken.runs, notes: taken.notes, queries }));
