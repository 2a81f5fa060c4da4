import { createStateFolder } from '../config/state-folder.ts';
import { openStore, type Store } from '../store/open-store.ts';
import { keepReserve } from '../store/reserve.ts';
import { isStoreFailure } from '../store/store-failure.ts';
import type { Call, LoggedCall } from './pass.ts';
import { reconcileIfNeeded } from './reconcile-if-needed.ts';
import { tellStoreFailure } from './store-trouble.ts';

/**
 * Opens the log, puts right what does not tell the truth in it, and lets it be used. Where that
 * cannot be done, `without` has the say, and somebody is told.
 *
 * @param without told why there is no log: what follows "because"
 */
export async function withLog<T>(
  call: Call,
  use: (call: LoggedCall) => Promise<T>,
  without: (reason: string) => Promise<T>,
): Promise<T> {
  const logged = await openLog(call);
  if (typeof logged === 'string') return await without(logged);
  try {
    return await use(logged);
  } finally {
    await logged.store.close();
  }
}

async function openLog(call: Call): Promise<LoggedCall | string> {
  let store: Store | null = null;
  try {
    createStateFolder(call.runner.state);
    store = await openStore(call.runner.state);
    keepReserve(call.runner.state);
    if (store.setAside !== null) call.events.emit('trouble', store.setAside);
    const orphans = await reconcileIfNeeded(call, store);
    return { ...call, store, orphans, spooledTiers: new Set() };
  } catch (error) {
    await store?.close();
    if (!isStoreFailure(error)) throw error;
    return tellStoreFailure(call, error);
  }
}
