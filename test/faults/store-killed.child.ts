import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { type Connection, type Driver, loadBetterSqlite3 } from '../../src/store/sqlite/driver.ts';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';

/** Opens the log of a root, and is killed right before the step that the pattern names. */
const [root = '', pattern = ''] = process.argv.slice(2);

function step(what: string): void {
  if (new RegExp(pattern).test(what)) process.kill(process.pid, 'SIGKILL');
}

for (const name of ['renameSync', 'fsyncSync'] as const) {
  const call = fs[name] as (...args: unknown[]) => unknown;
  Object.assign(fs, {
    [name]: (...args: unknown[]) => {
      step(`${name} ${args.join(' ')}`);
      return call(...args);
    },
  });
}
syncBuiltinESMExports();

const driver = loadBetterSqlite3();
const stepping: Driver = {
  ...driver,
  open: (path, options) => {
    const connection = driver.open(path, options);
    const stepped = <T>(what: string, call: () => T): T => {
      step(what);
      return call();
    };
    return Object.create(connection, {
      prepare: { value: (text: string) => stepped(text, () => connection.prepare(text)) },
      exec: { value: (text: string) => stepped(text, () => connection.exec(text)) },
      close: { value: () => stepped(`close ${path}`, () => connection.close()) },
    }) as Connection;
  },
};

const { openSqliteStore } = await import('../../src/store/sqlite/open.ts');
const store = await openSqliteStore(stateFolderOf(root), { driver: stepping });
console.log(`opened ${store.quarantined ?? ''}`);
await store.close();
