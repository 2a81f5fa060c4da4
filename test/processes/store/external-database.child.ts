import { writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';

/** `<file> <journal> <statements> <ready>`: runs them, makes the file `ready`, and keeps the database open. */
const [file = '', journal = '', statements = '', ready = ''] = process.argv.slice(2);
const database = new Database(file);
database.pragma(`journal_mode = ${journal}`);
database.exec(statements);
writeFileSync(ready, '');
setInterval(() => database.inTransaction, 1000);
