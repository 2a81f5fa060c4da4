import type { ServerStatements } from '../session.ts';

/**
 * Until the transaction ends, nobody else has this lock; with `shared`, nobody has it alone. To be asked for before
 * what it protects is read.
 */
export async function lock(db: ServerStatements, name: string, how: 'alone' | 'shared' = 'alone'): Promise<void> {
  const row = `select name from mutexes where name = ? ${how === 'alone' ? 'for update' : sharing[db.dialect.name]}`;
  if ((await db.first(row, [name])) !== undefined) return;
  // It has never been asked for: whoever adds the row, or waits for who does, has it.
  await db.run(db.dialect.upsert('insert into mutexes (name) values (?)', ['name'], [['name', 'new.name']]), [name]);
}

const sharing = { postgres: 'for share', mysql: 'lock in share mode' };
