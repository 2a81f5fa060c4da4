import type { CatchUp } from '../settings/settings.ts';
import type { WorkerState } from '../store/schema.ts';
import type { Database } from '../store/store.ts';

/** The newest pass of a tier that had its lock. */
export interface LastPass {
  readonly state: WorkerState;
  readonly startedAt: number;
}

/** How many passes of a period may die: what kills its pass every time must not do so for ever. */
export const PASS_TRIES = 2;

export async function selectLastPass(db: Database, tier: string): Promise<LastPass | null> {
  const last = await passesOf(db, tier)
    .select(['state', 'started_at as startedAt'])
    .where('state', '!=', 'skipped')
    // By number, not by time: the clock may have been set back.
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return last ?? null;
}

/** A pass that did not take place, and why. */
export interface SkippedPass {
  readonly startedAt: number;
  readonly reason: string | null;
}

/** The newest pass of a tier, if it was skipped: paused, held, or missed and not made up for. */
export async function selectSkippedPass(db: Database, tier: string): Promise<SkippedPass | null> {
  const newest = await passesOf(db, tier)
    .select(['state', 'started_at as startedAt', 'reason'])
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return newest?.state === 'skipped' ? newest : null;
}

/** How many passes that stand for this period have died. */
export async function countCrashedPasses(
  db: Database,
  tier: string,
  scheduledFor: number,
): Promise<number> {
  const { crashed } = await passesOf(db, tier)
    .select(({ fn }) => fn.countAll<number>().as('crashed'))
    .where('started_at', '>=', scheduledFor)
    .where('scheduled_for', '=', scheduledFor)
    .where('state', '=', 'crashed')
    .executeTakeFirstOrThrow();
  return crashed;
}

/**
 * Scripts that are done with in this period, whichever way. A crash that nothing was to follow is
 * not: it was the pass that died, not the script's failure.
 */
export async function selectScriptsDone(
  db: Database,
  tier: string,
  scheduledFor: number,
): Promise<string[]> {
  const rows = await db
    .selectFrom('runs')
    .innerJoin('jobs', 'jobs.id', 'runs.job_id')
    .select('runs.script')
    .distinct()
    .where('runs.tier', '=', tier)
    .where('runs.scheduled_for', '=', scheduledFor)
    .where('runs.started_at', '>=', scheduledFor)
    .where('jobs.finished_at', 'is not', null)
    .where(({ or, eb }) =>
      or([
        eb('runs.outcome', '!=', 'crashed'),
        eb('jobs.on_crash', 'is not', null),
        eb('jobs.max_attempts', '>', 1),
      ]),
    )
    .execute();
  return rows.map(({ script }) => script);
}

function passesOf(db: Database, tier: string) {
  return db.selectFrom('workers').where('kind', '=', 'tier').where('tier', '=', tier);
}

/** Whether a pass that stands for this period was skipped for a reason that begins like this. */
export async function hasSkippedPass(
  db: Database,
  skipped: { readonly tier: string; readonly scheduledFor: number; readonly reasonStart: string },
): Promise<boolean> {
  const found = await passesOf(db, skipped.tier)
    .select('id')
    .where('started_at', '>=', skipped.scheduledFor)
    .where('scheduled_for', '=', skipped.scheduledFor)
    .where('state', '=', 'skipped')
    .where('reason', 'like', `${skipped.reasonStart}%`)
    .executeTakeFirst();
  return found !== undefined;
}

/** What is known of a tier when somebody asks whether it is due. */
export interface DueFacts {
  /** When the period began that holds this instant. */
  readonly start: number;
  readonly at: number;
  readonly last: LastPass | null;
  /** How many passes for this period have died. */
  readonly crashes: number;
  readonly catchUp: CatchUp;
}

/** `missed`: it would be due, but is too late to be made up for. */
type DueVerdict = 'due' | 'not-due' | 'missed';

/** A tier that isn't to be caught up runs at its time, give or take what calls once an hour allow. */
const LATE_MS = 3_600_000;

/** A clock that is corrected by a moment has not been set back. */
const CORRECTION_MS = 60_000;

/**
 * A tier is due once a new period has begun since its last pass began; however many were missed, that
 * is one pass. Pure: instants are epoch milliseconds.
 */
export function judgeDue({ start, at, last, crashes, catchUp }: DueFacts): DueVerdict {
  if (last === null || last.startedAt > at + CORRECTION_MS) return 'due';
  if (last.state === 'running') return 'not-due';
  if (last.startedAt >= start) {
    return last.state === 'crashed' && crashes < PASS_TRIES ? 'due' : 'not-due';
  }
  return catchUp === 'skip' && at - start > LATE_MS ? 'missed' : 'due';
}
