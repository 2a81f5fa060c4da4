import { droppedTables } from '../tables.ts';

/**
 * Statements by which migrations read what older logs only had in words. The words are those of that time: they stay
 * as they are, whatever is said today.
 */
export const markSuspectRuns = `update runs set suspect = 1
  where outcome = 'succeeded' and warning like 'exit code 0, but its output tells of a failure: %'`;

export const markEndings = [
  `update incidents set code = 'script-suspect' where code = 'script-warning'`,
  `update incidents set ending = 'closed', hint = null where recovered_at is not null and hint = 'closed by hand'`,
  `update incidents set ending = 'gone', hint = substr(hint, 7) where recovered_at is not null and hint like 'gone: %'`,
] as const;

export const dropTables = [
  ...Object.keys(droppedTables).map((name) => `drop table if exists ${name}`),
  `delete from deliveries where kind = 'telemetry'`,
];
