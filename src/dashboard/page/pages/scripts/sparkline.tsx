import { formatDuration } from '../../../../system/base/format.ts';
import type { components } from '../../../client/paths.ts';
import { isFailedRun } from '../../components/state.tsx';

interface SparklineProps {
  /** Oldest first. */
  readonly runs: components['schemas']['ScriptOverview']['recentRuns'];
}

const WIDTH = 100;
const HEIGHT = 24;

/** How long runs took, as bars, the highest as high as there is room; failures also stand on a thick foot. */
export function Sparkline({ runs }: SparklineProps) {
  const known = runs.flatMap(({ durationMs }) => durationMs ?? []);
  if (known.length === 0) return null;
  const highest = Math.max(...known);
  // As wide for few runs as for many: what one sees is how they differ.
  const step = WIDTH / Math.max(runs.length, 12);
  const heightOf = (value: number): number => (highest === 0 ? 2 : Math.max(2, (value / highest) * (HEIGHT - 2)));
  const [lowest, top, last] = [Math.min(...known), highest, known.at(-1) as number].map(formatDuration);
  const text = `Durations of the last ${runs.length} runs: lowest ${lowest}, highest ${top}, last ${last}`;
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={text}>
      <title>{text}</title>
      {runs.map(({ durationMs, outcome }, index) => {
        const isBad = isFailedRun(outcome);
        const height = durationMs === null ? 1 : heightOf(durationMs);
        const [x, width] = [index * step + step * 0.1, step * 0.8];
        return (
          <g key={index} class={isBad ? 'bad' : ''}>
            <rect x={x} y={HEIGHT - height} width={width} height={height} />
            {isBad && <rect class="foot" x={index * step} y={HEIGHT - 3} width={step} height={3} />}
          </g>
        );
      })}
    </svg>
  );
}
