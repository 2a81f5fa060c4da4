import { stateFolderOf } from '../../src/place/state-folder.ts';
import { watchLog } from '../../src/store/sqlite/change-feed.ts';
import { openStore } from '../../src/store/sqlite/open.ts';

/** Waits, closes the watch, and must then end by itself. */
const [root = ''] = process.argv.slice(2);
const folder = stateFolderOf(root);
const store = await openStore(folder);
const watch = watchLog(folder, store);
const waits = [null, Date.now() + 600_000].map((untilMs) => watch.changed(watch.look(), untilMs));
watch.close();
console.log((await Promise.all(waits)).join());
await store.close();
