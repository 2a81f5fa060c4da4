import type { CheckSetting } from '../settings/settings.ts';

/**
 * How bad a finding is, the least bad first: that something is not known matters less than that something is wrong. A
 * `note` is good to know, a `warning` may fail one day, and what is `critical` does not work.
 */
export const findingStatuses = ['ok', 'note', 'unknown', 'warning', 'critical'] as const;

export type FindingStatus = (typeof findingStatuses)[number];

/** One thing that was found out: by a health check, by `doctor` about the host, or by `why` about a script. */
export interface Finding {
  /** The name of the check: `tier-overdue`, `disk`, `last run`. */
  readonly code: string;
  readonly status: FindingStatus;
  /** One sentence with the figures. */
  readonly message: string;
  /** One sentence on what to do; null where there is nothing to do. */
  readonly hint: string | null;
}

/** The status of a health check: as monitoring plugins have it, exit codes 0, 1, 2, 3. */
export type CheckStatus = Exclude<FindingStatus, 'note'>;

type Dashed<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `-${Lowercase<First>}`}${Dashed<Rest>}`
  : '';

/** `tier-overdue`, whose threshold is the setting `tierOverdue`. */
export type CheckCode = Dashed<CheckSetting>;

/** The result of a health check for one subject. */
export interface HealthFinding extends Finding {
  readonly code: CheckCode;
  readonly status: CheckStatus;
  /** As in incidents: a script, a handler, a tier, `queue`, `log`, `disk`, `alerts`. */
  readonly subject: string;
}

/** A finding whose code is that of its check. */
export type Found = Omit<Finding, 'code'>;

export const found = <Status extends FindingStatus>(status: Status, message: string, hint: string | null) => ({
  ...{ status, message, hint },
});

export const ok = (message: string) => found('ok', message, null);

export const note = (message: string, hint: string | null = null) => found('note', message, hint);

export const warning = (message: string, hint: string) => found('warning', message, hint);

export const critical = (message: string, hint: string) => found('critical', message, hint);

/** As `doctor` calls how bad a finding is: where a check could not be made, something may be wrong. */
export const doctorWords = {
  ok: 'ok',
  note: 'note',
  unknown: 'warning',
  warning: 'warning',
  critical: 'problem',
} as const satisfies Readonly<Record<FindingStatus, string>>;

/** As `why` does. */
export const whyWords = {
  ok: 'fine',
  note: 'notable',
  unknown: 'notable',
  warning: 'notable',
  critical: 'wrong',
} as const satisfies Readonly<Record<FindingStatus, string>>;

/** The worst of them; `ok` where there are none. */
export function worstStatus<Status extends FindingStatus>(findings: readonly { readonly status: Status }[]) {
  return findings.reduce<Status | 'ok'>(
    (worst, { status }) => (findingStatuses.indexOf(status) > findingStatuses.indexOf(worst) ? status : worst),
    'ok',
  );
}
