import { claimJob, recordProgress } from '../queue/claim-job.ts';
import type { QueuedJob } from '../queue/enqueue-scripts.ts';
import { finishJob } from '../queue/finish-job.ts';
import { policyOf } from '../queue/retry-policy.ts';
import { readScriptHistory } from '../queue/script-history.ts';
import type { Store } from '../store/open-store.ts';
import { toFinishedRun } from './finished-run.ts';
import type { BegunRun, Journal } from './journal.ts';
import type { Runner } from './runner.ts';

/** Records runs in the activity log. */
export function createLogJournal(
  store: Store,
  workerId: number,
  { state, now }: Pick<Runner, 'state' | 'now'>,
): Journal {
  return {
    begin: async (job, timeoutMs) => {
      const claiming = { workerId, at: now(), timeoutMs };
      const claim = await store.withoutSync((db) => claimJob(db, job as QueuedJob, claiming));
      return claim === null ? null : { ...job, ...claim, timeoutMs, state, claim };
    },
    readHistory: ({ script, runId }) => readScriptHistory(store.db, script.name, runId as number),
    recordProgress: ({ runId }, progress) =>
      store.withoutSync((db) => recordProgress(db, runId as number, progress)),
    end: async ({ script, claim }: BegunRun, end, isRetryable) => {
      if (claim === null) throw new Error(`${script.name} did not begin in the log.`);
      const policy = policyOf(script.options);
      const ended = { claim, policy, run: toFinishedRun(end), isRetryable };
      return await store.retryWhenFull(() => finishJob(store.db, ended, { workerId }));
    },
  };
}
