import { readFileSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Connection, Driver } from '../../../src/store/sqlite/driver.ts';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import type { NewJobRow } from '../../../src/store/statements/jobs.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { drivers, makeStateOf } from '../../support/store.ts';

/** Notes each statement that is run. */
function recording(driver: Driver, texts: string[]): Driver {
  const prepareOf =
    (connection: Connection): Connection['prepare'] =>
    (text) => {
      const statement = connection.prepare(text);
      const noted =
        <Args extends unknown[], Answer>(work: (...args: Args) => Answer) =>
        (...args: Args): Answer => {
          texts.push(text.split(' ').slice(0, 2).join(' '));
          return work(...args);
        };
      return {
        reader: statement.reader,
        all: noted((values: readonly unknown[]) => statement.all(values)),
        run: noted((values: readonly unknown[]) => statement.run(values)),
        iterate: (values: readonly unknown[]) => statement.iterate(values),
      };
    };
  return {
    ...driver,
    open: (...place) => {
      const connection = driver.open(...place);
      return Object.create(connection, {
        prepare: { value: prepareOf(connection) },
        inTransaction: { get: () => connection.inTransaction },
      });
    },
  };
}

const job: NewJobRow = {
  ...{ name: 'mail/welcome', state: 'queued', data: '{"to":"a@example.org"}', priority: 500, missed_policy: 'all' },
  ...{ scheduled_for: null, run_at: 1_773_147_600_000, created_at: 1_773_147_600_000, retry: null, repeat: null },
  ...{ unique_key: null, concurrency_key: null, parent_id: null, on_child_failure: null, lease_ms: null },
};

const WAL_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;

/** Of a WAL that was never begun anew. */
function countPages(path: string): number {
  const wal = readFileSync(path);
  return (wal.length - WAL_HEADER_BYTES) / (FRAME_HEADER_BYTES + wal.readUInt32BE(8));
}

describe.each(drivers)('with %s', (_name, driver) => {
  test('adding a job is one statement beside the beginning and the end of its transaction', async () => {
    const texts: string[] = [];
    const folder = makeStateOf(makeTemporaryRoot());
    const store = await openSqliteStore(folder, { driver: recording(driver, texts) });
    onTestFinished(() => store.close());
    const add = () => store.transaction(({ jobs }) => jobs.add([job], job.run_at));
    await add();
    texts.length = 0;
    const before = countPages(`${folder.database}-wal`);
    for (let index = 0; index < 100; index += 1) await add();
    expect(texts.slice(0, 3)).toEqual(['begin immediate', 'insert into', 'commit']);
    expect(texts.length).toBe(300);
    // The row, its number, two indexes of due jobs and one of the times of adding, and now and then a page that is split.
    expect((countPages(`${folder.database}-wal`) - before) / 100).toBeLessThan(5.6);
  });
});
