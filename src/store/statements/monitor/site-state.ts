import { type Dialect, withTiers } from '../../shared/sql/dialect.ts';
import type { Statements } from '../../shared/sql/statements.ts';
import type { Outcome, Severity } from '../../words.ts';
import { hasClaim } from '../job-rows.ts';

/** How a site is now; null is unknown. */
export interface SiteState {
  readonly scripts: readonly {
    readonly script: string;
    readonly lastAt: number | null;
    readonly lastOutcome: Outcome | null;
    readonly lastSuspect: 0 | 1;
    readonly lastSuccessAt: number | null;
  }[];
  readonly tiers: readonly { readonly tier: string; readonly lastPassAt: number | null }[];
  readonly queue: {
    readonly jobs: Readonly<Record<'waiting' | 'delayed' | 'running' | 'failed', number>>;
    /** How long the first of those that wait has been due; null: none waits. */
    readonly ageMs: number | null;
  };
  readonly running: number;
  readonly workers: number;
  readonly incidents: Readonly<Record<Severity, number>>;
  readonly deliveries: { readonly waiting: number; readonly givenUp: number };
  readonly logBytes: number;
}

const figures = {
  ready: 'jobs where ready = 1',
  blocked: 'jobs where ready = 2',
  due: 'jobs where ready = 0 and run_at <= ?',
  delayed: 'jobs where ready = 0 and run_at > ?',
  claimed: `jobs where ${hasClaim} and tier is null`,
  failed: `jobs where state = 'failed' and finished_at is not null and tier is null`,
  running: `runs where outcome = 'running'`,
  workers: `workers where state = 'running'`,
  warning: `incidents where recovered_at is null and severity = 'warning'`,
  critical: `incidents where recovered_at is null and severity = 'critical'`,
  waiting: 'deliveries where due_at is not null',
  givenUp: 'deliveries where due_at is null',
} as const;

const figuresText = Object.entries(figures).map(([name, rows]) => `(select count(*) from ${rows}) as "${name}"`);

const oldestText = `select min(run_at) as since from (
  select min(run_at) as run_at from jobs where ready = 1 and run_at <= ?
  union all select min(run_at) from jobs where ready = 2 and run_at <= ?
  union all select min(run_at) from jobs where ready = 0 and run_at <= ?) as waiting`;

/** Each figure by an index, however much the log holds. */
export async function readSiteState(db: Statements, at: number): Promise<SiteState> {
  const values = Array(figuresText.join('').split('?').length - 1).fill(at);
  const counted = (await db.first<Record<keyof typeof figures, number>>(
    `select ${figuresText.join(', ')}`,
    values,
  )) as Record<keyof typeof figures, number>;
  const since = (await db.first<{ since: number | null }>(oldestText, [at, at, at]))?.since ?? null;
  const { ready, blocked, due, delayed, claimed, failed, running, workers, warning, critical, waiting, givenUp } =
    counted;
  return {
    scripts: await db.all(lastRunsText(db.dialect.join)),
    tiers: await db.all(`${withTiers(db.dialect)} ${lastPassesText}`),
    queue: {
      jobs: { waiting: ready + blocked + due, delayed, running: claimed, failed },
      ageMs: since === null ? null : at - since,
    },
    running,
    workers,
    incidents: { warning, critical },
    deliveries: { waiting, givenUp },
    logBytes: (await db.first<{ bytes: number }>(bytesTexts[db.dialect.name]))?.bytes ?? 0,
  };
}

/** The bytes of all tables with their indexes. */
const bytesTexts: Readonly<Record<Dialect['name'], string>> = {
  sqlite: 'select page_count * page_size as bytes from pragma_page_count, pragma_page_size',
  postgres: `select sum(pg_total_relation_size(oid)) as bytes from pg_class
    where relnamespace = current_schema()::regnamespace and relkind = 'r'`,
  mysql: `select sum(data_length + index_length) as bytes from information_schema.tables
    where table_schema = database()`,
};

const lastRunsText = (join: Dialect['join']): string => `
  select scripts.name as script, newest.started_at as "lastAt", newest.outcome as "lastOutcome",
    newest.suspect as "lastSuspect",
    (select started_at from runs where script_id = scripts.id and outcome = 'succeeded'
     order by started_at desc limit 1) as "lastSuccessAt"
  from scripts ${join} runs as newest on newest.id =
    (select id from runs where script_id = scripts.id order by started_at desc, id desc limit 1)
  order by scripts.name`;

const lastPassesText = `select tier, (select started_at from workers
    where workers.tier = tiers.tier and kind = 'tier' and state <> 'skipped'
    order by started_at desc limit 1) as "lastPassAt"
  from tiers where tier is not null`;
