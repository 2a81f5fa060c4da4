import { countOf } from '../../../../report/text/format.ts';
import type { components } from '../../../client/paths.ts';
import { Notice } from '../../components/notice.tsx';
import { State } from '../../components/state.tsx';
import { Name } from '../../components/text.tsx';
import { Time } from '../../components/time.tsx';
import { type PauseInForce, pausedWords } from '../../manage/pause.tsx';
import { hrefOf } from '../../router.ts';

type QueueStatus = components['schemas']['QueueStatus'];

interface StandingProps {
  readonly queue: QueueStatus;
  readonly pauses: readonly PauseInForce[];
}

/** Who works, what keeps jobs from running, and what to do about that. */
export function QueueStanding({ queue, pauses }: StandingProps) {
  const ofQueue = pauses.filter(({ name }) => name === '*' || name === 'queue' || name.startsWith('queue/'));
  return (
    <>
      {queue.withoutHandler.length > 0 && (
        <Notice tone="warning" title="Jobs wait for handlers that are not there">
          <ul>
            {queue.withoutHandler.map((each) => (
              <li key={each.name}>
                <WithoutHandler {...each} />
              </li>
            ))}
          </ul>
        </Notice>
      )}
      {ofQueue.map((pause) => (
        <Notice key={pause.name} tone="paused" title={describeHeld(pause)}>
          {pause.until !== null && (
            <p>
              until <Time at={pause.until} />
            </p>
          )}
        </Notice>
      ))}
      <p class="workers-line">
        <Workers {...queue} />
      </p>
    </>
  );
}

function WithoutHandler({ name, jobs, nearest }: QueueStatus['withoutHandler'][number]) {
  return (
    <>
      <a href={hrefOf('/queue', null, { name: `${name}*` })}>
        <Name text={name} />
      </a>
      : {countOf(jobs, 'job waits', 'jobs wait')}.{' '}
      {nearest === null ? (
        <>
          Add its handler,{' '}
          <code>
            jobs/queue/
            <Name text={name} />
            .ts
          </code>{' '}
          for example, or delete the jobs.
        </>
      ) : (
        <>
          Did you mean <Name text={nearest} />? Rename the handler, or add the jobs anew and delete these.
        </>
      )}
    </>
  );
}

function describeHeld({ name, kind }: PauseInForce): string {
  const what = pausedWords(name);
  return kind === 'pause' ? `Paused: ${what}` : `Jobs fail as soon as they are due: ${what}`;
}

function Workers({ workers, idleWorkers, waiting, ready }: QueueStatus) {
  const others =
    waiting.length > 0 && `${countOf(waiting.length, 'other process waits', 'other processes wait')} for jobs`;
  if (workers === null) return <State state="unknown" word="The log cannot be read." />;
  if (workers > 0) {
    const idle = idleWorkers ? `, ${idleWorkers === workers ? 'all idle' : `${idleWorkers} of them idle`}` : '';
    return (
      <>
        <State state="running" word={countOf(workers, 'worker')} /> <a href={hrefOf('/workers')}>at work{idle}</a>
        {others && `; ${others}`}
      </>
    );
  }
  return (
    <>
      <State state="waiting" tone="waiting" word="no worker now" /> {others && `${others}. `}
      {!others && ready !== null && ready > 0 && 'The next pass of any tier, or runner work, takes what is due.'}
    </>
  );
}
