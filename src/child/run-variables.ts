/** What a run's process learns of it by environment variables; instants in epoch milliseconds. */
export interface RunFacts {
  readonly runId: number | string;
  readonly script: string;
  /** Null: it stands for no time. */
  readonly scheduledFor: number | null;
  readonly latenessMs: number;
  readonly attempt: number;
  readonly lastSuccess: number | null;
  readonly previouslyCrashed: boolean;
  /** Of a handler. */
  readonly job?: { readonly id: number; readonly name: string };
}

/** All that {@link runVariables} sets. */
export const runVariableNames = [
  'RUNNER_RUN',
  'RUNNER_SCRIPT',
  'RUNNER_SCHEDULED_FOR',
  'RUNNER_LATENESS_MS',
  'RUNNER_ATTEMPT',
  'RUNNER_LAST_SUCCESS',
  'RUNNER_PREVIOUSLY_CRASHED',
  'RUNNER_JOB',
  'RUNNER_NAME',
];

export function runVariables(facts: RunFacts): Record<string, string> {
  return {
    RUNNER_RUN: String(facts.runId),
    RUNNER_SCRIPT: facts.script,
    RUNNER_SCHEDULED_FOR: formatInstant(facts.scheduledFor),
    RUNNER_LATENESS_MS: String(facts.latenessMs),
    RUNNER_ATTEMPT: String(facts.attempt),
    RUNNER_LAST_SUCCESS: formatInstant(facts.lastSuccess),
    RUNNER_PREVIOUSLY_CRASHED: facts.previouslyCrashed ? '1' : '',
    ...(facts.job && { RUNNER_JOB: String(facts.job.id), RUNNER_NAME: facts.job.name }),
  };
}

function formatInstant(instant: number | null): string {
  return instant === null ? '' : new Date(instant).toISOString();
}
