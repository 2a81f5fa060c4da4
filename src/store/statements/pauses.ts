import type { Pause, PauseStore } from '../contract/housekeeping.ts';
import { matching } from '../shared/sql/dialect.ts';
import type { Statements } from '../shared/sql/statements.ts';

const columns = 'name, kind, until, created_at as "createdAt"';

export function pausesOf(db: Statements): PauseStore {
  return {
    inForce: (at) =>
      db.all<Pause>(`select ${columns} from pauses where until is null or until > ? order by name`, [at]),
    set: async ({ name, kind, until, createdAt }) => {
      const insert = 'insert into pauses (name, kind, until, created_at) values (?, ?, ?, ?)';
      const assigned = ['kind', 'until', 'created_at'].map((column) => [column, `new.${column}`] as const);
      await db.run(db.dialect.upsert(insert, ['name'], assigned), [name, kind, until, createdAt]);
    },
    remove: async (name) => {
      const { where, values } = matching({ name: name ?? undefined });
      const found = await db.all<Pause>(`select ${columns} from pauses where ${where} order by name`, values);
      if (found.length > 0) await db.run(`delete from pauses where ${where}`, values);
      return found;
    },
  };
}
