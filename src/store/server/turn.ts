import type { JobRow } from '../schema.ts';
import { beginningValues } from '../shared/run-rows.ts';
import { quoted } from '../shared/sql/rows.ts';
import type { ClaimedRow, ClaimRequest, Selection, StoreTurn } from '../statements/claims.ts';
import { isSurelyOpen } from '../statements/counted.ts';
import { hasClaim, nextFirst } from '../statements/job-rows.ts';
import { type FinishedClaim, memoryOf } from '../statements/runs.ts';
import { type FinishedRow, finishing } from './postgres/finish.ts';
import type { ServerSession, ServerStatements } from './session.ts';

/** Skips locked rows: another session is taking them, or they will be looked for again. */
export const free = 'for update skip locked';

/** Whether no process works any more on an earlier try, or on an ended job of the same unique key. */
export const isFree = `claim_token is null and (unique_key is null or not exists (select 1 from jobs as holder
  where holder.${hasClaim} and holder.finished_at is not null and holder.unique_key = jobs.unique_key))`;

/** The last look of a session: whether it wanted the first jobs. */
export interface Habit {
  wantsAll: boolean;
}

const habits = new WeakMap<ServerStatements, Habit>();

export function habitOf(db: ServerStatements): Habit {
  const habit = habits.get(db) ?? { wantsAll: true };
  habits.set(db, habit);
  return habit;
}

export function floorOf(
  { dialect }: ServerStatements,
  { minPriority }: Selection,
): { readonly text: string; readonly values: readonly number[] } {
  if (minPriority === undefined) return { text: '', values: [] };
  if (dialect.name === 'mysql') return { text: ' and urgency <= ?', values: [-minPriority] };
  return { text: ' and priority >= ?', values: [minPriority] };
}

/** Whether the first ones of all are mostly those that are wanted, and can be taken by one statement. */
export function mayTakeFirst(db: ServerStatements, { selection, state }: ClaimRequest): boolean {
  const isPlain = selection.id === undefined && selection.groupLimit === null && state === 'claimed';
  return isPlain && habitOf(db).wantsAll && db.dialect.name === 'postgres';
}

export const unreportedChild = `jobs as child where child.parent_id = jobs.id
  and child.reported_to_parent = 0 and child.finished_at is not null`;

/** Few jobs that wait have another value than this in any of these columns. */
const usual = {
  ...{ tier: null, host: null, result: null, scheduled_for: null, started_at: null, retry: null, repeat: null },
  ...{ unique_key: null, concurrency_key: null, parent_id: null, on_child_failure: null, lease_ms: null },
  ...{ finished_at: null, reason: null, missed_policy: 'all', reported_to_parent: 0 },
} as const satisfies Partial<JobRow>;

const usualColumns = Object.keys(usual) as (keyof typeof usual)[];
const nulls = usualColumns.filter((column) => usual[column] === null).map((column) => `jobs.${quoted(column)}`);
const pairs = usualColumns.map((column) => `'${column}', jobs.${quoted(column)}`);

const hasUnreported = `(select 1 from ${unreportedChild} limit 1) is not null`;

/** The unusual columns of a job, as JSON; null if it has none. */
const unusual = `case when num_nonnulls(${nulls.join(', ')}) > 0 or jobs.missed_policy <> 'all'
    or jobs.reported_to_parent <> 0 or ${hasUnreported}
  then json_build_object(${pairs.join(', ')}, 'has_unreported_children', ${hasUnreported})::text end`;

const takenColumns = [
  ...(['id', 'name', 'data', 'priority', 'run_at', 'attempts', 'created_at', 'lease_expires_at'] as const),
  'claim_token',
] as const;

export type TakenRow = Pick<JobRow, (typeof takenColumns)[number]> & {
  readonly claim_token: string;
  readonly unusual: string | null;
};

/** Takes the first ones of all that are due; none while others are due that have no place in their order yet. */
export function takingFirst(
  db: ServerStatements,
  { selection, count, at, leaseMs, defaultLeaseMs, newToken }: ClaimRequest,
): { readonly text: string; readonly values: readonly unknown[] } {
  const floor = floorOf(db, selection);
  const tokens = Array.from({ length: count }, newToken);
  const text = `update jobs set state = 'claimed', ready = null, lease_extended = 0,
      claim_token = (?::text[])[next.turn],
      lease_expires_at = ?::bigint + coalesce(?::bigint, jobs.lease_ms, ?::bigint)
    from (select place, (row_number() over ())::integer as turn
      from (select ctid as place from jobs where ready = 1 and ${isFree}${floor.text}
        and not exists (select 1 from jobs where ready = 0 and run_at <= ?)
        and not exists (select 1 from jobs where ready = 2)
        order by ${nextFirst(db.dialect)} limit ${Math.trunc(count)} ${free}) as first) as next
    where jobs.ctid = next.place
    returning ${takenColumns.map((column) => `jobs.${column}`).join(', ')}, ${unusual} as unusual`;
  return { text, values: [tokens, at, leaseMs, defaultLeaseMs, ...floor.values, at] };
}

/** Written out: of many, each copy of an object takes longer than to read its row. */
export function toClaimed(row: TakenRow): ClaimedRow {
  const job: ClaimedRow = {
    ...usual,
    id: row.id,
    name: row.name,
    state: 'claimed',
    ready: null,
    data: row.data,
    priority: row.priority,
    run_at: row.run_at,
    attempts: row.attempts,
    lease_expires_at: row.lease_expires_at,
    lease_extended: 0,
    claim_token: row.claim_token,
    created_at: row.created_at,
    links_met: null,
    ends_used: null,
    has_unreported_children: false,
  };
  return row.unusual === null ? job : { ...job, ...(JSON.parse(row.unusual) as Partial<ClaimedRow>) };
}

type TurnRow =
  | (TakenRow & { readonly run_ids: null })
  /** Numbers of runs by jobs, as JSON. */
  | { readonly id: null; readonly run_ids: string | null };

/** Finishes jobs and takes the next ones by one statement, which is committed by itself: one trip for all of it. */
export async function takeTurn(
  session: ServerSession,
  ended: readonly FinishedClaim[],
  request: ClaimRequest,
): Promise<StoreTurn | null> {
  const rows = mayTakeFirst(session, request) ? lonelyRows(session, ended) : null;
  if (rows === null) return null;
  const finish = finishing(rows);
  const take = takingFirst(session, request);
  const text = `with ${finish.text}, taken as (${take.text})
    select json_object_agg(added.job_id, added.id)::text as run_ids,
      ${takenColumns.map((column) => `null as ${column}`).join(', ')}, null as unusual from added
    union all select null, taken.* from taken`;
  const answer = await session.atOnce<TurnRow>(text, [...finish.values, ...take.values]);
  let runIds: Readonly<Record<string, number>> = {};
  const claimed: ClaimedRow[] = [];
  for (const row of answer) {
    if (row.id !== null) claimed.push(toClaimed(row));
    else if (row.run_ids !== null) runIds = JSON.parse(row.run_ids);
  }
  habitOf(session).wantsAll = claimed.every(({ name }) => request.selection.isWanted(name));
  return { runIds: ended.map(({ jobId }) => runIds[jobId] ?? null), claimed };
}

/** Null: one of them leaves something in other tables, too. */
function lonelyRows(db: ServerStatements, ended: readonly FinishedClaim[]): FinishedRow[] | null {
  const { scripts, sample } = memoryOf(db);
  const rows: FinishedRow[] = [];
  for (const run of ended) {
    const { key, result, end, startedAt } = run;
    const number = scripts.known(run);
    const isOpen = isSurelyOpen(db, startedAt) && isSurelyOpen(db, end.finished_at ?? startedAt);
    const leavesMore = Boolean(end.output) || end.counts !== undefined || sample.wants(run);
    if (number === null || !isOpen || leavesMore) return null;
    rows.push({ token: key, result, begun: beginningValues(run, number), end });
  }
  return rows;
}
