import { type CheckCode, type CheckStatus, type HealthFinding, worstStatus } from '../monitor/finding.ts';
import type { CheckSetting } from '../settings/settings.ts';
import type { Store } from '../store/store.ts';
import { machineName } from '../system/process/identity.ts';
import { type CheckFacts, type CheckPlace, type Figure, type HealthCheck, openFacts } from './check.ts';
import { placeChecks } from './place.ts';
import { queueChecks } from './queue.ts';
import { scriptChecks } from './scripts.ts';
import { tierChecks } from './tiers.ts';
import { workerChecks } from './workers.ts';

/** Health checks, in the order in which they are shown: some statements each, so that passes, `check` and pages run them. */
const checks: readonly HealthCheck[] = [
  ...tierChecks,
  ...scriptChecks,
  ...queueChecks,
  ...workerChecks,
  ...placeChecks,
];

export const checkCodes: readonly CheckCode[] = checks.map(({ code }) => code);

/** Checks that each machine of a fleet makes for itself. */
export const ownCodes: readonly CheckCode[] = checks.filter(({ isOwn }) => isOwn).map(({ code }) => code);

/** The result of several checks. */
export interface CheckReport {
  /** In the order of the checks; of each one what is wrong, or that all is well. */
  readonly findings: readonly HealthFinding[];
  readonly figures: readonly Figure[];
  /** The worst of them; what somebody has acknowledged is critical no more. */
  readonly status: CheckStatus;
}

/** Looks at the log and its disk; changes nothing. */
export async function runChecks(store: Store, place: CheckPlace, codes = checkCodes): Promise<CheckReport> {
  const facts = openFacts(store, place);
  const reports: CheckAnswer[] = [];
  for (const check of checks) if (codes.includes(check.code)) reports.push(await runCheck(check, facts));
  const findings = reports.flatMap((report) => report.findings);
  return { findings, figures: reports.flatMap(({ figures }) => figures), status: await worstOf(findings, facts) };
}

type CheckAnswer = Pick<CheckReport, 'findings' | 'figures'>;

async function worstOf(findings: readonly HealthFinding[], facts: CheckFacts): Promise<CheckStatus> {
  const worst = worstStatus(findings);
  if (worst !== 'critical') return worst;
  // Another check has said that they cannot be read.
  const open = await facts.incidents().catch(() => []);
  const isAcknowledged = ({ code, subject }: HealthFinding): boolean => {
    const own = open.filter((incident) => incident.code === code && incident.subject === subject);
    return own.length > 0 && own.every(({ acknowledged_at }) => acknowledged_at !== null);
  };
  return findings.every((each) => each.status !== 'critical' || isAcknowledged(each)) ? 'warning' : 'critical';
}

async function runCheck(check: HealthCheck, facts: CheckFacts): Promise<CheckAnswer> {
  const { code } = check;
  try {
    const set = facts.settings.checks[settingOf(code)];
    const threshold = set === undefined ? await check.defaultThreshold(facts) : set;
    if (threshold === null) return { findings: [well(check, OFF)], figures: [] };
    const { wrong = [], ok, figures = [] } = await check.run(facts, threshold);
    const found = wrong.map((each): HealthFinding => ({ code, subject: check.where, ...each }));
    const findings = check.isOwn && facts.store.fleet !== null ? found.map(ofThisMachine) : found;
    return { findings: wrong.length === 0 ? [well(check, ok)] : findings, figures };
  } catch (error) {
    return { findings: [unknown(check, error instanceof Error ? error.message : String(error))], figures: [] };
  }
}

/** `tierOverdue` */
const settingOf = (code: CheckCode) =>
  code.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase()) as CheckSetting;

const OFF = 'not checked: the settings give it no threshold';

const well = ({ code, where }: HealthCheck, message: string): HealthFinding => ({
  ...{ code, status: 'ok', subject: where, message, hint: null },
});

function ofThisMachine(finding: HealthFinding): HealthFinding {
  const host = machineName();
  return { ...finding, subject: `${finding.subject}@${host}`, message: `${host}: ${finding.message}` };
}

function unknown({ code, where }: HealthCheck, reason: string): HealthFinding {
  const message = `could not be checked: ${reason}`;
  const hint = 'Run `npx folder-runner doctor`, which looks at the host.';
  return { code, status: 'unknown', subject: where, message, hint };
}

/** The report if the log cannot be read: the result of each check is unknown. */
export function withoutLog(reason: string, codes = checkCodes): CheckReport {
  const unread = checks.filter(({ code }) => codes.includes(code));
  return { findings: unread.map((check) => unknown(check, reason)), figures: [], status: 'unknown' };
}
