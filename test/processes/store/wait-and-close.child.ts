import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';

/** Waits, closes the watch, and must then end by itself. */
const [root = ''] = process.argv.slice(2);
const store = await openSqliteStore(stateFolderOf(root));
const watch = store.watch();
const waits = [null, Date.now() + 600_000].map((untilMs) => watch.changed(watch.look(), untilMs));
watch.close();
console.log((await Promise.all(waits)).join());
await store.close();
