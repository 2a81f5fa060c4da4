import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { dataOf, readTask, tell, timed } from './tell.ts';

/** What SQLite itself takes: one table, one index, no history; the claim and the finish of a job are two commits. */
const { verb, folder, count } = readTask();
const db = new Sqlite(join(folder, 'raw.db'));
db.pragma('journal_mode = wal');
db.pragma('synchronous = full');
db.exec(`create table jobs (id integer primary key, name text, data text, state integer default 0);
  create index waiting on jobs (id) where state = 0`);
const insert = db.prepare("insert into jobs (name, data) values ('no-op', ?)");
const claim = db.prepare(
  'update jobs set state = 1 where id = (select id from jobs where state = 0 order by id limit 1) returning id, data',
);
const finish = db.prepare('update jobs set state = 2 where id = ?');

const add = () => {
  for (let index = 0; index < count; index += 1) insert.run(JSON.stringify(dataOf(index)));
};

const workOff = () => {
  // `all`: a lone `get` of an update never ends it, and its commit skips the checkpoint.
  for (let [job] = claim.all() as Row[]; job !== undefined; [job] = claim.all() as Row[]) {
    JSON.parse(job.data);
    finish.run(job.id);
  }
};

interface Row {
  readonly id: number;
  readonly data: string;
}

if (verb === 'work') db.transaction(add)();
const verbs: Readonly<Record<string, () => void>> = {
  add,
  bulk: db.transaction(add),
  work: workOff,
};
const ms = await timed(async () => verbs[verb]?.());
tell({
  ms,
  settings: `journal ${db.pragma('journal_mode', { simple: true })}, synchronous ${db.pragma('synchronous', { simple: true })}`,
});
