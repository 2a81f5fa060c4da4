import { type Activity, recordActivity } from '../../store/activity.ts';
import type { Database } from '../../store/database.ts';
import type { ActivityEvent, JobState } from '../../store/schema.ts';
import type { ImportedJob } from './imported-job.ts';
import type { AddStep } from './plan-import.ts';

/** SQLite takes 32,766 values in one statement at most. */
const ROWS_AT_ONCE = 500;

/** Adds jobs in steps of many, in whatever states they are. To be used in a transaction. */
export class ImportWriter {
  readonly #db: Database;
  readonly #at: number;
  readonly #isParent: (id: string) => boolean;
  /** Numbers here of the parents, by those there. */
  readonly #parents = new Map<string, number>();
  #waiting: AddStep[] = [];

  constructor(db: Database, at: number, isParent: (id: string) => boolean) {
    this.#db = db;
    this.#at = at;
    this.#isParent = isParent;
  }

  async add(step: AddStep): Promise<void> {
    const { parent } = step.job;
    const isParentWaiting = step.parentId === null && parent !== null && !this.#parents.has(parent);
    if (isParentWaiting || this.#waiting.length === ROWS_AT_ONCE) await this.flush();
    this.#waiting.push(step);
  }

  async flush(): Promise<void> {
    const steps = this.#waiting;
    this.#waiting = [];
    if (steps.length === 0) return;
    const inserted = await this.#db
      .insertInto('jobs')
      .values(steps.map((step) => this.#toRow(step)))
      .returning('id')
      .execute();
    // SQLite hands out ids in the order of the values, but promises no order of RETURNING's rows.
    const ids = inserted.map(({ id }) => id).sort((one, other) => one - other);
    for (const [index, { job }] of steps.entries()) {
      if (this.#isParent(job.id)) this.#parents.set(job.id, ids[index] as number);
    }
    await recordActivity(
      this.#db,
      steps.flatMap(({ job }, index) => this.#tell(job, ids[index] as number)),
    );
  }

  #toRow({ job, parentId }: AddStep) {
    const newParent = job.parent === null ? null : (this.#parents.get(job.parent) ?? null);
    if (job.parent !== null && (parentId ?? newParent) === null) {
      throw new Error(`job ${job.id} comes before its parent ${job.parent}`);
    }
    return {
      name: job.name,
      state: job.state,
      data: job.data,
      priority: job.priority,
      scheduled_for: job.scheduledFor,
      run_at: job.runAt,
      started_at: job.startedAt,
      attempts: job.attempts,
      max_attempts: job.maxAttempts,
      repeat: job.repeat,
      missed: job.missed,
      unique_key: job.key,
      parent_id: parentId ?? newParent,
      lease_ms: job.leaseMs,
      reserves: job.reserves,
      created_at: job.createdAt,
      finished_at: job.finishedAt,
      reason: job.reason,
    };
  }

  /** That it was added is told by a trigger. */
  #tell(job: ImportedJob, jobId: number): Activity[] {
    const event = endEvents[job.state];
    const imported = { at: this.#at, event: 'job-imported' as const, jobId, detail: job.key };
    if (event === undefined || job.finishedAt === null) return [imported];
    return [{ at: job.finishedAt, event, jobId, detail: job.reason }, imported];
  }
}

const endEvents: Partial<Record<JobState, ActivityEvent>> = {
  finished: 'job-finished',
  failed: 'job-failed',
  cancelled: 'job-cancelled',
};
