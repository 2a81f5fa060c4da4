import { HOUR_MS } from '../../../system/base/values.ts';
import { machineName } from '../../../system/process/identity.ts';
import { addRows } from '../../shared/sql/rows.ts';
import { lock, type Statements } from '../../shared/sql/statements.ts';
import type { DeliveryKind } from '../../words.ts';

/** Work besides jobs that is due; the first invocation that comes does it. */
export interface DueChores {
  /** An hour is over, or something became known about a closed hour. */
  readonly hours: boolean;
  readonly checks: boolean;
  /** On a fleet: checks that each machine makes for itself are due. */
  readonly ownChecks?: boolean;
  readonly deliveries: boolean;
  /** An incident may need an alert. */
  readonly incidents: boolean;
  /** An incident is open, and its subject may be gone. */
  readonly open: boolean;
}

/** A boot of a machine, as a chore that is done once: its name is the two, one after the other. */
export interface MachineBoot {
  readonly machine: string;
  readonly boot: string;
}

export interface NewDelivery {
  readonly kind: DeliveryKind;
  /** Name of the channel in the settings. */
  readonly channel: string;
  /** JSON. */
  readonly body: string;
  readonly at: number;
}

export interface DeliveryRow {
  readonly id: number;
  readonly kind: DeliveryKind;
  readonly channel: string;
  readonly body: string;
  readonly createdAt: number;
  /** Tries so far. */
  readonly attempts: number;
  readonly reason: string | null;
}

/** How long a delivery that was given up is kept: the next process that delivers deletes it. */
const KEPT_MS = 31 * 24 * HOUR_MS;

/** The whole hour up to which figures are counted. Uncounted rows from before it became known too late. */
const countedUntil = "(select done_at from chores where name = 'hours')";

export function choresOf(db: Statements) {
  const { integer, name: engine } = db.dialect;
  const dueText = `select
      not exists (select 1 from chores where name = 'checks' and done_at <= ? and done_at > case
        when exists (select 1 from runs where outcome = 'running') then ${integer('?')} else ${integer('?')} end)
        as "checks",
      not exists (select 1 from chores where name = ? and done_at <= ? and done_at > ?) as "ownChecks",
      exists (select 1 from incidents where due_at <= ?) as "incidents",
      exists (select 1 from incidents where recovered_at is null) as "open",
      exists (select 1 from deliveries where due_at <= ?)
        or exists (select 1 from deliveries where due_at is null and created_at < ?) as "deliveries",
      not exists (select 1 from chores where name = 'hours' and done_at > ?)
        or exists (select 1 from uncounted where counts_start = 1 and started_at < ${countedUntil})
        or exists (select 1 from uncounted where counts_end = 1 and finished_at < ${countedUntil}) as "hours"`;
  return {
    /**
     * Called at the end of every invocation, so it is fast; usually nothing is due.
     *
     * @param whileRunningMs how often checks are due while a run goes on; default: as often as otherwise
     */
    due: async (at: number, checksEveryMs: number, whileRunningMs: number = checksEveryMs) => {
      const row = await db.first<Record<keyof DueChores, number>>(dueText, [
        ...[at, at - whileRunningMs, at - checksEveryMs],
        ...[`checks ${machineName()}`, at, at - checksEveryMs],
        ...[at, at, at - KEPT_MS, at - HOUR_MS],
      ]);
      const isDue = (chore: keyof DueChores): boolean => row?.[chore] === 1;
      return {
        checks: isDue('checks'),
        // The one machine of a file makes all checks at once.
        ...(engine !== 'sqlite' && { ownChecks: isDue('ownChecks') }),
        incidents: isDue('incidents'),
        open: isDue('open'),
        deliveries: isDue('deliveries'),
        hours: isDue('hours'),
      };
    },
    /** When it was last done; null: never. */
    doneAt: async (name: string) =>
      (await db.first<{ at: number }>('select done_at as at from chores where name = ?', [name]))?.at ?? null,
    setDone: async (name: string, at: number) => {
      await db.run(
        db.dialect.upsert('insert into chores (name, done_at) values (?, ?)', ['name'], [['done_at', 'new.done_at']]),
        [name, at],
      );
    },
    /**
     * Notes that a machine was booted, once for each boot. To be called in a transaction.
     *
     * @returns whether an earlier boot of it is known; null: this one was noted before
     */
    noteBoot: async ({ machine, boot }: MachineBoot, at: number) => {
      await lock(db, 'boots');
      const [name, ofBoot] = [machine + boot, 'select 1 as found from chores where name = ?'];
      if ((await db.first(ofBoot, [name])) !== undefined) return null;
      await db.run('insert into chores (name, done_at) values (?, ?)', [name, at]);
      const earlier = 'delete from chores where substr(name, 1, ?) = ? and name <> ?';
      return (await db.run(earlier, [machine.length, machine, name])) > 0 ? 'next' : 'first';
    },
  };
}

const deliveryColumns = 'id, kind, channel, body, created_at as "createdAt", attempts, reason';

export function deliveriesOf(db: Statements) {
  return {
    add: async (deliveries: readonly NewDelivery[]) => {
      const rows = deliveries.map(({ kind, channel, body, at }) => [kind, channel, body, at, at]);
      await addRows(db, 'deliveries', ['kind', 'channel', 'body', 'created_at', 'due_at'], rows);
    },
    /** Takes those that are due, the oldest first: until then nobody else tries them. To be called in a transaction. */
    claim: async (at: number, until: number, limit: number) => {
      const due = await db.all<DeliveryRow>(
        `select ${deliveryColumns} from deliveries where due_at <= ? order by due_at, id limit ? ${db.dialect.skipLocked}`,
        [at, limit],
      );
      if (due.length === 0) return [];
      const ids = due.map(({ id }) => id);
      await db.run(`update deliveries set attempts = attempts + 1, due_at = ? where ${db.dialect.isIn('id')}`, [
        until,
        ids,
      ]);
      return due.map((row) => ({ ...row, attempts: row.attempts + 1 })).sort((one, other) => one.id - other.id);
    },
    /** It has arrived. */
    remove: async (id: number) => {
      await db.run('delete from deliveries where id = ?', [id]);
    },
    /** @param dueAt when it is tried again; null: it is given up */
    postpone: async (id: number, dueAt: number | null, reason: string) => {
      await db.run('update deliveries set due_at = ?, reason = ? where id = ?', [dueAt, reason, id]);
    },
    /** Those that have not arrived though tried, or were given up, the oldest first. */
    undelivered: () => db.all<DeliveryRow>(`select ${deliveryColumns} from deliveries where attempts > 0 order by id`),
    /** Deletes all of a kind and channel: what is sent now says more. */
    supersede: async (kind: DeliveryKind, channel: string) => {
      await db.run('delete from deliveries where kind = ? and channel = ?', [kind, channel]);
    },
    /** Deletes what was given up before. */
    prune: async (before: number) => {
      await db.run('delete from deliveries where due_at is null and created_at < ?', [before]);
    },
  };
}
