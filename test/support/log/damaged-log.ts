import { readFileSync, writeFileSync } from 'node:fs';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';

const PAGE_BYTES = 4096;

/** A log that opens without complaint, and has a page of rubbish among its activity. */
export async function makeDamagedLog(folder: StateFolder): Promise<void> {
  const store = await openSqliteStore(folder);
  for (let index = 0; index < 50; index += 1) {
    const detail = `event ${index} `.repeat(300);
    await store.events.record([{ at: index, event: 'job-updated', detail }]);
  }
  await store.close();
  const bytes = readFileSync(folder.database);
  const start = Math.floor(bytes.indexOf('event 20 ') / PAGE_BYTES) * PAGE_BYTES;
  writeFileSync(folder.database, bytes.fill(0xff, start, start + PAGE_BYTES));
}
