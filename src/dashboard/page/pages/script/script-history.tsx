import { useEffect, useMemo, useState } from 'preact/hooks';
import { countOf } from '../../../../system/base/format.ts';
import type { TimeRange } from '../../charts/chart-options.ts';
import { RangeButtons } from '../../charts/range-buttons.tsx';
import { RunCharts } from '../../charts/run-charts.tsx';
import { serverNow } from '../../clock.ts';
import { Loading, Notice } from '../../components/notice.tsx';
import { hrefOf } from '../../router.ts';
import { useRuns } from '../runs/run-table.tsx';

const DAY_MS = 86_400_000;

/** How far back one looks, in days. */
const days = { '24h': 1, '7d': 7, '30d': 30, '90d': 90, '365d': 365 } as const;

type Since = keyof typeof days;

const ranges = [
  ['24h', 'Day'],
  ['7d', 'Week'],
  ['30d', 'Month'],
  ['90d', '3 months'],
  ['365d', 'Year'],
] as const;

/** More runs than that nobody tells apart on a screen. */
const MOST_RUNS = 3000;

/** How its runs did, over as much time as is asked for. */
export function HistorySection({ script }: { readonly script: string }) {
  const [since, setSince] = useState<Since>('30d');
  const [zoom, setZoom] = useState<TimeRange | null>(null);
  const { runs, problem, more } = useRuns({ script, since, limit: 500 });
  const count = runs?.length ?? 0;
  useEffect(() => {
    if (more !== null && count < MOST_RUNS) more();
  }, [count, more === null]);
  const range = useRange(runs, days[since] * DAY_MS);
  const choose = (chosen: Since) => {
    setSince(chosen);
    setZoom(null);
  };
  return (
    <>
      <div class="bar">
        <RangeButtons ranges={ranges} chosen={since} onChoose={choose} />
        <span class="quiet small">Drag over a part to see it alone; a double click shows all again.</span>
      </div>
      {problem !== null && <Notice tone="bad" title={problem} />}
      {runs === null && problem === null && <Loading />}
      {runs !== null && runs.length < 2 && <p class="quiet">There are too few runs in this time for a chart.</p>}
      {runs !== null && runs.length >= 2 && (
        <RunCharts
          runs={runs}
          range={range}
          zoom={zoom}
          onZoom={setZoom}
          onOpen={(id) => location.assign(hrefOf('/runs', id))}
        />
      )}
      {more !== null && count >= MOST_RUNS && <p>Only its newest {countOf(count, 'run')} of that time are shown.</p>}
    </>
  );
}

/** Where few runs are, they fill the width; it does not move with each second. */
function useRange(runs: readonly { readonly startedAt: string | null }[] | null, lengthMs: number): TimeRange {
  return useMemo(() => {
    const times = (runs ?? []).flatMap(({ startedAt }) => (startedAt === null ? [] : [Date.parse(startedAt)]));
    const untilMs = serverNow.peek();
    const first = Math.min(...times, untilMs);
    const fromMs = Math.max(untilMs - lengthMs, Math.min(first, untilMs - 60_000));
    // Ticks fall on whole milliseconds: a fraction would put midnight into the day before.
    const margin = Math.round((untilMs - fromMs) * 0.02);
    return { fromMs: fromMs - margin, untilMs: untilMs + margin };
  }, [runs, lengthMs]);
}
