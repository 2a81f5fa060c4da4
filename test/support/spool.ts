import type { SpooledEnd, SpooledRun, SpoolHeader, SpoolingWorker, SpoolRun } from '../../src/store/spool/format.ts';
import { identifyProcess } from '../../src/system/process/identity.ts';
import { identifyDeadProcess } from './dead-process.ts';
import { makeFinishedRun } from './finished-run.ts';

export const SPOOL_AT = Date.UTC(2026, 10, 1, 12);

/** This process, as a worker that has no log. */
export function makeSpoolingWorker(fields: Partial<SpoolingWorker> = {}): SpoolingWorker {
  return {
    kind: 'tier',
    tier: 'hourly',
    ...identifyProcess(process.pid),
    scheduledFor: SPOOL_AT,
    startedAt: SPOOL_AT,
    trigger: 'cron',
    runnerVersion: '0.1.0',
    nodeVersion: process.version,
    reason: 'activity.db is on a full disk',
    ...fields,
  };
}

/** The first line of a worker that is dead, unless said otherwise. */
export function makeSpoolHeader(fields: Partial<SpoolHeader> = {}): SpoolHeader {
  return {
    type: 'worker',
    version: 1,
    spoolId: 'of-a-worker',
    ...makeSpoolingWorker(identifyDeadProcess()),
    ...fields,
  };
}

export function makeSpoolRun(spoolId: string, script = 'hourly/a'): SpoolRun {
  return {
    spoolId,
    jobId: null,
    script,
    tier: 'hourly',
    attempt: 1,
    scheduledFor: SPOOL_AT,
    startedAt: SPOOL_AT + 10,
    timeoutMs: 60_000,
    contentHash: 'ab'.repeat(32),
  };
}

export function makeSpooledRun(spoolId: string, fields: Partial<SpooledRun> = {}): SpooledRun {
  const run = makeFinishedRun({ finished_at: SPOOL_AT + 20 });
  return { type: 'run', ...makeSpoolRun(spoolId), run, ...fields };
}

export function makeSpooledEnd(claim: SpooledEnd['claim'], fields: Partial<SpooledEnd> = {}): SpooledEnd {
  return {
    ...makeSpooledRun('end-of-claim'),
    claim,
    policy: { maxAttempts: 1, delay: { firstMs: 60_000, factor: 1, longestMs: 60_000 }, onCrash: null },
    ...{ isRetryable: true, result: null, decision: null },
    ...fields,
    type: 'end',
  };
}

/** The lines of a spool file. */
export function toLines(...records: readonly unknown[]): string {
  return records.map((record) => `${JSON.stringify(record)}\n`).join('');
}
