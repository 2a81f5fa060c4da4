import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { allData, describePragmas, reportTimed, task } from './child.ts';

/** What SQLite itself takes: one table, one index, no history; the claim and the finish of a job are two commits. */
const db = new Sqlite(join(task.folder, 'raw.db'));
db.pragma('journal_mode = wal');
db.pragma('synchronous = full');
db.exec(`create table jobs (id integer primary key, name text, data text, state integer default 0);
  create index waiting on jobs (id) where state = 0`);
const insert = db.prepare("insert into jobs (name, data) values ('no-op', ?)");
const claim = db.prepare<[], { readonly id: number; readonly data: string }>(
  'update jobs set state = 1 where id = (select id from jobs where state = 0 order by id limit 1) returning id, data',
);
const finish = db.prepare('update jobs set state = 2 where id = ?');

const add = () => {
  for (const data of allData()) insert.run(JSON.stringify(data));
};

const work = () => {
  // `all`: a lone `get` of an update never ends it, and its commit skips the checkpoint.
  for (let [job] = claim.all(); job !== undefined; [job] = claim.all()) {
    JSON.parse(job.data);
    finish.run(job.id);
  }
};

if (task.verb === 'work') db.transaction(add)();
await reportTimed({ add, bulk: db.transaction(add), work }, describePragmas(db));
