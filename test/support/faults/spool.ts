import { SPOOL_VERSION } from '../../../src/store/spool/files.ts';
import type { SpooledEnd, SpooledRun, SpoolHeader, SpoolingWorker } from '../../../src/store/spool/read.ts';
import { identifyProcess } from '../../../src/system/process/identity.ts';
import { makeFinishedRun } from '../log.ts';
import { identifyDeadProcess } from './faults.ts';

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
    version: SPOOL_VERSION,
    spoolId: 'of-a-worker',
    ...makeSpoolingWorker(identifyDeadProcess()),
    ...fields,
  };
}

export function makeSpooledRun(spoolId: string, script = 'hourly/a'): SpooledRun {
  return {
    ...{ spoolId, claim: null, jobId: null, tier: 'hourly', slot: SPOOL_AT },
    start: {
      ...{ script, attempt: 1, scheduledFor: SPOOL_AT, startedAt: SPOOL_AT + 10 },
      ...{ timeoutMs: 60_000, contentHash: 'ab'.repeat(32) },
    },
    policy: { maxAttempts: 3, delay: { firstMs: 60_000, factor: 1, longestMs: 60_000 }, onCrash: null },
  };
}

export function makeSpooledEnd(
  spoolId: string,
  { script, ...fields }: Partial<SpooledEnd> & { readonly script?: string } = {},
): SpooledEnd {
  return {
    ...makeSpooledRun(spoolId, script),
    ...{ end: makeFinishedRun({ finished_at: SPOOL_AT + 20 }), isRetryable: true, result: null, decision: null },
    ...fields,
    type: 'ended',
  };
}

/** The end of a run that began in the log, and is not tried again. */
export function makeEndOfClaim(claim: SpooledEnd['claim'], fields: Partial<SpooledEnd> = {}): SpooledEnd {
  const end = makeSpooledEnd('end-of-claim', { claim, ...fields });
  return { ...end, policy: { ...end.policy, maxAttempts: 1 }, ...fields };
}

/** The lines of a spool file. */
export function toLines(...records: readonly unknown[]): string {
  return records.map((record) => `${JSON.stringify(record)}\n`).join('');
}
