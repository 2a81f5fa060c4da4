import Sqlite from 'better-sqlite3';

/** `sqlite3 -readonly <file> [query]`: rows with `|` between their columns. */
const [file = '', query] = process.argv.slice(2).filter((word) => !word.startsWith('-'));
const database = new Sqlite(file, { readonly: true, fileMustExist: true });
if (query !== undefined) {
  for (const row of database.prepare<[], object>(query).all()) {
    process.stdout.write(`${Object.values(row).join('|')}\n`);
  }
}
database.close();
