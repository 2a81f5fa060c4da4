import { formatBytes, formatDuration } from '../../../../system/base/format.ts';
import { serverNow } from '../../clock.ts';
import { State } from '../../components/state.tsx';
import { Name } from '../../components/text.tsx';
import { Elapsed } from '../../components/time.tsx';
import { hrefOf } from '../../router.ts';
import type { StatusAnswer } from './judge.ts';

type StatusRun = StatusAnswer['running'][number];

/** What runs now, and how far it is against what it usually takes. */
export function Running({ runs }: { readonly runs: readonly StatusRun[] }) {
  return (
    <ul class="running">
      {runs.map((run) => (
        <li key={run.id} class="card">
          <RunningRun {...run} />
        </li>
      ))}
    </ul>
  );
}

function RunningRun(run: StatusRun) {
  const { id, script, startedAt, usualDurationMs, maxRssBytes, attempt } = run;
  const more = [
    usualDurationMs === null ? '' : `usually ${formatDuration(usualDurationMs)}`,
    attempt > 1 ? `try ${attempt}` : '',
    maxRssBytes === null ? '' : formatBytes(maxRssBytes),
  ].filter(Boolean);
  return (
    <>
      <p class="running-head">
        <Liveness {...run} />
        <a href={hrefOf('/runs', id)}>
          <Name text={script} />
        </a>
        <span>
          for <Elapsed since={startedAt} />
        </span>
      </p>
      {usualDurationMs !== null && usualDurationMs > 0 && startedAt !== null && (
        <progress
          aria-label={`${script}: part of its usual duration`}
          max={usualDurationMs}
          value={Math.max(0, Math.min(usualDurationMs, serverNow.value - Date.parse(startedAt)))}
        />
      )}
      {more.length > 0 && <p class="quiet small">{more.join(' · ')}</p>}
    </>
  );
}

/** Beyond that it is worth a look. */
const SLOW = 2;

function Liveness({ liveness, isOrphan, startedAt, usualDurationMs }: StatusRun) {
  if (liveness === 'dead') return <State state="crashed" word="its process is gone" />;
  if (isOrphan) return <State state="running" tone="warning" word="runs without its runner" />;
  const elapsed = startedAt === null ? 0 : serverNow.value - Date.parse(startedAt);
  // A second or two more than nothing is not slow.
  if (usualDurationMs !== null && elapsed > Math.max(5000, usualDurationMs * SLOW)) {
    return <State state="running" tone="warning" word="longer than usual" />;
  }
  return <State state="running" />;
}
