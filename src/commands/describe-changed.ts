import type { Job } from '../queue/queue.ts';
import { createClock } from '../report/clock.ts';
import { jobToJson } from '../report/job-json.ts';
import { describeJob } from '../report/job-text.ts';
import { formatJson } from '../report/json.ts';
import type { CommandContext } from './command-context.ts';
import type { JobVerb } from './job-verbs.ts';

interface Changed {
  readonly id: number;
  readonly verb: JobVerb;
  readonly json?: true;
}

/** How a job stands after a verb; null: it is gone, deleted or kept no longer. */
export function describeChanged(
  context: CommandContext,
  job: Job | null,
  { id, verb, json }: Changed,
): string {
  if (json) return formatJson(job === null ? { id } : jobToJson(job));
  if (job !== null) {
    const nowMs = context.now();
    return `${describeJob(job, createClock(nowMs), nowMs)}\n`;
  }
  if (verb === 'delete') return `Job ${id} is deleted.\n`;
  return `Job ${id} is ended, and removed as the settings say.\n`;
}
