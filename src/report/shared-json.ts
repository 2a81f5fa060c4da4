import { isInstant } from '../config/instant.ts';
import type { Pause } from '../queue/pauses.ts';
import type { WaitingJob } from './status.ts';

export function waitingToJson(job: WaitingJob): object {
  return {
    script: job.script,
    tier: job.tier,
    state: job.state,
    since: instant(job.sinceMs),
    runAt: instant(job.runAtMs),
    attempts: job.attempts,
    maxAttempts: job.maxAttempts,
    reason: job.reason,
  };
}

export function pauseToJson({ name, kind = 'pause', until, createdAt }: Pause): object {
  return { name, kind, until: instant(until), since: instant(createdAt) };
}

/** An ISO 8601 string in UTC; null where no date can be made of it. */
export function instant(atMs: number | null): string | null {
  return isInstant(atMs) ? new Date(atMs).toISOString() : null;
}
