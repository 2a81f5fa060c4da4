import { formatDuration } from '../../../system/base/format.ts';

export interface SparkPoint {
  /** A duration in milliseconds; null: not known, a gap. */
  readonly value: number | null;
  readonly isBad?: boolean;
}

interface SparklineProps {
  /** Oldest first. */
  readonly points: readonly SparkPoint[];
  /** What it shows, for who does not see it: `duration of the last 20 runs`. */
  readonly label: string;
}

const WIDTH = 100;
const HEIGHT = 24;

/** Values as bars, one for each, the highest as high as there is room; failures also stand on a thick foot. */
export function Sparkline({ points, label }: SparklineProps) {
  const known = points.flatMap(({ value }) => (value === null ? [] : [value]));
  if (known.length === 0) return null;
  const highest = Math.max(...known);
  // As wide for few runs as for many: what one sees is how they differ.
  const step = WIDTH / Math.max(points.length, 12);
  const heightOf = (value: number): number => (highest === 0 ? 2 : Math.max(2, (value / highest) * (HEIGHT - 2)));
  const [lowest, top, last] = [Math.min(...known), highest, known.at(-1) as number].map(formatDuration);
  const text = `${label}: lowest ${lowest}, highest ${top}, last ${last}`;
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={text}>
      <title>{text}</title>
      {points.map(({ value, isBad }, index) => {
        const height = value === null ? 1 : heightOf(value);
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
