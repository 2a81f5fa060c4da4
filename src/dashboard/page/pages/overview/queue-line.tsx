import { countOf, formatCount } from '../../../../report/text/format.ts';
import { State } from '../../components/state.tsx';
import { Name } from '../../components/text.tsx';
import { hrefOf } from '../../router.ts';
import type { StatusAnswer } from './judge.ts';

const shown = [
  ['failed', 'failed'],
  ['running', 'running'],
  ['ready', 'ready'],
  ['delayed', 'delayed'],
  ['paused', 'paused'],
] as const;

/** How the queue stands, in one line. */
export function QueueLine({ queue }: Pick<StatusAnswer, 'queue'>) {
  const states = shown.filter(([state]) => (queue[state] ?? 0) > 0);
  const { workers, idleWorkers, withoutHandler } = queue;
  if (queue.ready === null) return <p class="card quiet">Not known without the log.</p>;
  const idle = idleWorkers ? ` (${idleWorkers} idle)` : '';
  return (
    <div class="card">
      <p class="states">
        {states.length === 0 && <span class="quiet">No job is waiting.</span>}
        {states.map(([state, word]) => (
          <a key={state} href={hrefOf('/queue', null, { state })}>
            <State state={state} word={`${formatCount(queue[state] ?? 0)} ${word}`} />
          </a>
        ))}
        <span class="quiet">{workers ? countOf(workers, 'worker') + idle : 'no worker now'}</span>
      </p>
      {withoutHandler.slice(0, 3).map(({ name, jobs, nearest }) => (
        <p key={name} class="small">
          <State state="warning" word={`${countOf(jobs, 'job')} without a handler`} /> <Name text={name} />
          {nearest !== null && (
            <>
              ; did you mean <Name text={nearest} />?
            </>
          )}
        </p>
      ))}
    </div>
  );
}
