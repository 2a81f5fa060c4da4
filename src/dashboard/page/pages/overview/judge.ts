import { countOf } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import type { Tone } from '../../components/state.tsx';

type Schemas = components['schemas'];
export type OverviewAnswer = Schemas['Overview'];
export type StatusAnswer = Schemas['Status'];
export type Health = Schemas['Health'];

/** One thing that is wrong: an open incident, or what a check finds that no pass has noted yet. */
export interface Trouble {
  readonly key: string;
  /** A script or handler, a tier, `queue`, `log` … */
  readonly subject: string;
  readonly isCritical: boolean;
  /** Of a script or a job: an error, not only a sign of one. */
  readonly isFailure: boolean;
  readonly message: string;
  readonly hint: string | null;
  readonly since: string | null;
  readonly last: string | null;
  readonly occurrences: number;
  readonly run: number | null;
  readonly isAcknowledged: boolean;
}

const failures: readonly string[] = ['script-failing', 'jobs-failing', 'log-unusable'];

/** One word and one colour for what is wrong, wherever it is shown. */
export function wordOfTrouble({ isCritical, isFailure }: Pick<Trouble, 'isCritical' | 'isFailure'>) {
  return isCritical ? 'critical' : isFailure ? 'failing' : 'warning';
}

/** How bad an incident is. */
export function gradeIncident({ code, severity }: Pick<Schemas['Incident'], 'code' | 'severity'>) {
  return { isCritical: severity === 'critical', isFailure: failures.includes(code) };
}

/** What is wrong, the worst first, then what began last; what somebody knows of already comes at the end. */
export function findTroubles(overview: OverviewAnswer, status: StatusAnswer, health: Health | null): Trouble[] {
  // What a script threw tells more than how it ended.
  const errors = new Map(overview.scripts.map(({ lastRun, lastError }) => [lastRun?.id, lastError]));
  const incidents = status.incidents.map((incident): Trouble => {
    const { id, subject, code, severity, occurrences, error, hint } = incident;
    return {
      ...{ key: `incident ${id}`, subject, occurrences, hint, run: incident.lastRun },
      message: errors.get(incident.lastRun ?? undefined) ?? error ?? code,
      ...{ since: incident.openedAt, last: incident.lastAt, isAcknowledged: incident.acknowledgedAt !== null },
      ...gradeIncident({ code, severity }),
    };
  });
  const known = new Set(status.incidents.map(({ subject, code }) => `${code} ${subject}`));
  const found = (health?.checks ?? [])
    .filter(({ status: of, subject, code }) => of !== 'ok' && of !== 'unknown' && !known.has(`${code} ${subject}`))
    .map(
      ({ code, subject, message, hint, status: of }): Trouble => ({
        ...{ key: `check ${code} ${subject}`, subject, message, hint, isAcknowledged: false },
        ...{ isCritical: of === 'critical', isFailure: failures.includes(code) },
        ...{ since: null, last: null, occurrences: 1, run: null },
      }),
    );
  return [...incidents, ...found].toSorted(
    (one, other) => weigh(other) - weigh(one) || (other.since ?? '').localeCompare(one.since ?? ''),
  );
}

/** More for what is worse; what somebody knows of already comes last. */
export function weigh({
  isAcknowledged,
  isCritical,
  isFailure,
}: Pick<Trouble, 'isAcknowledged' | 'isCritical' | 'isFailure'>): number {
  return (isAcknowledged ? 0 : 4) + (isCritical ? 2 : 0) + (isFailure ? 1 : 0);
}

/** So many of one cause are told as one. */
const SAME = 3;

/**
 * What has the same cause stands together, in the order of the first of each: a full disk fails all scripts alike.
 *
 * @param isCauseKnown false in a report that leaves out what scripts have said: each stands alone
 */
export function groupTroubles(troubles: readonly Trouble[], isCauseKnown: boolean): (readonly Trouble[])[] {
  if (!isCauseKnown) return troubles.map((each) => [each]);
  const causeOf = ({ message, isAcknowledged }: Trouble): string => `${isAcknowledged} ${message}`;
  const groups = Map.groupBy(troubles, causeOf);
  return [...groups.values()].flatMap((group) => (group.length < SAME ? group.map((each) => [each]) : [group]));
}

export interface Verdict {
  readonly tone: Tone;
  /** The answer in a few words. */
  readonly title: string;
  /** When what is wrong began; null: nothing is, or nobody knows. */
  readonly since: string | null;
}

/** Is everything well? */
export function judgeSite(overview: OverviewAnswer, status: StatusAnswer, troubles: readonly Trouble[]): Verdict {
  if (status.isLogUnread) return { tone: 'bad', title: 'The activity log cannot be read', since: null };
  const open = troubles.filter(({ isAcknowledged }) => !isAcknowledged);
  const failing = open.filter(({ isFailure, isCritical }) => isFailure || isCritical);
  const since = open.flatMap((trouble) => trouble.since ?? []).toSorted()[0] ?? null;
  if (failing.length > 0) return { tone: 'bad', title: describeFailing(failing), since };
  if (status.pauses.some(({ name }) => name === '*')) {
    return { tone: 'paused', title: 'Everything is paused', since: null };
  }
  if (open.length > 0) {
    return { tone: 'warning', title: `${countOf(open.length, 'thing')} to look at, nothing has failed`, since };
  }
  const retried = overview.scripts.filter(({ waiting }) => waiting?.state === 'retrying').length;
  if (retried > 0) {
    return { tone: 'warning', title: `${countOf(retried, 'script')} failed and will be tried again`, since: null };
  }
  if (troubles.length > 0) return { tone: 'warning', title: 'Nothing new is wrong', since: null };
  return { tone: 'good', title: 'Everything is well', since: null };
}

function describeFailing(failing: readonly Trouble[]): string {
  const scripts = new Set(failing.filter(({ subject }) => isScript(subject)).map(({ subject }) => subject)).size;
  const others = failing.filter(({ subject }) => !isScript(subject)).length;
  if (scripts === 0) return others === 1 ? 'Something is wrong' : `${others} things are wrong`;
  const words = scripts === 1 ? '1 script is failing' : `${scripts} scripts are failing`;
  return others === 0 ? words : `${words}, ${countOf(others, 'other thing')} wrong`;
}

/** Names of scripts and handlers have a slash, those of tiers and parts of the runner none. */
export function isScript(subject: string): boolean {
  return subject.includes('/');
}

/** Nothing was ever recorded here. */
export function isUntouched({ scripts, tiers, running }: OverviewAnswer, status: StatusAnswer): boolean {
  if (status.isLogUnread || running.length > 0 || status.incidents.length > 0) return false;
  const { ready, delayed, failed } = status.queue;
  if ((ready ?? 0) + (delayed ?? 0) + (failed ?? 0) > 0) return false;
  return scripts.every(({ lastRun }) => lastRun === null) && tiers.every(({ lastPass }) => lastPass === null);
}
