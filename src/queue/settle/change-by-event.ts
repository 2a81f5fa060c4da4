import type { JobHead } from '../../store/shared/job-columns.ts';
import type { NewEvent } from '../../store/statements/events.ts';
import type { JobChange } from '../../store/statements/jobs.ts';
import type { StoreSession } from '../../store/store.ts';

/** Changes jobs and records the event of each. */
export async function changeByEvent(
  session: StoreSession,
  changes: readonly JobChange[],
  event: Omit<NewEvent, 'jobId'>,
): Promise<void> {
  await session.jobs.change(changes, event.at);
  await session.events.record(changes.map(({ id: jobId }) => ({ ...event, jobId })));
}

/** Cancels jobs that wait. Call it in a transaction. */
export async function cancelWaiting(
  session: StoreSession,
  jobs: readonly Pick<JobHead, 'id'>[],
  { at, reason }: { readonly at: number; readonly reason: string },
): Promise<void> {
  const set = { state: 'cancelled' as const, finished_at: at, reason };
  const changes = jobs.map(({ id }) => ({ id, set }));
  await changeByEvent(session, changes, { at, event: 'job-cancelled', detail: reason });
}
