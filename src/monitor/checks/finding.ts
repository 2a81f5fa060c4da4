/** As monitoring plugins have it: exit codes 0, 1, 2, 3. */
export type CheckStatus = 'ok' | 'warning' | 'critical' | 'unknown';

export type CheckCode =
  | 'tier-overdue'
  | 'tier-skipped'
  | 'script-failing'
  | 'script-suspect'
  | 'script-overdue'
  | 'run-unusual'
  | 'jobs-failing'
  | 'jobs-waiting'
  | 'jobs-late'
  | 'no-worker'
  | 'worker-stuck'
  | 'crashes'
  | 'utilization'
  | 'service-time'
  | 'log-unusable'
  | 'disk-full'
  | 'alerts-undelivered';

/** What each machine of a fleet finds of itself. */
export const placeCodes: readonly CheckCode[] = ['log-unusable', 'disk-full'];

/** What a check says of one subject. */
export interface Finding {
  readonly code: CheckCode;
  readonly status: CheckStatus;
  /** As in incidents: a script, a handler, a tier, `queue`, `log`, `disk`, `alerts`. */
  readonly subject: string;
  /** One sentence with the figures. */
  readonly message: string;
  /** What cures it; null where nothing is wrong. */
  readonly hint: string | null;
}

/** The least bad first: that something is not known matters less than that something is wrong. */
export const byBadness = ['ok', 'unknown', 'warning', 'critical'] as const satisfies readonly CheckStatus[];

/** The worst of them; `ok` where there are none. */
export function worstStatus(findings: readonly Pick<Finding, 'status'>[]): CheckStatus {
  const worst = Math.max(0, ...findings.map(({ status }) => byBadness.indexOf(status)));
  return byBadness[worst] as CheckStatus;
}
