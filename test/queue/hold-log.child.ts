import { writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import Sqlite from 'better-sqlite3';

/** Holds a log's write lock for so long, and commits then what it has written meanwhile. */
const [path = '', holdMs = '0', statement = '', marker = ''] = process.argv.slice(2);
const database = new Sqlite(path, { timeout: 15_000 });
database.exec('begin immediate');
database.exec(statement);
writeFileSync(marker, '');
await sleep(Number(holdMs));
database.exec('commit');
database.close();
