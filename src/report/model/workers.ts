import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { LogView } from '../../discovery/site.ts';
import type { ActivityLog } from '../../store/schema.ts';
import {
  skipCodes,
  triggers,
  type WorkerKind,
  type WorkerState,
  workerKinds,
  workerStates,
} from '../../store/words.ts';
import { field, person, quoting, record, shown, type Values } from '../../system/base/record.ts';
import { checkLiveness } from '../../system/process/identity.ts';
import { livenessField, selectRunning } from './runs/run.ts';

/** A worker as the readers of the log see it; one whose process is gone has crashed, be it recorded or not. */
export const workerRecord = record('Worker', {
  id: shown.integer,
  kind: shown.words(workerKinds),
  tier: shown.text.like('hourly').orNull.about('Null: it processes jobs of the queue'),
  state: shown.words(workerStates),
  trigger: shown.words(triggers),
  by: person.orNull.about('The person who called it; null: nobody did'),
  host: shown.text.like('web3'),
  pid: shown.integer,
  runnerVersion: shown.text.like('0.1.0'),
  nodeVersion: shown.text.like('24.2.0'),
  scheduledFor: shown.instant.orNull,
  startedAt: shown.instant,
  finishedAt: shown.instant.orNull,
  skipCode: shown.words(skipCodes).orNull,
  /** Why it was skipped, stopped early, or is known to have crashed. */
  reason: quoting.orNull,
  /** Null: it has ended. */
  liveness: livenessField.orNull,
});

type WorkerRecord = Values<typeof workerRecord>;

export interface WorkerQuery {
  readonly kind?: WorkerKind | undefined;
  readonly tier?: string | undefined;
  readonly state?: WorkerState | undefined;
  /** Only those with lower numbers. */
  readonly beforeId?: number | undefined;
  readonly limit: number;
}

type WorkerFilter = Pick<WorkerQuery, 'kind' | 'tier' | 'state'>;

const isWanted = ({ kind, tier, state }: WorkerFilter): RawBuilder<boolean>[] => [
  ...(kind === undefined ? [] : [sql<boolean>`kind = ${sql.lit(kind)}`]),
  ...(tier === undefined ? [] : [sql<boolean>`tier = ${tier}`]),
  // A literal, as an index holds those that run, or crashed, alone.
  ...(state === undefined ? [] : [sql<boolean>`state = ${sql.lit(state)}`]),
];

export async function countWorkers(db: Kysely<ActivityLog>, filter: WorkerFilter): Promise<number> {
  const counted = db.selectFrom('workers').select(({ fn }) => fn.countAll<number>().as('workers'));
  const [row] = await isWanted(filter)
    .reduce((query, condition) => query.where(condition), counted)
    .execute();
  return Number(row?.workers ?? 0);
}

/** Workers, the newest first. */
export async function selectWorkers(db: Kysely<ActivityLog>, query: WorkerQuery): Promise<WorkerRecord[]> {
  const { beforeId, limit } = query;
  const chosen = db
    .selectFrom('workers')
    .innerJoin('hosts', 'hosts.id', 'workers.host_id')
    .select(['workers.id', 'kind', 'tier', 'state', 'triggered_by as trigger', 'actor as by', 'host', 'pid'])
    .select(['pid_start_ticks as startTicks', 'boot_id as bootId', 'skip_code as skipCode', 'reason'])
    .select(['runner_version as runnerVersion', 'node_version as nodeVersion', 'scheduled_for as scheduledForMs'])
    .select(['started_at as startedAtMs', 'finished_at as finishedAtMs'])
    .$if(beforeId !== undefined, (workers) => workers.where('workers.id', '<', beforeId as number))
    .orderBy('workers.id', 'desc')
    .limit(limit);
  const rows = await isWanted(query)
    .reduce((workers, condition) => workers.where(condition), chosen)
    .execute();
  return rows.map(({ startTicks, bootId, ...row }) => {
    const liveness = row.state === 'running' ? checkLiveness({ ...row, startTicks, bootId }) : null;
    return liveness === 'dead' ? { ...row, ...died, liveness } : { ...row, liveness };
  });
}

/** A worker that runs, with the scripts that it runs now. */
export const workerAtWorkRecord = record('WorkerAtWork', {
  ...workerRecord.fields,
  runs: shown.list(field.one(record(null, { id: shown.integer, script: shown.text.like('hourly/clean-tmp') }))),
});

export async function selectAtWork(log: LogView, limit: number): Promise<Values<typeof workerAtWorkRecord>[]> {
  const workers = await selectWorkers(log.db, { state: 'running', limit });
  const runs = Map.groupBy(await selectRunning(log), ({ workerId }) => workerId);
  return workers.map((worker) => ({ ...worker, runs: runs.get(worker.id) ?? [] }));
}

const died = { state: 'crashed', reason: 'its process has gone without finishing' } as const;
