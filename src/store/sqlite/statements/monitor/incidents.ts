import type { DeliveryRow, IncidentRun, IncidentStore, Mute, SubjectSuccess } from '../../../contract/alerts.ts';
import type { IncidentRow } from '../../../schema.ts';
import type { Sync } from '../../../shared/areas.ts';
import type { Outcome } from '../../../words.ts';
import type { SqliteStatements } from '../../session.ts';

export function sqliteIncidents(db: SqliteStatements): Sync<IncidentStore> {
  return { ...signs(db), ...reading(db), ...telling(db) };
}

const countText = `update incidents set occurrences = occurrences + 1, last_at = max(last_at, ?), last_run_id = ?,
    severity = ?, message = ?, hint = ?, succeeded_at = null,
    due_at = coalesce(due_at, case when acknowledged_at is null then ? end)
  where subject = ? and code = ? and fingerprint = ? and recovered_at is null`;

const openText = `insert into incidents
    (subject, code, fingerprint, severity, message, hint, opened_at, last_at, due_at, first_run_id, last_run_id)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;

/** An incident that somebody was told about is due once more: its end is reported, too. */
const isOver = `recovered_at = ?, due_at = case when told_at is null and printed_at is null then null else ? end`;

const ofSubject = (codes: readonly string[]): string =>
  `subject = ? and code in (${codes.map(() => '?').join(', ')}) and recovered_at is null`;

const lastSeen = `(select max(last_at) from incidents as seen
  where seen.subject = incidents.subject and seen.code = incidents.code and seen.recovered_at is null)`;

/** The writes of runs and checks. */
function signs(db: SqliteStatements): Pick<Sync<IncidentStore>, 'count' | 'open' | 'succeed'> {
  return {
    count: ({ subject, code, fingerprint, severity, at, runId, message, hint }) =>
      db.run(countText, [at, runId, severity, message, hint, at, subject, code, fingerprint]) > 0,
    open: ({ subject, code, fingerprint, severity, at, runId, message, hint }) => {
      db.run(openText, [subject, code, fingerprint, severity, message, hint, at, at, at, runId, runId]);
    },
    succeed: (success) => (success.calmMs === null ? endAtOnce(db, success) : endCalm(db, success, success.calmMs)),
  };
}

function endAtOnce(
  db: SqliteStatements,
  { subject, codes, at, seenBy = Number.MAX_SAFE_INTEGER }: SubjectSuccess,
): void {
  db.run(`update incidents set succeeded_at = ?, ${isOver} where ${ofSubject(codes)} and last_at <= ?`, [
    ...[at, at, at, subject, ...codes, seenBy],
  ]);
}

/** The first success since the last failure is noted: it says when to look whether all is calm. */
function endCalm(db: SqliteStatements, { subject, codes, at }: SubjectSuccess, calmMs: number): void {
  const changed = db.run(
    `update incidents set succeeded_at = ?, due_at = min(coalesce(due_at, last_at + ?), last_at + ?)
     where ${ofSubject(codes)} and succeeded_at is null`,
    [at, calmMs, calmMs, subject, ...codes],
  );
  if (changed > 0) return;
  db.run(`update incidents set ${isOver} where ${ofSubject(codes)} and ${lastSeen} <= ?`, [
    ...[at, at, subject, ...codes, at - calmMs],
  ]);
}

function reading(
  db: SqliteStatements,
): Pick<Sync<IncidentStore>, 'current' | 'due' | 'list' | 'lastRun' | 'outcomes' | 'mutes'> {
  return {
    current: (subjects) =>
      subjects === undefined
        ? db.all<IncidentRow>('select * from incidents where recovered_at is null order by id')
        : db.all<IncidentRow>(
            `select * from incidents where recovered_at is null
               and subject in (select value from json_each(?)) order by id`,
            [JSON.stringify(subjects)],
          ),
    due: (at) => db.all<IncidentRow>('select * from incidents where due_at <= ? order by id', [at]),
    list: (limit) => db.all<IncidentRow>('select * from incidents order by id desc limit ?', [limit]),
    // The number of a run that is gone may be another one's by now.
    lastRun: ({ subject, last_run_id }) =>
      db.first<IncidentRun>(
        `select runs.id, started_at as startedAt, outcome, duration_ms as durationMs, exit_code as exitCode,
           signal, reason, substr(output, -${LAST_CHARACTERS}) as output,
           (select jobs.id from jobs where jobs.id = job_id and tier is null) as queueJobId
         from runs join scripts on scripts.id = script_id left join outputs on run_id = runs.id
         where runs.id = ? and scripts.name = ?`,
        [last_run_id, subject],
      ) ?? null,
    outcomes: (subject, limit) =>
      db.all<{ outcome: Outcome; durationMs: number | null }>(
        `select outcome, duration_ms as durationMs from runs
         where script_id = (select id from scripts where name = ?) and outcome not in ('running', 'released')
         order by started_at desc limit ?`,
        [subject, limit],
      ),
    mutes: (at) =>
      db.all<Mute>(`select ${muteColumns} from mutes where until is null or until > ? order by name`, [at]),
  };
}

/** Enough for the last lines of what a run has printed. */
const LAST_CHARACTERS = 4_000;

const muteColumns = 'name, until, created_at as createdAt';

function telling(
  db: SqliteStatements,
): Pick<
  Sync<IncidentStore>,
  'lock' | 'change' | 'mute' | 'unmute' | 'lookAgain' | 'tellings' | 'addTelling' | 'pending' | 'rewrite' | 'prune'
> {
  return {
    // SQLite has one writing transaction at a time.
    lock: () => {},
    change: (changes) => {
      for (const { id, set } of changes) {
        const columns = Object.keys(set);
        if (columns.length === 0) continue;
        const text = `update incidents set ${columns.map((column) => `${column} = ?`).join(', ')} where id = ?`;
        db.run(text, [...Object.values(set), id]);
      }
    },
    mute: ({ name, until, createdAt }) => {
      db.run('insert or replace into mutes (name, until, created_at) values (?, ?, ?)', [name, until, createdAt]);
    },
    unmute: (names) =>
      db.all<Mute>(`delete from mutes where name in (select value from json_each(?)) returning ${muteColumns}`, [
        JSON.stringify(names),
      ]),
    lookAgain: (at) => {
      db.run('update incidents set due_at = ? where due_at > ?', [at, at]);
    },
    tellings: (channel, since) => {
      db.run('delete from tellings where at <= ?', [since]);
      return db
        .all<{ at: number }>('select at from tellings where channel = ? order by at', [channel])
        .map(({ at }) => at);
    },
    addTelling: (channel, at) => {
      db.run('insert into tellings (channel, at) values (?, ?)', [channel, at]);
    },
    pending: (channel, at) =>
      db.first<Pick<DeliveryRow, 'id' | 'body'>>(
        `select id, body from deliveries where kind = 'alert' and channel = ? and attempts = 0 and due_at > ?`,
        [channel, at],
      ) ?? null,
    rewrite: (delivery, body) => {
      db.run('update deliveries set body = ? where id = ?', [body, delivery]);
    },
    prune: (before, newest) =>
      db.run(
        `delete from incidents where recovered_at is not null and due_at is null and (recovered_at < ? or id in (
           select id from (select id, row_number() over (partition by subject, code order by id desc) as place
             from incidents where recovered_at is not null) where place > ?))`,
        [before, newest],
      ),
  };
}
