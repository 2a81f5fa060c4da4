import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { meet } from '../../support/until.ts';

/** Opens the log of a root in the same moment as so many others, reads from it, and closes it. */
const [root = '', others = '1'] = process.argv.slice(2);
meet(root, 'open', Number(others));
const store = await openSqliteStore(stateFolderOf(root));
const workers = await store.workers.running();
await store.close();
console.log(`opened, ${workers.length} workers`);
