import type { Statements } from './statements.ts';

/**
 * Until the transaction ends, nobody else has this lock; with `shared`, nobody has it alone. To be asked for before
 * what it protects is read.
 */
export async function lock(db: Statements, name: string, how: 'alone' | 'shared' = 'alone'): Promise<void> {
  const { forUpdate, forShare, name: engine, upsert } = db.dialect;
  // One transaction writes at a time.
  if (engine === 'sqlite') return;
  const row = `select name from mutexes where name = ? ${how === 'alone' ? forUpdate : forShare}`;
  if ((await db.first(row, [name])) !== undefined) return;
  // It has never been asked for: whoever adds the row, or waits for who does, has it.
  await db.run(upsert('insert into mutexes (name) values (?)', ['name'], [['name', 'new.name']]), [name]);
}
