const unitMs: Readonly<Record<string, number>> = {
  SECOND: 1_000,
  MINUTE: 60_000,
  HOUR: 3_600_000,
  DAY: 86_400_000,
};

const modifier = /^([+-])(\d{1,8}) (SECOND|MINUTE|HOUR|DAY)S?$/;

/**
 * How long Bedrock's `retryAfter` waits: `+5 MINUTES`, `+1 HOUR, +30 MINUTES`. Null: no fixed time,
 * such as `+1 MONTH` and `START OF DAY`, or none at all.
 */
export function leaseOfRetryAfter(retryAfter: string): number | null {
  const parts = retryAfter
    .toUpperCase()
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
  const durations = parts.map(durationOf);
  if (durations.length === 0 || durations.includes(null)) return null;
  const leaseMs = durations.reduce<number>((sum, each) => sum + (each ?? 0), 0);
  return leaseMs > 0 ? leaseMs : null;
}

function durationOf(part: string): number | null {
  const [, sign, count, unit = ''] = modifier.exec(part) ?? [];
  const ms = unitMs[unit];
  if (ms === undefined) return null;
  return (sign === '-' ? -1 : 1) * Number(count) * ms;
}
