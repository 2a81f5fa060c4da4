/**
 * Statements by which migrations read what older logs only had in words. The words are those of that time: they stay
 * as they are, whatever is said today.
 */
export const markSuspectRuns = `update runs set suspect = 1
  where outcome = 'succeeded' and warning like 'exit code 0, but its output tells of a failure: %'`;
