import { stateFolderOf } from '../config/state-folder.ts';
import { usableStateFolder } from '../config/usable-state-folder.ts';
import type { WorkerRequest } from '../lock/tier-slot.ts';
import { releaseReserve } from '../store/reserve.ts';
import { createSpoolWriter } from '../store/spool/spool-writer.ts';
import { findMovedRoot } from './find-moved-root.ts';
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
export function openSpool(call: Call, worker: WorkerRequest, reason: string): OpenSpool {
  const { runner, stop } = call;
  const movedTo = findMovedRoot(runner.state);
  if (movedTo !== null) tellMoved(call, movedTo);
  // On a full disk there is no other room than what was kept for this.
  releaseReserve(runner.state);
  const state = movedTo === null ? usableStateFolder(runner.root) : stateFolderOf(movedTo);
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
  const journal = createSpoolJournal(spool, { state, now: runner.now });
  return {
    journal: movedTo === null ? journal : { ...journal, begin: async () => null },
    close: () => spool.close({ finishedAt: runner.now(), reason: stop.reason }),
  };
}

/** By its old path nothing can be started any more; what is left the next pass runs at the new place. */
function tellMoved({ runner, stop, events }: Call, movedTo: string): void {
  stop.startNothing(`${runner.root} was moved to ${movedTo}`);
  events.emit(
    'trouble',
    `${runner.root} was moved to ${movedTo} during the pass: the next one there records what ran, and runs the rest.`,
  );
}
