import type { ChoreStore, DeliveryRow, DeliveryStore, DueChores } from '../../../contract/alerts.ts';
import type { Sync } from '../../../shared/areas.ts';
import type { SqliteStatements } from '../../session.ts';

const HOUR_MS = 3_600_000;

/** How long a delivery that was given up is kept: the next process that delivers deletes it. */
const KEPT_MS = 31 * 24 * HOUR_MS;

/** The whole hour up to which figures are counted. Uncounted rows from before it became known too late. */
const countedUntil = "(select done_at from chores where name = 'hours')";
const areHoursDue = `(not exists (select 1 from chores where name = 'hours' and done_at > ?)
  or exists (select 1 from uncounted where counts_start = 1 and started_at < ${countedUntil})
  or exists (select 1 from uncounted where counts_end = 1 and finished_at < ${countedUntil}))`;

export function sqliteChores(db: SqliteStatements): Sync<ChoreStore> {
  return {
    due: (at, checksEveryMs, whileRunningMs = checksEveryMs) => {
      const row = db.first<Record<keyof DueChores, number>>(
        `select not exists (select 1 from chores where name = 'checks' and done_at <= ? and done_at >
             iif(exists (select 1 from runs where outcome = 'running'), ?, ?)) as checks,
           exists (select 1 from uncompared) as usual,
           exists (select 1 from incidents where due_at <= ?) as incidents,
           exists (select 1 from incidents where recovered_at is null) as open,
           exists (select 1 from deliveries where due_at <= ? or (due_at is null and created_at < ?)) as deliveries, ${areHoursDue} as hours`,
        [at, at - whileRunningMs, at - checksEveryMs, at, at, at - KEPT_MS, at - HOUR_MS],
      );
      const isDue = (chore: keyof DueChores): boolean => row?.[chore] === 1;
      return {
        checks: isDue('checks'),
        usual: isDue('usual'),
        incidents: isDue('incidents'),
        open: isDue('open'),
        deliveries: isDue('deliveries'),
        hours: isDue('hours'),
      };
    },
    doneAt: (name) => db.first<{ at: number }>('select done_at as at from chores where name = ?', [name])?.at ?? null,
    setDone: (name, at) => {
      db.run('insert or replace into chores (name, done_at) values (?, ?)', [name, at]);
    },
    noteBoot: ({ machine, boot }, at) => {
      const insert = 'insert into chores (name, done_at) values (?, ?) on conflict do nothing';
      if (db.run(insert, [machine + boot, at]) === 0) return null;
      const earlier = 'delete from chores where substr(name, 1, ?) = ? and name <> ?';
      return db.run(earlier, [machine.length, machine, machine + boot]) > 0 ? 'next' : 'first';
    },
  };
}

const deliveryColumns = 'id, kind, channel, body, created_at as createdAt, attempts, reason';

export function sqliteDeliveries(db: SqliteStatements): Sync<DeliveryStore> {
  return {
    add: (deliveries) => {
      for (const { kind, channel, body, at } of deliveries) {
        const values = [kind, channel, body, at, at];
        db.run('insert into deliveries (kind, channel, body, created_at, due_at) values (?, ?, ?, ?, ?)', values);
      }
    },
    claim: (at, until, limit) =>
      db
        .all<DeliveryRow>(
          `update deliveries set attempts = attempts + 1, due_at = ?
           where id in (select id from deliveries where due_at <= ? order by due_at, id limit ?)
           returning ${deliveryColumns}`,
          [until, at, limit],
        )
        .sort((one, other) => one.id - other.id),
    remove: (id) => {
      db.run('delete from deliveries where id = ?', [id]);
    },
    postpone: (id, dueAt, reason) => {
      db.run('update deliveries set due_at = ?, reason = ? where id = ?', [dueAt, reason, id]);
    },
    undelivered: () => db.all<DeliveryRow>(`select ${deliveryColumns} from deliveries where attempts > 0 order by id`),
    supersede: (kind, channel) => {
      db.run('delete from deliveries where kind = ? and channel = ?', [kind, channel]);
    },
    prune: (before) => {
      db.run('delete from deliveries where due_at is null and created_at < ?', [before]);
    },
  };
}
