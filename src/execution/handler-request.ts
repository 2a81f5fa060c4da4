import type { HandlerJob } from '../child/handler-contract.ts';
import type { HandlerFacts, RunRequest } from './run-request.ts';

/** What a job says of its run, in the place of what a tier's period does. */
type SaidByJob = 'attempt' | 'scheduledFor' | 'startedAt' | 'lastSuccess' | 'previouslyCrashed';

/** Everything that one try at a job of the queue needs to know. */
export interface HandlerRequest extends Omit<RunRequest, SaidByJob | 'handler'>, HandlerFacts {}

/** The same for a process of its own. */
export function toRunRequest(request: HandlerRequest): RunRequest {
  const { job, onUpdate } = request;
  return { ...request, ...factsOf(job), handler: { job, onUpdate } };
}

function factsOf(job: HandlerJob): Pick<RunRequest, SaidByJob> {
  const { attempt, startedAt, lastSuccess, previouslyCrashed } = job;
  const scheduledFor = job.scheduledFor ?? startedAt - job.latenessMs;
  return { attempt, scheduledFor, startedAt, lastSuccess, previouslyCrashed };
}
