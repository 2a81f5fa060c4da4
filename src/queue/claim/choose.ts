import { queryRaw } from '../../store/sqlite/queries.ts';
import type { Database } from '../../store/store.ts';
import { selectFirstDue, selectHead, selectWaitingNames, type WaitingJob } from './waiting.ts';

/** Which jobs a worker may take. */
export interface JobSelection {
  isWanted(name: string): boolean;
  /** How many jobs of one group may run at the same time; null: any number. */
  readonly groupLimit: number | null;
}

/** So many are looked at in the order of all before those of each name are. */
const FIRST_LOOK = 20;

/** The job that is next: by priority, then due time, then number; null: none is due. */
export async function chooseJob(
  db: Database,
  selection: JobSelection,
  at: number,
): Promise<WaitingJob | null> {
  const head = await selectHead(db);
  if (head === null) return null;
  const isFree = createGroupCheck(db, selection.groupLimit);
  if (head.run_at <= at && selection.isWanted(head.name) && (await isFree(head))) return head;
  return await chooseFurther(db, selection, at, isFree);
}

type GroupCheck = (job: WaitingJob) => Promise<boolean>;

/** What is first in line cannot be taken, by this worker or yet. */
async function chooseFurther(
  db: Database,
  selection: JobSelection,
  at: number,
  isFree: GroupCheck,
): Promise<WaitingJob | null> {
  const first = await selectFirstDue(db, { name: null, at, withoutGroups: [], limit: FIRST_LOOK });
  for (const job of first) {
    if (selection.isWanted(job.name) && (await isFree(job))) return job;
  }
  return first.length < FIRST_LOOK ? null : await chooseByName(db, selection, at);
}

async function chooseByName(
  db: Database,
  { isWanted, groupLimit }: JobSelection,
  at: number,
): Promise<WaitingJob | null> {
  const withoutGroups = groupLimit === null ? [] : await selectFullGroups(db, groupLimit);
  const heads: WaitingJob[] = [];
  for (const name of (await selectWaitingNames(db)).filter(isWanted)) {
    heads.push(...(await selectFirstDue(db, { name, at, withoutGroups, limit: 1 })));
  }
  return heads.sort(byTurn)[0] ?? null;
}

function byTurn(one: WaitingJob, other: WaitingJob): number {
  return other.priority - one.priority || one.run_at - other.run_at || one.id - other.id;
}

/** Asked once for each group: nothing changes within the transaction. */
function createGroupCheck(db: Database, limit: number | null): GroupCheck {
  let full: Promise<readonly string[]> | undefined;
  return async ({ group_key }) => {
    if (limit === null || group_key === null) return true;
    full ??= selectFullGroups(db, limit);
    return !(await full).includes(group_key);
  };
}

async function selectFullGroups(db: Database, limit: number): Promise<string[]> {
  const rows = await queryRaw<{ group_key: string }>(
    db,
    `select group_key from jobs where leased_until is not null and group_key is not null
     group by group_key having count(*) >= ?`,
    [limit],
  );
  return rows.map(({ group_key }) => group_key);
}
