import { toMillis } from '../../../system/base/values.ts';
import { columnsOf } from '../../columns.ts';
import type { IncidentRow, RunRow } from '../../schema.ts';
import type { Dialect } from '../../shared/sql/dialect.ts';
import { lock, type Statements } from '../../shared/sql/statements.ts';
import { tables } from '../../tables.ts';
import type { Outcome } from '../../words.ts';
import type { DeliveryRow } from './alerts.ts';

/** One observation of a problem. */
export interface IncidentSign extends Pick<IncidentRow, 'subject' | 'code' | 'fingerprint' | 'severity'> {
  readonly at: number;
  readonly runId: number | null;
  readonly message: string | null;
  readonly hint: string | null;
}

/** A run of a subject that has succeeded. */
export interface SubjectSuccess {
  readonly subject: string;
  /** The codes of the incidents that it ends. */
  readonly codes: readonly string[];
  readonly at: number;
  /** Failures are over only if the last one is at least this long ago; null: at once. */
  readonly calmMs: number | null;
  /** Only incidents last seen by this time are over, because the report comes late. */
  readonly seenBy?: number;
}

/** An incident with what is known of its last run; null: that is gone. */
export interface IncidentRun {
  readonly id: number;
  readonly startedAt: number;
  readonly outcome: Outcome;
  readonly durationMs: number | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly reason: string | null;
  /** Null: a script's. */
  readonly queueJobId: number | null;
  /** The end of what it has printed. */
  readonly output: string | null;
}

export interface Mute {
  /** A glob over subjects. */
  readonly name: string;
  /** Epoch milliseconds; null: until it is taken back. */
  readonly until: number | null;
  readonly createdAt: number;
}

export interface IncidentChange {
  readonly id: number;
  readonly set: Partial<Omit<IncidentRow, 'id'>>;
}

export function incidentsOf(db: Statements) {
  return { ...signs(db), ...reading(db), ...telling(db), ...messages(db) };
}

/** The subject of an open incident. On MySQL, only a column of its own gives these an index. */
const openSubject = ({ name }: Dialect): string => (name === 'mysql' ? 'open_subject' : 'subject');

/** The open incidents of a subject. */
const ofSubject = (dialect: Dialect): string => `recovered_at is null and ${openSubject(dialect)} = ?`;

/** The same of some codes only. */
const ofCodes = (dialect: Dialect): string => `${ofSubject(dialect)} and ${dialect.isIn('code')}`;

/** An incident that somebody was told about is due once more: its end is reported, too. */
const isOver = ({ integer }: Dialect): string =>
  `recovered_at = ?, due_at = case when told_at is null and printed_at is null then null else ${integer('?')} end`;

/** The writes of runs and checks. */
function signs(db: Statements) {
  const countText = `update incidents set occurrences = occurrences + 1, last_at = ${db.dialect.greatest('last_at', '?')},
      last_run_id = ?, severity = ?, message = ?, hint = ?, succeeded_at = null,
      due_at = coalesce(due_at, case when acknowledged_at is null then ${db.dialect.integer('?')} end)
    where ${ofSubject(db.dialect)} and code = ? and fingerprint = ?`;
  return {
    /** Counts the sign for an open incident. False: none is open. */
    count: async ({ subject, code, fingerprint, severity, at, runId, message, hint }: IncidentSign) =>
      (await db.run(countText, [at, runId, severity, message, hint, at, subject, code, fingerprint])) > 0,
    // If another machine has opened the incident meanwhile, its key is taken: the transaction begins anew, and counts
    // it.
    open: async ({ subject, code, fingerprint, severity, at, runId, message, hint }: IncidentSign) => {
      await db.run(
        `insert into incidents (subject, code, fingerprint, severity, message, hint, opened_at, last_at, due_at,
           first_run_id, last_run_id) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        [subject, code, fingerprint, severity, message, hint, at, at, at, runId, runId],
      );
    },
    /** The one statement after each success; usually it finds nothing. */
    succeed: (success: SubjectSuccess) =>
      success.calmMs === null ? endAtOnce(db, success) : endCalm(db, success, success.calmMs),
  };
}

async function endAtOnce(
  db: Statements,
  { subject, codes, at, seenBy = Number.MAX_SAFE_INTEGER }: SubjectSuccess,
): Promise<void> {
  await db.run(
    `update incidents set succeeded_at = ?, ${isOver(db.dialect)}
     where ${ofCodes(db.dialect)} and last_at <= ?`,
    [at, at, at, subject, codes, seenBy],
  );
}

/** The first success since the last failure is noted: it says when to look whether all is calm. */
async function endCalm(db: Statements, { subject, codes, at }: SubjectSuccess, calmMs: number): Promise<void> {
  const changed = await db.run(
    `update incidents set succeeded_at = ?, due_at = ${db.dialect.least('coalesce(due_at, last_at + ?)', 'last_at + ?')}
     where ${ofCodes(db.dialect)} and succeeded_at is null`,
    [at, calmMs, calmMs, subject, codes],
  );
  if (changed > 0) return;
  // A table within a table, as MySQL does not read the one that it changes otherwise.
  await db.run(
    `update incidents set ${isOver(db.dialect)} where ${ofSubject(db.dialect)} and code in
       (select code from (select code from incidents where ${ofCodes(db.dialect)}
          group by code having max(last_at) <= ?) as calm)`,
    [at, at, subject, subject, codes, at - calmMs],
  );
}

const columns = columnsOf(tables.incidents);

const muteColumns = 'name, until, created_at as "createdAt"';

function reading(db: Statements) {
  const find = (text: string, values: readonly unknown[]): Promise<IncidentRow[]> =>
    db.all<IncidentRow>(`select ${columns.join(', ')} from incidents ${text}`, values);
  return {
    /** The open incidents: all, or those of these subjects. */
    current: (subjects?: readonly string[]) =>
      subjects === undefined
        ? find('where recovered_at is null order by id', [])
        : find(`where recovered_at is null and ${db.dialect.isIn(openSubject(db.dialect))} order by id`, [subjects]),
    /** Incidents that may need an alert, in the order in which they were seen. */
    due: (at: number) => find('where due_at <= ? order by id', [at]),
    /** All that is known, the newest first. */
    list: (limit: number) => find('order by id desc limit ?', [limit]),
    /** The last run of an incident. */
    lastRun: ({ subject, last_run_id }: Pick<IncidentRow, 'subject' | 'last_run_id'>) =>
      readLastRun(db, subject, last_run_id),
    /** How the newest runs of a subject that have ended did so, the newest first. */
    outcomes: (subject: string, limit: number) =>
      db.all<Pick<RunRow, 'outcome'>>(
        `select outcome from runs
         where script_id = (select id from scripts where name = ?) and outcome not in ('running', 'released', 'stopped')
         order by started_at desc limit ?`,
        [subject, limit],
      ),
    mutes: (at: number) =>
      db.all<Mute>(`select ${muteColumns} from mutes where until is null or until > ? order by name`, [at]),
  };
}

/** Enough for the last lines of what a run has printed. */
const LAST_CHARACTERS = 4_000;

/** The number of a run that is gone may be another one's by now. */
async function readLastRun(db: Statements, subject: string, id: number | null): Promise<IncidentRun | null> {
  const run = await db.first<Omit<IncidentRun, 'durationMs'> & { durationUs: number | null }>(
    `select runs.id, runs.started_at as "startedAt", runs.outcome, runs.duration_us as "durationUs",
       runs.exit_code as "exitCode", runs."signal", runs.reason, ${db.dialect.last('outputs.output', LAST_CHARACTERS)} as output,
       (select jobs.id from jobs where jobs.id = runs.job_id and jobs.tier is null) as "queueJobId"
     from runs join scripts on scripts.id = runs.script_id left join outputs on outputs.run_id = runs.id
     where runs.id = ? and scripts.name = ?`,
    [id, subject],
  );
  if (run === undefined) return null;
  const { durationUs, ...others } = run;
  return { ...others, durationMs: toMillis(durationUs) };
}

function telling(db: Statements) {
  return {
    /** Until the transaction ends, nobody else reports or ends an incident. Call it first in the transaction. */
    lock: async () => {
      await lock(db, 'incidents');
      // One transaction of SQLite writes at a time.
      if (db.dialect.name === 'sqlite') return;
      await db.all('select id from incidents where recovered_at is null or due_at is not null order by id for update');
    },
    change: async (changes: readonly IncidentChange[]) => {
      for (const { id, set } of changes) {
        const names = Object.keys(set);
        if (names.length === 0) continue;
        const text = `update incidents set ${names.map((column) => `${column} = ?`).join(', ')} where id = ?`;
        await db.run(text, [...Object.values(set), id]);
      }
    },
    /** Replaces one of the same name. */
    mute: async ({ name, until, createdAt }: Mute) => {
      const insert = 'insert into mutes (name, until, created_at) values (?, ?, ?)';
      const replacing = ['until', 'created_at'].map((column) => [column, `new.${column}`] as const);
      await db.run(db.dialect.upsert(insert, ['name'], replacing), [name, until, createdAt]);
    },
    /** Returns the mutes that existed. */
    unmute: async (names: readonly string[]) => {
      const where = `where ${db.dialect.isIn('name')}`;
      const locked = `order by name ${db.dialect.forUpdate}`;
      const ended = await db.all<Mute>(`select ${muteColumns} from mutes ${where} ${locked}`, [names]);
      if (ended.length > 0) await db.run(`delete from mutes ${where}`, [names]);
      return ended;
    },
    /** Makes incidents due now that were to be looked at later. */
    lookAgain: async (at: number) => {
      await db.run('update incidents set due_at = ? where due_at > ?', [at, at]);
    },
    /** Deletes incidents that were over before this time, and for each subject all but the newest. */
    prune: (before: number, newest: number) =>
      db.run(
        `delete from incidents where recovered_at is not null and due_at is null and (recovered_at < ? or id in (
           select id from (select id, row_number() over (partition by subject, code order by id desc) as place
             from incidents where recovered_at is not null) as past where place > ?))`,
        [before, newest],
      ),
  };
}

/** Messages that wait for a channel, and the times of those that were sent. */
function messages(db: Statements) {
  return {
    /** When a channel got messages since this time. Older records are deleted. */
    tellings: async (channel: string, since: number) => {
      await db.run('delete from tellings where at <= ?', [since]);
      const told = await db.all<{ at: number }>('select at from tellings where channel = ? order by at', [channel]);
      return told.map(({ at }) => at);
    },
    addTelling: async (channel: string, at: number) => {
      await db.run('insert into tellings (channel, at) values (?, ?)', [channel, at]);
    },
    /** A message to a channel that is due later, and that nobody has tried to send yet. */
    // Locked: another machine must not send it as it was while something is added.
    pending: async (channel: string, at: number) =>
      (await db.first<Pick<DeliveryRow, 'id' | 'body'>>(
        `select id, body from deliveries where kind = 'alert' and channel = ? and attempts = 0 and due_at > ?
         order by id limit 1 ${db.dialect.forUpdate}`,
        [channel, at],
      )) ?? null,
    rewrite: async (delivery: number, body: string) => {
      await db.run('update deliveries set body = ? where id = ?', [body, delivery]);
    },
  };
}
