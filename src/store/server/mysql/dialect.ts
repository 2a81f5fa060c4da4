import type { Dialect } from '../sql/dialect.ts';

/** With the modes that {@link connect} sets: `||` joins texts, and double quotes are those of names. */
export const mysqlDialect: Dialect = {
  name: 'mysql',
  types: {
    id: 'bigint not null auto_increment primary key',
    integer: 'bigint',
    real: 'double',
    text: 'longtext',
    name: 'varchar(520)',
    word: 'varchar(64)',
    // It reads JSON of 32 or 100 levels, but others are data, too.
    json: 'longtext',
    blob: 'longblob',
  },
  keysOf: (table) => keys[table] ?? [],
  same: (one, other) => `${one} <=> ${other}`,
  isIn: (expression) => `${expression} in (?)`,
  regExp: {
    matches: (expression) => `${expression} regexp ?`,
    character: (code) => `\\x{${code.toString(16)}}`,
    upTo: (found) => `(?>.*?${found})`,
    end: String.raw`\z`,
  },
  handlerOf: (name) => `substring_index(${name}, '?', 1)`,
  workerOf: (token) =>
    `case when ${token} regexp '^[0-9]{1,16}[.]' then cast(substring_index(${token}, '.', 1) as signed) end`,
  integer: (expression) => `cast(${expression} as signed)`,
  nowMs: 'cast(unix_timestamp(now(3)) * 1000 as signed)',
  upsert: (insert, key, assignments) => {
    const [first = ''] = key;
    const assigned = assignments.map(
      ([column, value]) => `${column} = ${value.replace(/\bnew\.(\w+)/g, 'values($1)')}`,
    );
    return `${insert} on duplicate key update ${assigned.length === 0 ? `${first} = ${first}` : assigned.join(', ')}`;
  },
};

/**
 * As in `store/sqlite/migrations.ts`, where it is said what each is for. Each is made with its table: alone it takes as
 * long as that. Two are by the start alone: joined with scripts or tiers, MySQL would read all that an index by these has.
 */
const keys: Readonly<Record<string, readonly string[]>> = {
  workers: [
    'key workers_by_tier (tier, started_at)',
    'key workers_by_start (started_at)',
    'key workers_in_order (kind, tier, id)',
    'key workers_at_work (state, started_at)',
    'key workers_crashed (state, finished_at)',
  ],
  jobs: [
    'unique key jobs_of_scripts (script_key, script_host)',
    'key jobs_ready (ready, urgency, run_at, id)',
    'key jobs_ready_by_name (ready, name, urgency, run_at, id)',
    'key jobs_delayed (ready, run_at, urgency)',
    'key jobs_blocked (blocked_key, urgency, run_at, id)',
    'key jobs_claimed (claim_token)',
    'unique key jobs_unique_key (open_key)',
    'key jobs_by_parent (parent_id, state)',
    'key jobs_ended (state, finished_at)',
    'key jobs_added (created_at)',
  ],
  runs: [
    'key runs_by_script (script_id, started_at, id, outcome)',
    'key runs_by_start (started_at)',
    'key runs_running (outcome, started_at)',
    'key runs_with_file (output_file)',
    'key runs_by_end (finished_at)',
    'unique key runs_by_spool (spool_id)',
  ],
  events: ['key events_by_time (at)', 'key events_of_jobs (job_id)'],
  incidents: ['unique key incidents_open (open_subject, code, fingerprint)', 'key incidents_due (due_at)'],
  deliveries: ['key deliveries_due (due_at)'],
  uncounted: ['key uncounted_starts (counts_start, started_at)', 'key uncounted_ends (counts_end, finished_at)'],
};

/** An expression for the name of a lock of this database's own; the server takes at most 64 characters. */
export function lockName(purpose: string): string {
  // MySQL 9.6 and newer has no md5() by itself.
  return `left(concat('${purpose} ', sha2(database(), 256)), 64)`;
}
