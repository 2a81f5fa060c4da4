import type { Store } from '../store/open-store.ts';
import type { Runner } from './runner.ts';
import type { StopRequest } from './stop-request.ts';
import type { WorkerEvents } from './worker-events.ts';

/** One worker at work on one tier, whose lock it holds. */
export interface Pass {
  readonly runner: Runner;
  readonly store: Store;
  readonly workerId: number;
  readonly tier: string;
  readonly stop: StopRequest;
  readonly events: WorkerEvents;
}
