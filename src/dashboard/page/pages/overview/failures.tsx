import { formatDuration } from '../../../../report/text/format.ts';
import type { components } from '../../../client/paths.ts';
import { State } from '../../components/state.tsx';
import { Name } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { hrefOf } from '../../router.ts';

type ToldRun = components['schemas']['ToldRun'];

/** What an API's list of runs calls failures, as it wants them. */
export const FAILED = 'failed,timed-out,killed,crashed,not-started';

/** The last runs that did not succeed, also of what has recovered since. */
export function Failures({ runs }: { readonly runs: readonly ToldRun[] }) {
  if (runs.length === 0) return <p class="card quiet">No run has failed.</p>;
  return (
    <ul class="failures card">
      {runs.map(({ id, script, outcome, startedAt, durationMs, summary }) => (
        <li key={id}>
          <p class="failure-head">
            <State state={outcome} />
            <a href={hrefOf('/runs', id)}>
              <Name text={script} />
            </a>
            <span class="quiet">
              <Time at={startedAt} />
              {durationMs !== null && `, after ${formatDuration(durationMs)}`}
            </span>
          </p>
          {summary !== null && (
            <p class="small failure-text">
              <Name text={summary} />
            </p>
          )}
        </li>
      ))}
    </ul>
  );
}
