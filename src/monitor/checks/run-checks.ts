import type { CheckSettings } from '../../settings/settings.ts';
import type { Store } from '../../store/store.ts';
import { type CheckFacts, type CheckPlace, type Figure, type HealthCheck, openFacts } from './check.ts';
import type { CheckCode, Finding } from './finding.ts';
import { alertsUndelivered, diskFull, logUnusable } from './place.ts';
import { jobsFailing, jobsLate, jobsWaiting, noWorker, serviceTime, utilization } from './queue.ts';
import { crashes, runUnusual, scriptFailing, scriptSuspect, workerStuck } from './runs.ts';
import { scriptOverdue, tierOverdue, tierSkipped } from './tiers.ts';

/** In the order in which they are shown. */
const checks: readonly HealthCheck[] = [
  tierOverdue,
  tierSkipped,
  scriptFailing,
  scriptSuspect,
  scriptOverdue,
  runUnusual,
  jobsFailing,
  jobsWaiting,
  jobsLate,
  noWorker,
  workerStuck,
  crashes,
  utilization,
  serviceTime,
  logUnusable,
  diskFull,
  alertsUndelivered,
];

export const checkCodes: readonly CheckCode[] = checks.map(({ code }) => code);

/** What checks have come to. */
export interface CheckReport {
  /** In the order of the checks; of each one what is wrong, or that all is well. */
  readonly findings: readonly Finding[];
  readonly figures: readonly Figure[];
}

/** Looks at the log and the host; changes nothing. */
export async function runChecks(
  store: Store,
  place: CheckPlace,
  codes: readonly CheckCode[] = checkCodes,
): Promise<CheckReport> {
  const facts = await openFacts(store, place);
  const findings: Finding[] = [];
  const figures: Figure[] = [];
  for (const check of checks.filter(({ code }) => codes.includes(code))) {
    const checked = await runCheck(check, facts);
    findings.push(...checked.findings);
    figures.push(...checked.figures);
  }
  return { findings, figures };
}

async function runCheck(check: HealthCheck, facts: CheckFacts): Promise<CheckReport> {
  const { code, subject } = check;
  try {
    const threshold = await thresholdOf(check, facts);
    if (threshold === null)
      return { findings: [{ code, status: 'ok', subject, message: OFF, hint: null }], figures: [] };
    const { wrong, ok, figures = [] } = await check.run(facts, threshold);
    if (wrong.length === 0) return { findings: [{ code, status: 'ok', subject, message: ok, hint: null }], figures };
    const words = await import('./words.ts');
    return { findings: wrong.map((each) => ({ code, ...each, message: each.message(words) })), figures };
  } catch (error) {
    return { findings: [unknown(check, error)], figures: [] };
  }
}

const OFF = 'not checked: the settings give it no threshold';

function thresholdOf(
  { setting, defaultThreshold }: HealthCheck,
  facts: CheckFacts,
): number | null | Promise<number | null> {
  const set: CheckSettings[typeof setting] = facts.settings.checks[setting];
  return set === undefined ? defaultThreshold(facts) : set;
}

function unknown({ code, subject }: HealthCheck, error: unknown): Finding {
  const message = `could not be checked: ${error instanceof Error ? error.message : String(error)}`;
  return {
    code,
    status: 'unknown',
    subject,
    message,
    hint: 'Run `npx folder-runner doctor`, which looks at the host.',
  };
}

/** What is said where the log cannot be read: what only the log tells is not known. */
export function withoutLog(reason: string, codes: readonly CheckCode[] = checkCodes): CheckReport {
  const unread = checks.filter(({ code }) => codes.includes(code)).map((check) => unknown(check, new Error(reason)));
  return { findings: unread, figures: [] };
}
