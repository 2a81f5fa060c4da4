import type { CheckStatus, Finding } from './finding.ts';

/** What monitoring plugins end with, the least bad first. */
const byBadness = ['ok', 'unknown', 'warning', 'critical'] as const satisfies readonly CheckStatus[];

/** The worst of them; `unknown` only where nothing is known to be wrong. Nothing checked is `ok`. */
export function worstStatus(findings: readonly Pick<Finding, 'status'>[]): CheckStatus {
  const worst = Math.max(0, ...findings.map(({ status }) => byBadness.indexOf(status)));
  return byBadness[worst] as CheckStatus;
}
