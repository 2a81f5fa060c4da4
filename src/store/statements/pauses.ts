import { matching } from '../shared/sql/dialect.ts';
import type { Statements } from '../shared/sql/statements.ts';
import type { PauseKind } from '../words.ts';

export interface Pause {
  /** `*`: everything; a tier's name; a script's: `hourly/clean-tmp`; `queue/` and a glob of job names. */
  readonly name: string;
  readonly kind: PauseKind;
  /** Epoch milliseconds; null: until it is resumed. */
  readonly until: number | null;
  readonly createdAt: number;
  /** The person who paused it; null: unknown. */
  readonly by: string | null;
}

const columns = 'name, kind, until, created_at as "createdAt", actor as "by"';

export function pausesOf(db: Statements) {
  return {
    /** Those in force at that instant, by name. */
    inForce: (at: number) =>
      db.all<Pause>(`select ${columns} from pauses where until is null or until > ? order by name`, [at]),
    /** Replaces one of the same name. */
    set: async ({ name, kind, until, createdAt, by }: Pause) => {
      const insert = 'insert into pauses (name, kind, until, created_at, actor) values (?, ?, ?, ?, ?)';
      const assigned = ['kind', 'until', 'created_at', 'actor'].map((column) => [column, `new.${column}`] as const);
      await db.run(db.dialect.upsert(insert, ['name'], assigned), [name, kind, until, createdAt, by]);
    },
    /** Removes this one, or all; those that were removed. */
    remove: async (name: string | null) => {
      const { where, values } = matching({ name: name ?? undefined });
      const found = await db.all<Pause>(`select ${columns} from pauses where ${where} order by name`, values);
      if (found.length > 0) await db.run(`delete from pauses where ${where}`, values);
      return found;
    },
  };
}
