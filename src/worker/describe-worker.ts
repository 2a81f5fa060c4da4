import { periodStart } from '../discovery/tier-period.ts';
import type { WorkerRequest } from '../lock/tier-slot.ts';
import { identifyProcess } from '../process/process-identity.ts';
import type { Call } from './pass.ts';
import type { TierRequest } from './tier-request.ts';

/** This process as the worker of a pass that begins now. */
export function describeWorker(
  { runner, calledBy }: Call,
  { kind, tier }: Pick<TierRequest, 'kind' | 'tier'>,
): WorkerRequest {
  const startedAt = runner.now();
  return {
    kind,
    tier: tier.name,
    self: identifyProcess(process.pid),
    scheduledFor: periodStart(tier.name, startedAt),
    startedAt,
    calledBy,
    runnerVersion: runner.version,
  };
}
