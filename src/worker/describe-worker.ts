import { periodStart } from '../discovery/tier-period.ts';
import type { NewWorker, WorkerRequest } from '../lock/tier-slot.ts';
import { identifyProcess } from '../process/process-identity.ts';
import type { WorkerKind } from '../store/schema.ts';
import type { Call } from './pass.ts';
import type { TierRequest } from './tier-request.ts';

/** This process as the worker of a pass that begins now. */
export function describeWorker(
  call: Call,
  { kind, tier: { name: tier } }: Pick<TierRequest, 'kind' | 'tier'>,
): WorkerRequest {
  const worker = describeSelf(call, kind);
  return { ...worker, tier, scheduledFor: periodStart(tier, worker.startedAt) };
}

/** This process as a worker that begins now. */
export function describeSelf({ runner, calledBy }: Call, kind: WorkerKind): NewWorker {
  return {
    kind,
    tier: null,
    self: identifyProcess(process.pid),
    scheduledFor: null,
    startedAt: runner.now(),
    calledBy,
    runnerVersion: runner.version,
  };
}
