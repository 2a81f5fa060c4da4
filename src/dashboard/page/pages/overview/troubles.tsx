import { countOf } from '../../../../system/base/format.ts';
import { State } from '../../components/state.tsx';
import { Name, Words } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { hrefOf } from '../../router.ts';
import { report } from '../../source/embedded.ts';
import { groupTroubles, isScript, type Trouble, wordOfTrouble } from './judge.ts';

/** A bad night has hundreds: whoever looks wants the first ones, and how many there are. */
const SHOWN = 8;
const NAMES_SHOWN = 6;

/** What is wrong: of what, why, since when, and what to do. */
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
      <p class="trouble-head">
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
          <a href={hrefOf('/runs', run)}>Output and details of run {run}</a>
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
          {isScript(subject) ? (
            <a href={hrefOf('/scripts', subject)}>
              <Name text={subject} />
            </a>
          ) : (
            <Name text={subject} />
          )}
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
