import { countOf } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { State, toneOfState } from '../../components/state.tsx';
import { Name, RunLink, ScriptLink, Words } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { IncidentButtons } from '../../manage/incident.tsx';
import { isWall, may } from '../../manage/session.ts';
import { hrefOf } from '../../router.ts';

/** A bad night has hundreds: whoever looks wants the first ones, and how many there are. */
const SHOWN = 8;
const NAMES_SHOWN = 6;

type Trouble = components['schemas']['Trouble'];

/** Troubles: of what, why, since when, and what to do. */
export function Troubles({ troubles }: { readonly troubles: readonly Trouble[] }) {
  // Those that stand alone have keys of their own.
  const groups = [...Map.groupBy(troubles, (trouble) => trouble.cause ?? keyOf(trouble)).values()];
  const further = groups.slice(SHOWN).flat().length;
  return (
    <>
      <ul class="troubles">
        {groups.slice(0, SHOWN).map((group) => (
          <TroubleCard key={keyOf(group[0] as Trouble)} group={group} />
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

function keyOf({ code, subject, since, run }: Trouble): string {
  return `${code} ${subject} ${since} ${run}`;
}

/** One, or several with the same cause. */
function TroubleCard({ group }: { readonly group: readonly Trouble[] }) {
  const { grade, subject, message, hint, run, incident: id } = group[0] as Trouble;
  const isAcknowledged = grade === 'acknowledged';
  return (
    <li class={`card trouble ${toneOfState(grade)}`}>
      <p class="states">
        <State state={grade} />
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
      <p class="states">
        {run !== null && !isWall.value && (
          <span class="small">
            <RunLink id={run}>Output and details of run {run}</RunLink>
          </span>
        )}
        {group.length === 1 && id !== null && may('run') && (
          <IncidentButtons incident={{ id, subject, isAcknowledged }} />
        )}
      </p>
    </li>
  );
}

function Subjects({ group }: { readonly group: readonly Trouble[] }) {
  const further = group.length - NAMES_SHOWN;
  return (
    <>
      {group.length > 1 && <strong>{group.length} with the same error:</strong>}
      {group.slice(0, NAMES_SHOWN).map((trouble) => (
        <strong key={keyOf(trouble)}>
          <Subject subject={trouble.subject} />
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

/** The subject of a trouble: a script, with a link to it, or a part of the runner, which has no slash. */
export function Subject({ subject }: { readonly subject: string }) {
  return subject.includes('/') ? <ScriptLink name={subject} /> : <Name text={subject} />;
}
