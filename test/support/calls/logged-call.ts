import { defaultSettings, type Settings } from '../../../src/settings/settings.ts';
import { createWorkerEvents } from '../../../src/worker/invocation/events.ts';
import type { StoreInvocation } from '../../../src/worker/invocation/invocation.ts';
import { createStopRequest } from '../../../src/worker/invocation/stop.ts';
import { makeStateOf, openStoreOf } from '../queue/state-of.ts';
import { probePath } from './run-command.ts';

/** A call that has a root's log, as `runner work` makes one. */
export async function makeLoggedCall(root: string, settings: Partial<Settings> = {}): Promise<StoreInvocation> {
  return {
    runner: {
      root,
      state: makeStateOf(root),
      settings: { ...defaultSettings, ...settings },
      environment: {},
      probePath,
      version: '0.1.0',
      now: Date.now,
    },
    trigger: 'manual',
    stop: createStopRequest(),
    events: createWorkerEvents(),
    budget: null,
    store: await openStoreOf(root),
    orphans: [],
    spooledTiers: new Set(),
  };
}
