import { onTestFinished } from 'vitest';
import { findDriver } from '../../src/store/sqlite/driver.ts';
import { openStore } from '../../src/store/sqlite/open.ts';
import type { Store } from '../../src/store/store.ts';

import { makeStateOf } from './state-of.ts';

/** A log that tells when what is written to it is on the disk. */
export interface RecordedStore {
  readonly store: Store;
  /** How many commits have changed something, how many of those a power loss would leave, and how many waited for that. */
  readonly commits: { changing: number; durable: number; waits: number };
}

/**
 * Counts the commits of a connection. One that writes nothing waits for no disk, whatever it is set to;
 * one that writes with `synchronous = full` takes with it all that came before.
 */
export async function openRecordedStore(root: string): Promise<RecordedStore> {
  const { driver } = await findDriver();
  const commits = { changing: 0, durable: 0, waits: 0 };
  const store = await openStore(makeStateOf(root), {
    driver: {
      ...driver,
      open: (...place) => {
        const connection = driver.open(...place);
        const ask = (text: string): unknown =>
          Object.values((connection.prepare(text).all([]) as object[])[0] ?? {})[0];
        let before = 0;
        const note = (): void => {
          const changes = Number(ask('select total_changes()'));
          if (changes === before) return;
          before = changes;
          commits.changing += 1;
          if (ask('pragma synchronous') !== 2) return;
          commits.durable = commits.changing;
          commits.waits += 1;
        };
        return {
          ...connection,
          get inTransaction() {
            return connection.inTransaction;
          },
          prepare: (text) => {
            const statement = connection.prepare(text);
            if (text !== 'commit') return statement;
            return {
              reader: statement.reader,
              all: (values) => statement.all(values),
              iterate: (values) => statement.iterate(values),
              run: (values) => {
                const done = statement.run(values);
                note();
                return done;
              },
            };
          },
        };
      },
    },
  });
  onTestFinished(() => store.close());
  return { store, commits };
}
