import type { SqliteStatement } from 'kysely';
import { onTestFinished } from 'vitest';
import { findDriver } from '../../../src/store/sqlite/driver.ts';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import type { SqliteStore } from '../../../src/store/sqlite/store.ts';
import { makeStateOf } from '../queue/state-of.ts';

/** Explains how SQLite answers each query that a function asks of a root's log. */
export async function explainQueries(root: string, ask: (store: SqliteStore) => Promise<unknown>): Promise<string[]> {
  const { driver } = await findDriver();
  const plans: string[] = [];
  const isAsked = { now: false };
  const store = await openSqliteStore(makeStateOf(root), {
    driver: {
      ...driver,
      open: (...place) => {
        const connection = driver.open(...place);
        const explain = (text: string, values: readonly unknown[]): void => {
          if (!isAsked.now || !/^\s*(select|with|delete|update|insert.*\n\s*select)/i.test(text)) return;
          const rows = connection.prepare(`explain query plan ${text}`).all(values);
          plans.push(rows.map((row) => (row as { readonly detail: string }).detail).join('; '));
        };
        const prepare = (text: string): SqliteStatement => {
          const statement = connection.prepare(text);
          return {
            reader: statement.reader,
            iterate: (values) => statement.iterate(values),
            all: (values) => {
              explain(text, values);
              return statement.all(values);
            },
            run: (values) => {
              explain(text, values);
              return statement.run(values);
            },
          };
        };
        return Object.create(connection, { prepare: { value: prepare } });
      },
    },
  });
  onTestFinished(() => store.close());
  isAsked.now = true;
  await ask(store);
  isAsked.now = false;
  return plans;
}
