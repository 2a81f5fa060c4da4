import { countOf } from '../../../../report/text/format.ts';
import { State } from '../../components/state.tsx';
import { Name, Words } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { hrefOf } from '../../router.ts';
import { isScript, type Trouble } from './judge.ts';

/** A bad night has hundreds: whoever looks wants the first ones, and how many there are. */
const SHOWN = 8;

/** What is wrong: of what, why, since when, and what to do. */
export function Troubles({ troubles }: { readonly troubles: readonly Trouble[] }) {
  const further = troubles.length - SHOWN;
  return (
    <>
      <ul class="troubles">
        {troubles.slice(0, SHOWN).map((trouble) => (
          <li key={trouble.key} class={`card trouble ${toneOf(trouble)}`}>
            <TroubleText {...trouble} />
          </li>
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

function toneOf({ isAcknowledged, isCritical, isFailure }: Trouble): string {
  if (isAcknowledged) return 'paused';
  return isCritical || isFailure ? 'bad' : 'warning';
}

function TroubleText(trouble: Trouble) {
  const { subject, message, hint, run, isAcknowledged } = trouble;
  const state = isAcknowledged ? 'acknowledged' : toneOf(trouble) === 'bad' ? 'failed' : 'warning';
  return (
    <>
      <p class="trouble-head">
        <State state={state} word={trouble.isCritical && !isAcknowledged ? 'critical' : wordOf(trouble)} />
        <strong>
          {isScript(subject) ? (
            <a href={hrefOf('/scripts', subject)}>
              <Name text={subject} />
            </a>
          ) : (
            <Name text={subject} />
          )}
        </strong>
        <span class="quiet">
          <Duration {...trouble} />
        </span>
      </p>
      <p class="trouble-message">
        <Words text={message} />
      </p>
      {(hint !== null || run !== null) && (
        <p class="small">
          {hint !== null && (
            <>
              <span class="quiet">What now: </span>
              <Words text={hint} />{' '}
            </>
          )}
          {run !== null && <a href={hrefOf('/runs', run)}>Output and details of run {run}</a>}
        </p>
      )}
    </>
  );
}

function wordOf({ isAcknowledged, isFailure }: Trouble): string {
  if (isAcknowledged) return 'acknowledged';
  return isFailure ? 'failing' : 'warning';
}

function Duration({ since, last, occurrences }: Trouble) {
  if (since === null) return <>now</>;
  return (
    <>
      since <Time at={since} />
      {occurrences > 1 && (
        <>
          {' · '}
          {occurrences} times, last <Time at={last} as="relative" />
        </>
      )}
    </>
  );
}
