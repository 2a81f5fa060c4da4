import { DAY_MS } from '../../system/base/values.ts';
import type { JobRow } from '../schema.ts';
import { matching } from '../shared/sql/dialect.ts';
import { addRows } from '../shared/sql/rows.ts';
import type { Statements } from '../shared/sql/statements.ts';
import { jobColumns, MOST_COUNTED, nextNumber, type RowChange, updateJobs } from './job-rows.ts';
import type { ClaimRef } from './runs.ts';

/** A script's one row in `jobs`; of one that runs on every host, that of one of them. */
export type ScriptJobRow = JobRow & { readonly tier: string };

export interface NewScriptJob {
  readonly name: string;
  readonly tier: string;
  /** The only machine that it is for. Left out, or null: any. */
  readonly host?: string | null;
  readonly scheduledFor: number | null;
  /** Whether it is queued whatever slot it was queued for before. Its row keeps that slot if `scheduledFor` is null. */
  readonly isAgain?: boolean;
  /** Whether it may have to wait for other scripts, or for its time of day. Default false. */
  readonly mayHaveToWait?: boolean;
  readonly at: number;
}

export interface ScriptClaim extends ClaimRef {
  /** `claimed`: it begins later. */
  readonly state: 'claimed' | 'running';
  readonly at: number;
  /** Only if its row is still this: on another machine it may have run meanwhile. Left out: whatever it is. */
  readonly seen?: Pick<JobRow, 'attempts' | 'scheduled_for'>;
}

/** Facts that are written to the row of a script once it may run. */
export interface MetLinks {
  /** The ends that it uses, as in the column. */
  readonly used: string;
  readonly scheduledFor: number | null;
}

/** Scripts are few: their rows are found by the index that holds nothing else. */
export const scriptCondition = ({ dialect }: Statements): string =>
  dialect.name === 'mysql' ? 'script_key is not null' : 'tier is not null';

/** Their rows, for a statement that may add conditions. */
export const scriptRows = (db: Statements): string =>
  `${db.dialect.byIndex('jobs', { sqlite: 'jobs_of_scripts' })} where ${scriptCondition(db)}`;

const nameColumn = ({ dialect }: Statements): string => (dialect.name === 'mysql' ? 'script_key' : 'name');

export function scriptJobsOf(db: Statements) {
  const scripts = scriptRows(db);
  const enqueue = db.dialect.name === 'sqlite' ? enqueueOnSqlite : enqueueOnServer;
  return {
    /** Queues scripts in their order, whether they are open or not: their rows are made, or begun anew. Their numbers. */
    enqueue: async (jobs: readonly NewScriptJob[]) => (await enqueue(db, jobs, 'always')) as number[],
    /**
     * The same for a slot, which many machines may have: only those that are not open and, unless they are to run again,
     * were not queued for this slot or a later one. To be called in a transaction. Null: somebody was sooner. A slot more than
     * a day ahead of `at` does not count: a clock was wrong then.
     */
    enqueueOnce: (jobs: readonly NewScriptJob[]) => enqueue(db, jobs, 'new'),
    /** Those that have not ended, of a tier or of all tiers, those first that are to be run first. */
    open: (tier?: string) =>
      db.all<ScriptJobRow>(
        `select ${jobColumns} from ${scripts} and finished_at is null ${tier === undefined ? '' : 'and tier = ?'}
         order by case when state = 'retrying' then 1 else 0 end, run_at, id`,
        tier === undefined ? [] : [tier],
      ),
    /** All rows of a tier's scripts. */
    ofTier: (tier: string) => db.all<ScriptJobRow>(`select ${jobColumns} from ${scripts} and tier = ?`, [tier]),
    /** All rows of these scripts, on each machine. */
    named: (names: readonly string[]) =>
      db.all<ScriptJobRow>(`select ${jobColumns} from ${scripts} and ${db.dialect.isIn(nameColumn(db))}`, [names]),
    /**
     * Lets a queued script run for a time, and keeps the ends that it uses. False: it is not queued any more, or somebody
     * else has let it run since its row was read.
     */
    meetLinks: async ({ id, ends_used: before }: Pick<JobRow, 'id' | 'ends_used'>, { used, scheduledFor }: MetLinks) =>
      (await db.run(
        `update jobs set links_met = 1, ends_used = ?, scheduled_for = ?
         where id = ? and state = 'queued' and claim_token is null
           and coalesce(links_met, 0) = 0 and coalesce(ends_used, '') = ?`,
        [used, scheduledFor, id, before ?? ''],
      )) > 0,
    /** Takes open jobs that nobody has, up to all of them; those that somebody else has are left out. */
    claim: async (claims: readonly ScriptClaim[]) => {
      const taken: number[] = [];
      for (const claim of claims) if (await claimScript(db, claim)) taken.push(claim.id);
      return taken;
    },
  };
}

async function claimScript(db: Statements, { id, token, state, at, seen }: ScriptClaim): Promise<boolean> {
  const begin =
    state === 'running'
      ? `, started_at = ?, attempts = ${db.dialect.least('attempts + 1', `${MOST_COUNTED}`)}, reason = null`
      : '';
  const asSeen = matching({ attempts: seen?.attempts, scheduled_for: seen?.scheduled_for });
  const text = `update jobs set state = '${state}', claim_token = ?${begin}
    where id = ? and state in ('queued', 'retrying') and claim_token is null and ${asSeen.where}`;
  return (await db.run(text, [token, ...(state === 'running' ? [at] : []), id, ...asSeen.values])) > 0;
}

/** Which jobs are queued: all, or those alone whose slot is new. */
type Which = 'always' | 'new';

const columns = ['name', 'tier', 'host', 'state', 'ready', 'scheduled_for', 'run_at', 'created_at', 'links_met'];

const valuesOf = ({ name, tier, host, scheduledFor, at, mayHaveToWait }: NewScriptJob): readonly unknown[] => [
  ...[name, tier, host ?? null, 'queued', null, scheduledFor, at, at, mayHaveToWait ? 0 : null],
];

const upsertText = `insert into jobs (id, ${columns.join(', ')}) values (${nextNumber}, ${columns.map(() => '?').join(', ')})
  on conflict (name, coalesce(host, '')) where tier is not null do update set tier = excluded.tier, state = 'queued',
    scheduled_for = coalesce(excluded.scheduled_for, jobs.scheduled_for), run_at = excluded.run_at, started_at = null,
    attempts = 0, claim_token = null, finished_at = null, reason = null, links_met = excluded.links_met`;

/** As {@link isNewSlot}. */
const isNewText = `jobs.finished_at is not null and (? or jobs.scheduled_for is null
  or jobs.scheduled_for < excluded.scheduled_for or jobs.scheduled_for > excluded.run_at + ${DAY_MS})`;

/** One statement for each job, whether its row is there or not: a pass has few. */
async function enqueueOnSqlite(
  db: Statements,
  jobs: readonly NewScriptJob[],
  which: Which,
): Promise<(number | null)[]> {
  const text = `${upsertText} ${which === 'new' ? `where ${isNewText}` : ''} returning id`;
  const ids: (number | null)[] = [];
  for (const job of jobs) {
    const row = await db.first<{ id: number }>(text, [
      ...valuesOf(job),
      ...(which === 'new' ? [job.isAgain ?? false] : []),
    ]);
    ids.push(row?.id ?? null);
  }
  return ids;
}

type KnownScript = Pick<JobRow, 'id' | 'name' | 'host' | 'finished_at' | 'scheduled_for'>;

function isNewSlot(known: KnownScript, { isAgain = false, scheduledFor, at }: NewScriptJob): boolean {
  if (known.finished_at === null) return false;
  if (isAgain || known.scheduled_for === null) return true;
  return (scheduledFor !== null && known.scheduled_for < scheduledFor) || known.scheduled_for > at + DAY_MS;
}

/** In few statements. The key of a script keeps two sessions from adding it twice: the second one looks again. */
async function enqueueOnServer(
  db: Statements,
  jobs: readonly NewScriptJob[],
  which: Which,
): Promise<(number | null)[]> {
  const keyOf = ({ name, host }: { name: string; host?: string | null }): string => `${host ?? ''} ${name}`;
  const rows = await db.all<KnownScript>(
    `select id, name, host, finished_at, scheduled_for from jobs
     where ${scriptCondition(db)} and ${db.dialect.isIn(nameColumn(db))}
     order by id ${db.dialect.forUpdate}`,
    [jobs.map(({ name }) => name)],
  );
  const known = new Map(rows.map((row) => [keyOf(row), row]));
  const changes: RowChange[] = [];
  const added: NewScriptJob[] = [];
  const ids = new Map<NewScriptJob, number>();
  for (const job of jobs) {
    const row = known.get(keyOf(job));
    if (row === undefined) added.push(job);
    else if (which === 'always' || isNewSlot(row, job)) {
      ids.set(job, row.id);
      changes.push({ id: row.id, set: { ...begunAnew(job), scheduled_for: job.scheduledFor ?? row.scheduled_for } });
    }
  }
  if (changes.length > 0) await updateJobs(db, enqueuedColumns, changes);
  const numbers = await addRows(db, 'jobs', columns, added.map(valuesOf));
  for (const [index, job] of added.entries()) ids.set(job, numbers[index] as number);
  return jobs.map((job) => ids.get(job) ?? null);
}

const begunAnew = ({ tier, at, mayHaveToWait }: NewScriptJob): RowChange['set'] => ({
  ...{ tier, state: 'queued', run_at: at, started_at: null, attempts: 0 },
  ...{ claim_token: null, finished_at: null, reason: null, links_met: mayHaveToWait ? 0 : null },
});

const enqueuedColumns = [
  ...(['tier', 'state', 'scheduled_for', 'run_at', 'started_at', 'attempts'] as const),
  ...(['claim_token', 'finished_at', 'reason', 'links_met'] as const),
] as const;
