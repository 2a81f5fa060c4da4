import type { Statements } from '../../shared/sql/statements.ts';
import type { JobState, Outcome } from '../../words.ts';
import { lateMs } from '../counted.ts';

/** A try of a job of the queue. Unknown is null. */
export interface PaceRun {
  /** The job's name without parameters. */
  readonly name: string;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  readonly outcome: Outcome;
  readonly leftJob: JobState | null;
  /** How long after its time a first try began. */
  readonly lateMs: number | null;
}

/** More jobs than this are looked at in a shorter time. */
const MOST_JOBS = 5_000;

/** Many more tries than jobs: a name fails again and again. */
const MOST_RUNS = 20_000;

export function paceOf(db: Statements) {
  const { handlerOf, join } = db.dialect;
  const newest = async (instant: string, condition: string, since: number): Promise<number> => {
    const row = await db.first<{ at: number }>(
      `select ${instant} as at from jobs where ${condition} and ${instant} >= ? order by ${instant} desc limit 1 offset ?`,
      [since, MOST_JOBS],
    );
    return row?.at ?? since;
  };
  return {
    /** From when on there are few enough jobs to be looked at; at the earliest that instant. */
    since: async (earliest: number): Promise<number> =>
      Math.max(
        await newest('created_at', 'tier is null', earliest),
        await newest('finished_at', `state = 'finished' and finished_at is not null and tier is null`, earliest),
      ),
    /** How many jobs of each name were added since then. */
    added: (since: number) =>
      db.all<{ readonly name: string; readonly jobs: number }>(
        `select ${handlerOf('name')} as name, count(*) as jobs from jobs
         where tier is null and created_at >= ? group by 1`,
        [since],
      ),
    /** Tries that began since then. */
    runs: (since: number) =>
      db.all<PaceRun>(
        `select substr(scripts.name, 7) as name, runs.started_at as "startedAt", runs.finished_at as "finishedAt",
           runs.outcome, runs.left_job as "leftJob", ${lateMs} as "lateMs"
         from scripts ${join} runs on runs.script_id = scripts.id left join jobs on jobs.id = runs.job_id
         where scripts.name >= 'queue/' and scripts.name < 'queue0' and runs.started_at >= ? limit ?`,
        [since, MOST_RUNS],
      ),
  };
}
