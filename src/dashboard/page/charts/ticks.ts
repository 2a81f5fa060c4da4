/** What the values of a chart are. */
export type TickUnit = 'ms' | 'bytes' | 'count' | 'share';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** From one line of the grid to the next: steps that one can count in. */
export function tickSteps(unit: TickUnit): number[] {
  if (unit === 'bytes') return powers(2, 40);
  if (unit === 'share') return [0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1, 2];
  const decimals = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].flatMap((power) => [1, 2, 5].map((step) => step * 10 ** power));
  if (unit === 'count') return decimals;
  const longer = [1, 2, 5, 10, 15, 30].flatMap((step) => [step * SECOND, step * MINUTE]);
  const longest = [1, 2, 3, 6, 12].map((step) => step * HOUR).concat([1, 2, 5, 10, 20, 50].map((step) => step * DAY));
  return [...new Set([...decimals.filter((step) => step < SECOND), ...longer, ...longest])].sort((a, b) => a - b);
}

function powers(base: number, count: number): number[] {
  return Array.from({ length: count }, (_, power) => base ** power);
}

/** Short enough for the edge of a chart: `1.5 s`, `20 min`, `64 MB`, `40 %`. */
export function formatTick(unit: TickUnit, value: number): string {
  if (unit === 'share') return `${Math.round(value * 100)} %`;
  if (unit === 'count') return value.toLocaleString('en', { notation: 'compact' });
  if (value === 0) return '0';
  return unit === 'bytes' ? inUnits(value, bytes) : inUnits(value, durations);
}

const durations: readonly (readonly [number, string])[] = [
  [DAY, 'd'],
  [HOUR, 'h'],
  [MINUTE, 'min'],
  [SECOND, 's'],
  [1, 'ms'],
];

const bytes: readonly (readonly [number, string])[] = [
  [2 ** 40, 'TB'],
  [2 ** 30, 'GB'],
  [2 ** 20, 'MB'],
  [2 ** 10, 'KB'],
  [1, 'B'],
];

function inUnits(value: number, units: readonly (readonly [number, string])[]): string {
  const [size, name] = units.find(([size]) => value >= size) ?? [1, ''];
  return `${Number((value / size).toFixed(1))} ${name}`;
}

/** Times in the viewer's zone: hours with the day where it begins, days, or months. */
export function timeTicks(at: readonly number[], stepMs: number): string[] {
  return at.map((atMs, index) => {
    const date = new Date(atMs);
    if (stepMs >= 28 * DAY) return date.toLocaleDateString(undefined, { month: 'short', year: 'numeric' });
    const day = date.toLocaleDateString(undefined, { day: 'numeric', month: 'short' });
    if (stepMs >= DAY) return day;
    const time = date.toLocaleTimeString(undefined, { timeStyle: stepMs < MINUTE ? 'medium' : 'short' });
    const before = at[index - 1];
    const isNewDay = before === undefined || new Date(before).getDate() !== date.getDate();
    return isNewDay ? `${time}\n${day}` : time;
  });
}
