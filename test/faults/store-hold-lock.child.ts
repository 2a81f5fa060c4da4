import Sqlite from 'better-sqlite3';

/** Another program that keeps the log locked until it is ended. */
const [path = '', statement = ''] = process.argv.slice(2);
const database = new Sqlite(path);
database.exec(statement);
console.log('locked');
setInterval(() => database.pragma('user_version'), 1000);
