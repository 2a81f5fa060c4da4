import type { StateFolder } from '../config/state-folder.ts';
import { policyOf } from '../queue/retry-policy.ts';
import { releaseReserve } from '../store/reserve.ts';
import type { SpoolEntry, SpoolRun } from '../store/spool/spool-record.ts';
import { newSpoolId, type SpoolWriter } from '../store/spool/spool-writer.ts';
import { toFinishedRun } from './finished-run.ts';
import type { BegunRun, Journal } from './journal.ts';
import type { Runner } from './runner.ts';

/** Records runs beside the log, for as long as it cannot be written; what the log knows is unknown then. */
export function createSpoolJournal(
  spool: SpoolWriter,
  { state, now }: Pick<Runner, 'state' | 'now'>,
): Journal {
  const write = (entry: SpoolEntry): void => append(spool, state, entry);
  return {
    begin: async (job, timeoutMs) => {
      const runId = newSpoolId();
      const run = { ...job, runId, attempt: 1, startedAt: now(), timeoutMs, state, claim: null };
      write({ type: 'begun', ...toSpoolRun(run) });
      return run;
    },
    readHistory: async () => ({ lastSuccess: null, previouslyCrashed: false }),
    recordProgress: async () => {},
    end: async (begun, end, isRetryable) => {
      const { claim, script } = begun;
      const run = toFinishedRun(end);
      const policy = policyOf(script.options);
      if (claim === null) write({ type: 'run', ...toSpoolRun(begun), run });
      else write({ type: 'end', ...toSpoolRun(begun), claim, policy, isRetryable, run });
      return null;
    },
  };
}

/** On a full disk there is no other room than what was kept for this. */
function append(spool: SpoolWriter, state: StateFolder, entry: SpoolEntry): void {
  try {
    spool.append(entry);
  } catch (error) {
    if (!releaseReserve(state)) throw error;
    spool.append(entry);
  }
}

/** A run that began in the log has a number there; the spool tells its records apart by names. */
function toSpoolRun({ runId, script, timeoutMs, ...run }: BegunRun): SpoolRun {
  return {
    spoolId: typeof runId === 'string' ? runId : newSpoolId(),
    jobId: run.id,
    script: script.name,
    tier: script.tier,
    attempt: run.attempt,
    scheduledFor: run.scheduledFor,
    startedAt: run.startedAt,
    timeoutMs,
    contentHash: script.contentHash,
  };
}
