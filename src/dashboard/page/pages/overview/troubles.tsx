import { countOf } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { State, type Tone } from '../../components/state.tsx';
import { Name, RunLink, ScriptLink, Words } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { hrefOf } from '../../router.ts';
import { report } from '../../source/embedded.ts';

/** A bad night has hundreds: whoever looks wants the first ones, and how many there are. */
const SHOWN = 8;
const NAMES_SHOWN = 6;

/** Troubles: of what, why, since when, and what to do. */
export function Troubles({ troubles }: { readonly troubles: readonly Trouble[] }) {
  const groups = groupTroubles(troubles, report.value?.isWithOutput !== false);
  const further = groups.slice(SHOWN).flat().length;
  return (
    <>
      <ul class="troubles">
        {groups.slice(0, SHOWN).map((group) => (
          <TroubleCard key={group[0]?.key} group={group} />
        ))}
      </ul>
      {further > 0 && (
        <p class="more">
          <a href={hrefOf('/incidents')}>{countOf(further, 'further incident')}</a>
        </p>
      )}
    </>
  );
}

/** One, or several with the same cause. */
function TroubleCard({ group }: { readonly group: readonly Trouble[] }) {
  const first = group[0] as Trouble;
  const { message, hint, run, isAcknowledged, isCritical, isFailure } = first;
  const tone = isAcknowledged ? 'paused' : isCritical || isFailure ? 'bad' : 'warning';
  const word = isAcknowledged ? 'acknowledged' : wordOfTrouble({ isCritical, isFailure });
  return (
    <li class={`card trouble ${tone}`}>
      <p class="states">
        <State state={word} tone={tone} word={word} />
        <Subjects group={group} />
        <span class="quiet">
          <Lasting group={group} />
        </span>
      </p>
      <p class="trouble-message">
        <Words text={message} />
      </p>
      {hint !== null && (
        <p class="small">
          <span class="quiet">What now: </span>
          <Words text={hint} />
        </p>
      )}
      {run !== null && (
        <p class="small">
          <RunLink id={run}>Output and details of run {run}</RunLink>
        </p>
      )}
    </li>
  );
}

function Subjects({ group }: { readonly group: readonly Trouble[] }) {
  const further = group.length - NAMES_SHOWN;
  return (
    <>
      {group.length > 1 && <strong>{group.length} with the same error:</strong>}
      {group.slice(0, NAMES_SHOWN).map(({ key, subject }) => (
        <strong key={key}>
          <Subject subject={subject} />
        </strong>
      ))}
      {further > 0 && <a href={hrefOf('/scripts', null, { state: 'failing' })}>and {further} more</a>}
    </>
  );
}

function Lasting({ group }: { readonly group: readonly Trouble[] }) {
  const since = group.flatMap((trouble) => trouble.since ?? []).toSorted()[0] ?? null;
  const last = group.flatMap((trouble) => trouble.last ?? []).toSorted();
  const occurrences = group.reduce((sum, trouble) => sum + trouble.occurrences, 0);
  if (since === null) return <>now</>;
  return (
    <>
      since <Time at={since} />
      {occurrences > group.length && (
        <>
          {' · '}
          {occurrences} times, last <Time at={last.at(-1)} as="relative" />
        </>
      )}
    </>
  );
}

type Schemas = components['schemas'];
export type OverviewAnswer = Schemas['Overview'];
export type StatusAnswer = Schemas['Status'];
export type Health = Schemas['Health'];

/** One thing that is wrong: an open incident, or what a check finds that no pass has noted yet. */
interface Trouble {
  readonly key: string;
  /** A script or handler, a tier, `queue`, `log` … */
  readonly subject: string;
  readonly isCritical: boolean;
  /** A script or job has failed; otherwise it is only a sign of trouble. */
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

/** Finds all troubles: the worst first, then the latest; acknowledged ones come last. */
export function findTroubles(overview: OverviewAnswer, status: StatusAnswer, health: Health | null): Trouble[] {
  // A thrown error tells more than the exit code.
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

/** Number of troubles from which on those with one cause are shown as one. */
const SAME = 3;

/**
 * Groups troubles with the same cause, in the order of the first of each: a full disk fails all scripts alike.
 *
 * @param isCauseKnown false in a report that leaves out what scripts have said: each stands alone
 */
function groupTroubles(troubles: readonly Trouble[], isCauseKnown: boolean): (readonly Trouble[])[] {
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
function isScript(subject: string): boolean {
  return subject.includes('/');
}

/** The subject of a trouble: a script, with a link to it, or a part of the runner. */
export function Subject({ subject }: { readonly subject: string }) {
  return isScript(subject) ? <ScriptLink name={subject} /> : <Name text={subject} />;
}

/** Nothing was ever recorded here. */
export function isUntouched({ scripts, tiers, running }: OverviewAnswer, status: StatusAnswer): boolean {
  if (status.isLogUnread || running.length > 0 || status.incidents.length > 0) return false;
  const { ready, delayed, failed } = status.queue;
  if ((ready ?? 0) + (delayed ?? 0) + (failed ?? 0) > 0) return false;
  return scripts.every(({ lastRun }) => lastRun === null) && tiers.every(({ lastPass }) => lastPass === null);
}
