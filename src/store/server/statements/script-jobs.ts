import type { NewScriptJob, ScriptClaim, ScriptJobRow, ScriptJobStore } from '../../contract/jobs.ts';
import type { JobRow } from '../../schema.ts';
import { MOST_COUNTED } from '../../shared/claims.ts';
import { addRows } from '../../shared/sql/rows.ts';
import type { ServerStatements } from '../session.ts';
import { jobColumns, type RowChange, updateJobs } from './job-rows.ts';

/** Scripts are few: their rows are found by the index that holds nothing else. */
export const scriptCondition = ({ dialect }: ServerStatements): string =>
  dialect.name === 'mysql' ? 'script_key is not null' : 'tier is not null';

export function serverScriptJobs(db: ServerStatements): ScriptJobStore {
  return {
    enqueue: async (jobs) => (await enqueue(db, jobs, () => true)) as number[],
    enqueueOnce: (jobs) => enqueue(db, jobs, isNewSlot),
    open: (tier) =>
      db.all<ScriptJobRow>(
        `select ${jobColumns} from jobs where ${scriptCondition(db)} and finished_at is null
           ${tier === undefined ? '' : 'and tier = ?'}
         order by case when state = 'retrying' then 1 else 0 end, run_at, id`,
        tier === undefined ? [] : [tier],
      ),
    ofTier: (tier) =>
      db.all<ScriptJobRow>(`select ${jobColumns} from jobs where ${scriptCondition(db)} and tier = ?`, [tier]),
    claim: (claims) => claimScripts(db, claims),
  };
}

type KnownScript = Pick<JobRow, 'id' | 'name' | 'host' | 'finished_at' | 'scheduled_for'>;

const DAY_MS = 24 * 3_600_000;

function isNewSlot(known: KnownScript, { isAgain = false, scheduledFor, at }: NewScriptJob): boolean {
  if (known.finished_at === null) return false;
  if (isAgain || known.scheduled_for === null) return true;
  return (scheduledFor !== null && known.scheduled_for < scheduledFor) || known.scheduled_for > at + DAY_MS;
}

const scriptColumns = [
  ...(['name', 'tier', 'host', 'state', 'ready', 'scheduled_for', 'run_at', 'created_at'] as const),
] as const;

/** The key of a script keeps two sessions from adding it twice: the second one looks again. */
async function enqueue(
  db: ServerStatements,
  jobs: readonly NewScriptJob[],
  isNew: (known: KnownScript, job: NewScriptJob) => boolean,
): Promise<(number | null)[]> {
  const keyOf = ({ name, host }: { name: string; host?: string | null }): string => `${host ?? ''} ${name}`;
  const rows = await db.all<KnownScript>(
    `select id, name, host, finished_at, scheduled_for from jobs
     where ${scriptCondition(db)} and ${db.dialect.isIn(db.dialect.name === 'mysql' ? 'script_key' : 'name')}
     order by id for update`,
    [jobs.map(({ name }) => name)],
  );
  const known = new Map(rows.map((row) => [keyOf(row), row]));
  const changes: RowChange[] = [];
  const added: NewScriptJob[] = [];
  const ids = new Map<NewScriptJob, number>();
  for (const job of jobs) {
    const row = known.get(keyOf(job));
    if (row === undefined) added.push(job);
    else if (isNew(row, job)) {
      ids.set(job, row.id);
      changes.push({ id: row.id, set: { ...begunAnew(job), scheduled_for: job.scheduledFor ?? row.scheduled_for } });
    }
  }
  if (changes.length > 0) await updateJobs(db, enqueuedColumns, changes);
  const values = added.map(({ name, tier, host, scheduledFor, at }) => [
    ...[name, tier, host ?? null, 'queued', null, scheduledFor, at, at],
  ]);
  const numbers = await addRows(db, 'jobs', scriptColumns, values);
  for (const [index, job] of added.entries()) ids.set(job, numbers[index] as number);
  return jobs.map((job) => ids.get(job) ?? null);
}

const begunAnew = ({ tier, at }: NewScriptJob): RowChange['set'] => ({
  ...{ tier, state: 'queued', run_at: at, started_at: null, attempts: 0 },
  ...{ claim_token: null, finished_at: null, reason: null },
});

const enqueuedColumns = [
  ...(['tier', 'state', 'scheduled_for', 'run_at', 'started_at', 'attempts'] as const),
  ...(['claim_token', 'finished_at', 'reason'] as const),
] as const;

async function claimScripts(db: ServerStatements, claims: readonly ScriptClaim[]): Promise<number[]> {
  const rows = await db.all<Pick<JobRow, 'id' | 'attempts' | 'scheduled_for'>>(
    `select id, attempts, scheduled_for from jobs
     where ${db.dialect.isIn('id')} and state in ('queued', 'retrying') and claim_token is null order by id for update`,
    [claims.map(({ id }) => id)],
  );
  const open = new Map(rows.map((row) => [row.id, row]));
  const isAsSeen = ({ id, seen }: ScriptClaim): boolean => {
    const row = open.get(id);
    if (row === undefined) return false;
    return seen === undefined || (row.attempts === seen.attempts && row.scheduled_for === seen.scheduled_for);
  };
  const taken = claims.filter(isAsSeen);
  for (const state of ['claimed', 'running'] as const) {
    const changes: RowChange[] = taken
      .filter((claim) => claim.state === state)
      .map(({ id, token, at }) => {
        const attempts = Math.min((open.get(id)?.attempts ?? 0) + 1, MOST_COUNTED);
        const begun = state === 'running' ? { started_at: at, attempts, reason: null } : {};
        return { id, set: { state, claim_token: token, ...begun } };
      });
    const columns = ['state', 'claim_token', ...(state === 'running' ? begunOnly : [])] as const;
    if (changes.length > 0) await updateJobs(db, columns, changes);
  }
  return taken.map(({ id }) => id);
}

const begunOnly = ['started_at', 'attempts', 'reason'] as const;
