import { uptime } from 'node:os';
import type { CheckReport } from '../../checks/list.ts';
import type { LogView, Site } from '../../discovery/site.ts';
import type { CheckCode, CheckStatus, HealthFinding } from '../../monitor/finding.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import { countOf } from '../../system/base/format.ts';
import { field, record, shown, type Values } from '../../system/base/record.ts';
import { findingText, gradeField, gradeOf, grades, type Incident } from './incidents.ts';
import type { TierState, WaitingScriptJob } from './tier.ts';

/** One thing that is wrong: an open incident, or what a check finds and no pass has noted yet. */
export const troubleRecord = record('Trouble', {
  subject: shown.text.like('hourly/clean-tmp').about('As in incidents'),
  code: shown.text.like('script-failing'),
  grade: gradeField,
  message: findingText,
  hint: shown.text.like('`npx folder-runner why hourly/clean-tmp` tells more').orNull,
  since: shown.instant.orNull.about('Null: no pass has noted it yet'),
  last: shown.instant.orNull,
  occurrences: shown.integer,
  run: shown.integer.orNull,
  incident: shown.integer.orNull.about('Its number; null: no pass has noted it yet'),
  cause: field.integer.orNull.about('Troubles with the same number have the same cause; null: it stands alone'),
});

type Trouble = Values<typeof troubleRecord>;

/** The answer to "is everything well?". */
export const verdictRecord = record('Verdict', {
  level: shown.words(['good', 'waiting', 'paused', 'warning', 'bad'], 'VerdictLevel'),
  title: shown.text.like('Everything is well').about('The answer in a few words'),
  since: shown.instant.orNull.about('When what is wrong began; null: nothing is, or nobody knows'),
  isUntouched: shown.flag.about('Nothing was ever recorded here'),
  lastPass: shown.instant.orNull.about('Of all tiers'),
  nextTier: shown.text.like('hourly').orNull.about('The tier that is called next; null: none is expected'),
});

export type Verdict = Values<typeof verdictRecord>;

export interface Judged {
  readonly verdict: Verdict;
  /** The worst first, then the latest; acknowledged ones come last. */
  readonly troubles: readonly Trouble[];
}

/**
 * Runs the health checks.
 *
 * @param codes the checks to run. Default: all
 * @throws {UsageError} (rejects) if the settings are wrong
 */
export async function readHealth(site: Site, codes?: readonly CheckCode[]): Promise<CheckReport> {
  return await checkSite(site, await site.settings(), codes);
}

async function checkSite(site: Site, settings: Settings, codes?: readonly CheckCode[]): Promise<CheckReport> {
  const { root, store, problem, nowMs } = site;
  // Apart from what readers load, of which passes share a part.
  const { runChecks, withoutLog } = await import('../../checks/list.ts');
  if (store === null) return withoutLog(problem ?? 'nothing has run here yet, so there is no log', codes);
  const facts = { crontab: site.crontab, readDue: site.due };
  const place = { root, states: site.states(), settings, nowMs, upMs: uptime() * 1000, ...facts };
  return await runChecks(store, place, codes);
}

/** How things stand, as far as it is judged. */
export interface Standing {
  readonly isLogUnread: boolean;
  /** Open ones. */
  readonly incidents: readonly Incident[];
  readonly running: readonly unknown[];
  readonly waiting: readonly WaitingScriptJob[];
  readonly pauses: readonly Pause[];
  readonly queue: { readonly counts: Readonly<Record<'ready' | 'delayed' | 'failed', number>> };
  readonly tiers: readonly TierState[];
}

/** Answers whether everything is well: for the terminal, the page, the static report and the mail alike. */
export async function judgeSite(site: Site, standing: Standing): Promise<Judged> {
  const { incidents, tiers } = standing;
  const { settings, settingsProblem } = await site.jobs();
  const { findings, status } = await checkSite(site, settings);
  const log = await site.view();
  const troubles = numberCauses(findTroubles(incidents, findings));
  const isUntouched = await isNothingRecorded(log, standing);
  const lastPasses = tiers.flatMap(({ lastPass }) => lastPass?.startedAtMs ?? []);
  return {
    troubles,
    verdict: {
      ...judge(standing, { troubles, status, isUntouched, hasWrongSettings: settingsProblem !== null }),
      isUntouched,
      lastPassMs: lastPasses.length === 0 ? null : Math.max(...lastPasses),
      nextTier: findNextTier(tiers),
    },
  };
}

function findTroubles(incidents: readonly Incident[], findings: readonly HealthFinding[]): Trouble[] {
  const noted = incidents.map((incident): Trouble => {
    const { id, subject, code, grade, message, hint, occurrences, last_run_id: run } = incident;
    return {
      ...{ subject, code, grade, hint, occurrences, run, incident: id, cause: null },
      ...{ message: message ?? code, sinceMs: incident.opened_at, lastMs: incident.last_at },
    };
  });
  const known = new Set(incidents.map(({ code, subject }) => `${code} ${subject}`));
  const found = findings.flatMap(({ code, subject, status, message, hint }): Trouble[] => {
    if (status === 'ok' || status === 'unknown' || known.has(`${code} ${subject}`)) return [];
    const unnoted = { sinceMs: null, lastMs: null, occurrences: 1, run: null, incident: null, cause: null };
    return [{ subject, code, grade: gradeOf(code, status), message, hint, ...unnoted }];
  });
  const rank = ({ grade }: Trouble): number => grades.indexOf(grade);
  return [...noted, ...found].toSorted(
    (one, other) => rank(one) - rank(other) || (other.sinceMs ?? 0) - (one.sinceMs ?? 0),
  );
}

/** Number of troubles from which on those with one cause are shown as one. */
const SAME = 3;

/** A full disk fails all scripts alike. */
function numberCauses(troubles: readonly Trouble[]): Trouble[] {
  const causeOf = ({ grade, message }: Trouble): string => `${grade === 'acknowledged'} ${message}`;
  const groups = [...Map.groupBy(troubles, causeOf).values()].filter(({ length }) => length >= SAME);
  return troubles.map((trouble) => {
    const index = groups.findIndex((group) => group.includes(trouble));
    return index === -1 ? trouble : { ...trouble, cause: index + 1 };
  });
}

interface Evidence extends Pick<Judged, 'troubles'> {
  /** The worst result of the checks. */
  readonly status: CheckStatus;
  readonly isUntouched: boolean;
  readonly hasWrongSettings: boolean;
}

/** The level is the one that `runner check` ends with, so that no two of them say other things. */
function judge(
  { isLogUnread, pauses, waiting }: Standing,
  { troubles, status, isUntouched, hasWrongSettings }: Evidence,
): Pick<Verdict, 'level' | 'title' | 'sinceMs'> {
  if (hasWrongSettings) return { level: 'bad', title: 'No script starts until the settings are fixed', sinceMs: null };
  if (isLogUnread) return { level: 'bad', title: 'The activity log cannot be read', sinceMs: null };
  const open = troubles.filter(({ grade }) => grade !== 'acknowledged');
  const since = open.flatMap(({ sinceMs }) => sinceMs ?? []);
  const sinceMs = since.length === 0 ? null : Math.min(...since);
  const isCritical = status === 'critical' || open.some(({ grade }) => grade === 'critical');
  const wrong = isCritical ? 'bad' : 'warning';
  const failing = open.filter(({ grade }) => grade !== 'warning');
  if (failing.length > 0) return { level: wrong, title: describeFailing(failing), sinceMs };
  const or = (level: 'waiting' | 'paused' | 'good') => (troubles.length > 0 ? wrong : level);
  if (pauses.some(({ name }) => name === '*'))
    return { level: or('paused'), title: 'Everything is paused', sinceMs: null };
  if (isUntouched) return { level: or('waiting'), title: 'Nothing has run yet', sinceMs };
  if (open.length > 0) {
    return { level: wrong, title: `${countOf(open.length, 'thing')} to look at, nothing has failed`, sinceMs };
  }
  if (status === 'unknown') return { level: 'warning', title: 'Not everything could be checked', sinceMs };
  const retried = waiting.filter(({ state }) => state === 'retrying').length;
  if (retried > 0) {
    return { level: or('waiting'), title: `${countOf(retried, 'script')} failed and will be tried again`, sinceMs };
  }
  return { level: or('good'), title: troubles.length > 0 ? 'Nothing new is wrong' : 'Everything is well', sinceMs };
}

function describeFailing(failing: readonly Trouble[]): string {
  const scripts = new Set(failing.filter(isOfScript).map(({ subject }) => subject)).size;
  const others = failing.filter((trouble) => !isOfScript(trouble)).length;
  if (scripts === 0) return others === 1 ? 'Something is wrong' : `${others} things are wrong`;
  const words = scripts === 1 ? '1 script is failing' : `${scripts} scripts are failing`;
  return others === 0 ? words : `${words}, ${countOf(others, 'other thing')} wrong`;
}

/** Names of scripts and handlers have a slash, those of tiers and parts of the runner none. */
function isOfScript({ subject }: Trouble): boolean {
  return subject.includes('/');
}

async function isNothingRecorded({ db }: LogView, standing: Standing): Promise<boolean> {
  const { isLogUnread, incidents, running, tiers, queue } = standing;
  if (isLogUnread || incidents.length + running.length > 0 || tiers.some(({ lastPass }) => lastPass !== null))
    return false;
  const { ready, delayed, failed } = queue.counts;
  if (ready + delayed + failed > 0) return false;
  return (await db.selectFrom('runs').select('id').limit(1).execute()).length === 0;
}

function findNextTier(tiers: readonly TierState[]): string | null {
  const due = tiers.filter(({ pause, holder, isOverdue }) => !pause && !holder && !isOverdue);
  const expected = due.filter(({ nextCallMs }) => nextCallMs !== null);
  const [next] = expected.toSorted((one, other) => Number(one.nextCallMs) - Number(other.nextCallMs));
  return next?.tier ?? null;
}
