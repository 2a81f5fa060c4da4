import { takeNotesBack } from '../../execution/secret-notes.ts';
import { describeStoreFailure } from '../../store/describe-failure.ts';
import { isSuspicious } from '../../store/failures.ts';
import { openStore } from '../../store/open.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import { markSuspect } from '../../store/sqlite/file.ts';
import type { Store } from '../../store/store.ts';
import { toPackageIncomplete, UsageError } from '../../system/base/errors.ts';
import { createStateFolder, demandRunFolders, keepReserve } from '../../system/place/state-folder.ts';
import type { Orphan } from '../recovery/reconcile.ts';
import { isSpooled, mayNeedReconciling } from '../recovery/tier-lock.ts';
import type { Invocation, StoreInvocation } from './invocation.ts';

/**
 * Opens the log, corrects it after crashes, and passes it to `use`. If that fails, it reports the problem and calls
 * `without` instead.
 *
 * @param without gets the reason why there is no log: the words after "because"
 */
export async function withStore<T>(
  call: Invocation,
  use: (call: StoreInvocation) => Promise<T>,
  without: (reason: string) => Promise<T>,
): Promise<T> {
  const logged = await openLog(call);
  const result = await (typeof logged === 'string'
    ? without(logged).finally(() => close(call))
    : useLog(call, logged, use));
  takeNotesBack();
  return result;
}

async function useLog<T>(
  call: Invocation,
  logged: StoreInvocation,
  use: (call: StoreInvocation) => Promise<T>,
): Promise<T> {
  try {
    const result = await use(logged).finally(() => close(call));
    await ifLogAllows(call, () => housekeepIfDue(logged));
    return result;
  } finally {
    logged.heartbeat?.stop();
    await ifLogAllows(call, () => logged.store.close());
  }
}

async function close({ events }: Invocation): Promise<void> {
  const waits: Promise<unknown>[] = [];
  events.emit('closing', waits);
  if (waits.length > 0) await Promise.all(waits);
}

/** A tier that is not called is noticed within minutes; a run that lasts too long, by the next pass of any tier. */
const CHECKS_EVERY_MS = 5 * 60_000;
const WHILE_RUNNING_MS = 50_000;

/** Work that concerns no job. It comes last, when no lock is held that somebody could wait for. */
async function housekeepIfDue(call: StoreInvocation): Promise<void> {
  const { store, runner } = call;
  const due = await store.chores.due(runner.now(), CHECKS_EVERY_MS, WHILE_RUNNING_MS);
  if (!Object.values(due).includes(true)) return;
  const { housekeep } = await import('../pass/housekeep.ts');
  await housekeep(call, due);
}

async function openLog(call: Invocation): Promise<StoreInvocation | string> {
  let store: Store | null = null;
  try {
    createStateFolder(call.runner.state);
    store = await openStore(call.runner.state);
    // Without these folders no run could begin, and each attempt would use up a try of its job.
    demandRunFolders(call.runner.state);
    keepReserve(call.runner.state);
    if (store.quarantined !== null) call.events.emit('problem', store.quarantined);
    const orphans = await reconcileIfNeeded(call, store);
    const shared = { ...call, store, orphans, spooledTiers: new Set<string>() };
    if (store.fleet === null) return shared;
    const { startHeartbeat } = await import('./heartbeat.ts');
    return { ...shared, heartbeat: startHeartbeat(call, store) };
  } catch (error) {
    // Report the first error.
    await store?.close().catch(() => {});
    if (error instanceof UsageError) throw error;
    return reportStoreFailure(call, error);
  }
}

/** Corrects the log after crashes; in nearly all calls there is nothing to correct. */
export async function reconcileIfNeeded(call: Invocation, store: Store): Promise<readonly Orphan[]> {
  return (await mayNeedReconciling(call.runner, store)) ? await reconcileNow(call, store) : [];
}

/**
 * Like `reconcileIfNeeded`, in the middle of a call: another call may have lost the log and run jobs that are queued
 * here.
 *
 * @returns null if there is nothing new
 */
export async function reconcileIfSpooled(call: Invocation, store: Store): Promise<readonly Orphan[] | null> {
  return isSpooled(call.runner) ? await reconcileNow(call, store) : null;
}

async function reconcileNow({ runner, events }: Invocation, store: Store): Promise<readonly Orphan[]> {
  const { reconcile } = await import('../recovery/reconcile.ts');
  const { orphans, notes } = await reconcile(runner, store, runner.now());
  for (const note of notes) events.emit('warning', note);
  return orphans;
}

/**
 * Reports the problem and marks the log for a check at its next opening. Scripts run whatever happens to the log, so
 * the error may be of any kind, even an unforeseen one.
 *
 * @returns the sentence reported
 */
export function reportStoreFailure({ runner, events }: Invocation, error: unknown): string {
  const incomplete = toPackageIncomplete(error);
  if (incomplete === null && isSuspicious(error) && !isOnServer()) markSuspect(runner.state);
  const sentence = incomplete?.message ?? describeStoreFailure(error, runner.state);
  events.emit('problem', sentence);
  return sentence;
}

/** A run stays as it is even if something about it cannot be recorded; the failure is only reported. */
export async function ifLogAllows(call: Invocation, record: () => Promise<unknown>): Promise<void> {
  try {
    await record();
  } catch (error) {
    if (error instanceof UsageError) throw error;
    reportStoreFailure(call, error);
  }
}
