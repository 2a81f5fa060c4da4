import Sqlite from 'better-sqlite3';

/** `sqlite3 [-readonly] <file> [statement]`: rows with `|` between their columns. */
const words = process.argv.slice(2);
const [file = '', statement] = words.filter((word) => !word.startsWith('-'));
const database = new Sqlite(file, { readonly: words.includes('-readonly'), fileMustExist: true });
if (statement !== undefined) {
  const prepared = database.prepare<[], object>(statement);
  if (!prepared.reader) prepared.run();
  else for (const row of prepared.all()) console.log(Object.values(row).join('|'));
}
database.close();
