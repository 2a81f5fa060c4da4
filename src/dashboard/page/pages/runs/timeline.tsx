import { formatDuration } from '../../../../report/text/format.ts';
import { State } from '../../components/state.tsx';
import { Elapsed, Time } from '../../components/time.tsx';
import { useAnswer } from '../../data.ts';
import { hrefOf } from '../../router.ts';
import type { OneRun } from './run-table.tsx';

/** When it was due, started and ended, and the other tries. */
export function Timeline({ run }: { readonly run: OneRun }) {
  const late = between(run.scheduledFor, run.startedAt);
  return (
    <ol class="timeline">
      {run.scheduledFor !== null && (
        <li>
          <span>Was due</span> <Time at={run.scheduledFor} as="whole" />
        </li>
      )}
      <Tries run={run} />
      <li>
        <span>Started</span> <Time at={run.startedAt} as="whole" />
        {late !== null && late > 0 && <span class="quiet"> {formatDuration(late)} after it was due</span>}
      </li>
      {run.finishedAt === null ? (
        <li>
          <span>Runs</span> for <Elapsed since={run.startedAt} />
        </li>
      ) : (
        <li>
          <span>Ended</span> <Time at={run.finishedAt} as="whole" />
          <span class="quiet"> after {formatDuration(run.durationMs)}</span> <State state={run.outcome} />
        </li>
      )}
      <NextTry run={run} />
    </ol>
  );
}

/** The tries before this one. */
function Tries({ run }: { readonly run: OneRun }) {
  const before = useAnswer('/api/runs', {
    params: { query: { script: run.script, until: run.startedAt ?? '', limit: 20 } },
  });
  if (run.attempt === 1 || before.data === null) return null;
  const others = before.data.items.filter(({ job, attempt }) => job === run.job && attempt < run.attempt);
  const tries = others.slice(0, run.attempt - 1).toReversed();
  return (
    <>
      {tries.map(({ id, attempt, startedAt, outcome }) => (
        <li key={id}>
          <span>Try {attempt}</span> <Time at={startedAt} as="whole" /> <State state={outcome} />{' '}
          <a href={hrefOf('/runs', id)}>Run {id}</a>
        </li>
      ))}
    </>
  );
}

/** The try after this one, if it has failed and is tried again. */
function NextTry({ run }: { readonly run: OneRun }) {
  const asked = useAnswer('/api/runs/{id}', { params: { path: { id: run.next ?? run.id } } });
  const next = asked.data;
  if (next === null || next.id === run.id || next.attempt !== run.attempt + 1 || next.job !== run.job) return null;
  return (
    <li>
      <span>Try {next.attempt}</span> <Time at={next.startedAt} as="whole" /> <State state={next.outcome} />{' '}
      <a href={hrefOf('/runs', next.id)}>Run {next.id}</a>
    </li>
  );
}

/** Null: one of them is not known. */
function between(from: string | null, until: string | null): number | null {
  const apart = Date.parse(until ?? '') - Date.parse(from ?? '');
  return Number.isNaN(apart) ? null : apart;
}
