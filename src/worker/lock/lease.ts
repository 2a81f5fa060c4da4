import type { WorkerRow } from '../../store/schema.ts';
import { now } from '../../system/base/clock.ts';
import { machineName } from '../../system/process/identity.ts';

/** How long other machines consider a silent worker to be alive, in milliseconds. */
export const LEASE_MS = 60_000;

/** Time between two signs of life of a worker. */
export const BEAT_MS = 10_000;

/** Whether a worker with a lease has given no sign of life for as long as the lease lasts. */
export function isLeaseOver({ lease_expires_at }: Pick<WorkerRow, 'lease_expires_at'>): boolean {
  return lease_expires_at !== null && lease_expires_at < now();
}

/** Whether a worker belongs to another machine, whose processes and files cannot be seen from here. */
export function isElsewhere({ host, lease_expires_at }: Pick<WorkerRow, 'host' | 'lease_expires_at'>): boolean {
  return lease_expires_at !== null && host !== machineName();
}

/** "web-2 has given no sign of life since 2026-11-01T10:00:00.000Z" */
export function describeSilence({ host, lease_expires_at }: Pick<WorkerRow, 'host' | 'lease_expires_at'>): string {
  const since = (lease_expires_at ?? 0) - LEASE_MS;
  return `${host} has given no sign of life since ${new Date(since).toISOString()}`;
}
