import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { onTestFinished } from 'vitest';
import { findDriver } from '../../../src/store/sqlite/driver.ts';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';
import { makeStateOf } from '../../support/store.ts';

interface Commits {
  /** How many have changed something. */
  changing: number;
  /** How many of those a power loss would leave. */
  durable: number;
  /** How often the disk was waited for. */
  waits: number;
}

/** A log that tells when what is written to it is on the disk. */
export interface RecordedStore {
  readonly store: SqliteStore;
  readonly commits: Commits;
}

/** Counts the commits of a connection, and which of them have been synced: what came before a sync began. */
export async function openRecordedStore(root: string): Promise<RecordedStore> {
  const { driver } = await findDriver();
  const commits: Commits = { changing: 0, durable: 0, waits: 0 };
  const store = await openSqliteStore(makeStateOf(root), {
    driver: {
      ...driver,
      open: (...place) => {
        const connection = driver.open(...place);
        const changes = connection.prepare('select total_changes() as changes');
        const count = (): number => Number((changes.all([])[0] as { changes: number }).changes);
        let before = 0;
        const prepareCommit = () => {
          const statement = connection.prepare('commit');
          return {
            reader: statement.reader,
            all: (values: readonly unknown[]) => statement.all(values),
            iterate: (values: readonly unknown[]) => statement.iterate(values),
            run: (values: readonly unknown[]) => {
              const done = statement.run(values);
              if (count() !== before) commits.changing += 1;
              before = count();
              return done;
            },
          };
        };
        return {
          ...connection,
          get inTransaction() {
            return connection.inTransaction;
          },
          prepare: (text) => {
            // What was undone has changed nothing, though SQLite counts it.
            if (text === 'begin immediate') before = count();
            return text === 'commit' ? prepareCommit() : connection.prepare(text);
          },
        };
      },
    },
  });
  recordSyncs(commits);
  onTestFinished(() => store.close());
  return { store, commits };
}

/** Until the test has ended. */
function recordSyncs(commits: Commits): void {
  const { fdatasync } = fs;
  const record = (ours: Partial<typeof fs>): void => {
    Object.assign(fs, ours);
    syncBuiltinESMExports();
  };
  record({
    fdatasync: Object.assign(
      (fd: number, callback: fs.NoParamCallback) => {
        const upTo = commits.changing;
        fdatasync(fd, (error) => {
          if (error === null) {
            commits.durable = Math.max(commits.durable, upTo);
            commits.waits += 1;
          }
          callback(error);
        });
      },
      { __promisify__: fdatasync.__promisify__ },
    ),
  });
  onTestFinished(() => record({ fdatasync }));
}
