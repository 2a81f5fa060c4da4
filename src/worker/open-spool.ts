import { usableStateFolder } from '../config/usable-state-folder.ts';
import type { WorkerRequest } from '../lock/tier-slot.ts';
import { releaseReserve } from '../store/reserve.ts';
import { createSpoolWriter } from '../store/spool/spool-writer.ts';
import type { Journal } from './journal.ts';
import type { Call } from './pass.ts';
import { createSpoolJournal } from './spool-journal.ts';

/** What a worker records its runs in that has no log. */
export interface OpenSpool {
  readonly journal: Journal;
  /** Hands the records over to whoever has the log next. */
  close(): void;
}

/**
 * Finds a place to write, and makes room there.
 *
 * @param reason what follows "because"
 * @throws {UsageError} when nothing at all can be written
 */
export function openSpool(
  { runner, stop }: Call,
  worker: WorkerRequest,
  reason: string,
): OpenSpool {
  // On a full disk there is no other room than what was kept for this.
  releaseReserve(runner.state);
  const { state } = usableStateFolder(runner.root);
  const { self: identity, kind, tier, scheduledFor, startedAt, calledBy, runnerVersion } = worker;
  const spool = createSpoolWriter(state, {
    kind,
    tier,
    identity,
    scheduledFor,
    startedAt,
    calledBy,
    runnerVersion,
    nodeVersion: process.version,
    reason,
  });
  return {
    journal: createSpoolJournal(spool, { state, now: runner.now }),
    close: () => spool.close({ finishedAt: runner.now(), reason: stop.reason }),
  };
}
