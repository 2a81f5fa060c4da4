import Sqlite from 'better-sqlite3';

/** Another program that writes to the log: at each line of its stdin, and says so when that is done. */
const [path = '', journal = 'wal'] = process.argv.slice(2);
const database = new Sqlite(path, { timeout: 15_000 });
database.pragma(`journal_mode = ${journal}`);
database.pragma('synchronous = full');
const add = database.prepare("insert into jobs (name) values ('mail/welcome')");
process.stdin.on('data', () => {
  add.run();
  console.log('committed');
});
console.log('ready');
