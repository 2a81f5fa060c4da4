interface WaitingJob {
  readonly state: 'queued' | 'claimed' | 'deferred' | 'linked' | 'retrying';
  readonly reason: string | null;
  readonly attempts: number;
  readonly sinceMs: number;
  readonly runAtMs: number;
}

/**
 * `try 2 due 3 Nov 14:10`; `deferred, waiting since 3 Nov 14:02`; `waits for daily/dump, which is queued`. Why it was
 * deferred, or failed, is said besides.
 *
 * @param write an instant in words
 */
export function describeWait(job: WaitingJob, nowMs: number, write: (atMs: number) => string): string {
  const { state, reason, attempts, sinceMs, runAtMs } = job;
  if (state === 'queued') return 'next in line';
  if (state === 'claimed') return 'begins in a moment';
  if (state === 'linked') return `${reason ?? 'waits for other scripts'}; queued since ${write(sinceMs)}`;
  if (state === 'deferred') return `deferred, waiting since ${write(sinceMs)}`;
  return `try ${attempts + 1} ${runAtMs <= nowMs ? 'due with the next call' : `due ${write(runAtMs)}`}`;
}
