import type { Call } from '../pass.ts';
import type { CallSummary } from '../run-tier.ts';
import { withLog } from '../with-log.ts';
import { workQueue } from './work-queue.ts';
import type { WorkRequest } from './work-request.ts';

/** A whole call that works off the queue. Unlike scripts, jobs are nowhere but in the log. */
export async function workOffQueue(call: Call, request: WorkRequest): Promise<CallSummary> {
  return await withLog(
    call,
    async (logged) => await workQueue(logged, request),
    async () => {
      call.events.emit('trouble', 'no job of the queue was taken: there are none but in the log');
      return { ends: [], isBroken: true };
    },
  );
}
