import type { Job } from '../../queue/api.ts';
import { noSuchJob } from '../../queue/errors.ts';
import { readJob } from '../../queue/read/jobs.ts';
import type { Pause, StoreSession } from '../../store/contract.ts';
import { parseExactly } from '../../system/base/exact-json.ts';
import { findHold } from '../text/words.ts';
import { type JobActivity, selectActivity } from './activity.ts';
import { asFound, findLostClaims, type JobChild, selectChildren, selectRunsOfJob } from './jobs.ts';
import type { LogView, RunRecord } from './runs/run.ts';

/** What became of a job besides what its row tells. */
export interface JobStory {
  readonly job: Job;
  /** What keeps it from being run; null: nothing does. */
  readonly hold: Pause | null;
  readonly children: readonly JobChild[];
  /** Newest first. */
  readonly runs: readonly RunRecord[];
  /** Oldest first. */
  readonly activity: readonly JobActivity[];
}

/** Where a story is told from. */
interface StorySource {
  /** Null: nothing was ever recorded. */
  readonly store: StoreSession | null;
  /** In force. */
  readonly pauses: readonly Pause[];
  readonly view: LogView;
  readonly nowMs: number;
}

/** A family or a history longer than that nobody reads on a page. */
const MOST_CHILDREN = 1000;
const MOST_RUNS = 100;
const MOST_ACTIVITY = 200;

/**
 * Everything about one job of the queue.
 *
 * @throws {QueueError} `no-such-job` where there is none
 */
export async function readStory({ store, pauses, view, nowMs }: StorySource, id: number): Promise<JobStory> {
  const job = store === null ? null : await readJob(store, id, parseExactly);
  if (store === null || job === null) throw noSuchJob(id);
  return {
    job: asFound(job, await findLostClaims(store, nowMs)),
    hold: findHold(pauses, job),
    children: await selectChildren(view, id, MOST_CHILDREN),
    runs: await selectRunsOfJob(view, id, MOST_RUNS),
    activity: (await selectActivity(view, { jobId: id, order: 'newest', limit: MOST_ACTIVITY })).toReversed(),
  };
}
