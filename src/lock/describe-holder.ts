import type { HolderFile, LockHolder } from './lock-holder.ts';

/** "pid 4711 on web3, since 2026-11-01T10:00:00.000Z" */
export function describeHolder({ pid, host, since }: LockHolder): string {
  return `pid ${pid} on ${host}, since ${toText(since)}`;
}

/** "pid 4711 on web3, dead since 2026-11-01T10:00:00.000Z (its last sign of life)" */
export function describeDead(dead: DeadHolder, now: number): string {
  // Ahead of now: the clock was set back meanwhile.
  const at = Math.min(dead.lastSeenAt, now);
  return `pid ${dead.holder.pid} on ${dead.holder.host}, dead since ${toText(at)} (its last sign of life)`;
}

/** A dead holder of whom it is known who it was. */
export type DeadHolder = HolderFile & { readonly holder: LockHolder };

const toText = (at: number): string => new Date(at).toISOString();
