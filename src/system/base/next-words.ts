/** Why something did not come, for the terminal and the page. */
export const lateWords = {
  'not-called': 'cron has not called it',
  'no-line': 'no crontab line calls it',
  waits: 'waits for a pass of its tier',
  'no-call': 'no call of a tier is expected',
  'no-handler': 'no handler in jobs/queue/ has this name',
  'no-worker': 'nobody processes the queue',
  paused: 'paused',
} as const;

/** Why something runs then. */
export const reasonWords = {
  call: 'call of the tier',
  schedule: 'its schedule',
  queued: 'next in a pass at work',
  deferred: 'was deferred',
  retry: 'next try',
  due: 'due',
  delay: 'delayed until then',
  repeat: 'repeats',
  after: 'by usual durations',
  window: 'its window begins',
} as const;

/**
 * Why a script or a job runs then, a few words each.
 *
 * @param waits the scripts that it waits for, in words; empty: none
 */
export function describeReason(
  { reason, rule }: { readonly reason: NextReason; readonly rule: string | null },
  waits: string,
): string[] {
  const isGated = reason === 'after' || reason === 'window';
  return [rule ?? (isGated ? '' : reasonWords[reason]), waits, isGated ? reasonWords[reason] : ''].filter(Boolean);
}

export type LateCode = keyof typeof lateWords;
export type NextReason = keyof typeof reasonWords;

export const lateCodes = Object.keys(lateWords) as [LateCode, ...LateCode[]];
export const nextReasons = Object.keys(reasonWords) as [NextReason, ...NextReason[]];
