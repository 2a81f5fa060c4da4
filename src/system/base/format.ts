import bytes from 'bytes';
import prettyMilliseconds from 'pretty-ms';

/** Placeholder for an unknown figure or instant. */
export const UNKNOWN = '–';

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** Tiers have weeks and months, which are no units of a duration. */
const namedPeriods: ReadonlyMap<number, string> = new Map([
  [7 * DAY_MS, 'week'],
  [30 * DAY_MS, 'month'],
]);

/** `23ms`, `1.2s`, `3m 20s`, `2h 5m`; unknown if a clock that was set back makes it negative. */
export function formatDuration(ms: number | null): string {
  if (ms === null || ms < 0) return UNKNOWN;
  if (ms > 0 && ms < 1) return '<1ms';
  if (ms < 1000) return prettyMilliseconds(Math.round(ms));
  const rounded = ms < MINUTE_MS ? ms : Math.round(ms / 1000) * 1000;
  return prettyMilliseconds(rounded, { unitCount: 2 });
}

/** The same in whole seconds: it grows, or comes nearer, while one reads it. */
export function formatElapsed(ms: number): string {
  return formatDuration(Math.round(ms / 1000) * 1000);
}

/** `3h 5m`, `42s`: whole seconds, for sentences; unknown if a clock that was set back makes it negative. */
export function formatSpan(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return seconds < 0 ? 'an unknown time' : prettyMilliseconds(seconds * 1000, { unitCount: 2 });
}

/** `44.1MB`, in powers of 1024. */
export function formatBytes(count: number | null): string {
  return count === null ? UNKNOWN : (bytes.format(count, { decimalPlaces: 1 }) ?? UNKNOWN);
}

/** `55.6%`, rounded; but only what never failed is 100%. */
export function formatRate(rate: number | null): string {
  if (rate === null) return UNKNOWN;
  const rounded = Math.round(rate * 1000);
  return `${(rate < 1 ? Math.min(rounded, 999) : rounded) / 10}%`;
}

/** `12,345`, without loading what knows how all the languages do that. */
export function formatCount(count: number): string {
  return String(count).replaceAll(/\B(?=(?:\d{3})+$)/g, ',');
}

/** `1,234`, `-1.5`: whatever a script has counted. */
export function formatNumber(value: number): string {
  return Number.isSafeInteger(value) && value >= 0 ? formatCount(value) : String(Math.round(value * 1000) / 1000);
}

/** `1 run`, `3 runs`, `2 passes`. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** `every 15 minutes`, `every hour`, `every week`. */
export function formatPeriod(periodMs: number): string {
  const text = namedPeriods.get(periodMs) ?? prettyMilliseconds(periodMs, { verbose: true, unitCount: 2 });
  return `every ${text.replace(/^1 (?=\w+$)/, '')}`;
}

/** `failed`; of a run that succeeded, and somebody is to look at all the same: `succeeded (warning)`. */
export function describeOutcome(run: Ending): string {
  return hasWarning(run) ? `${run.outcome} (warning)` : run.outcome;
}

/** Only of a run that succeeded: of any other the outcome says that something is wrong. */
export function hasWarning({ outcome, warning }: Ending): boolean {
  return outcome === 'succeeded' && warning !== null;
}

interface Ending {
  readonly outcome: string;
  readonly warning: string | null;
}

/** `4 succeeded`, `4 succeeded (1 with a warning)`. */
export function countSucceeded(succeeded: number, withWarning: number): string {
  return `${formatCount(succeeded)} succeeded${withWarning > 0 ? ` (${formatCount(withWarning)} with a warning)` : ''}`;
}

/** Since when a figure has been above the usual; with instants of any form. */
interface Rise<At> {
  readonly factor: number;
  readonly since: At;
  readonly isFileChanged: boolean | null;
  readonly fileChanged: At | null;
}

interface Rises<At> {
  readonly slower: (Rise<At> & { readonly durationMs: number; readonly usualMs: number }) | null;
  readonly heavier: (Rise<At> & { readonly maxRssBytes: number; readonly usualBytes: number }) | null;
}

/**
 * A line for each risen figure of a script: `30s, 4.7× its usual 6.4s since 25 Nov 04:42, its file unchanged`.
 *
 * @param short writes an instant in the reader's zone
 */
export function describeRises<At>({ slower, heavier }: Rises<At>, short: (at: At) => string): string[] {
  const line = (value: string, usual: string, rise: Rise<At>): string =>
    `${value}, ${formatTimes(rise.factor)}× its usual ${usual} since ${describeSince(rise, short)}`;
  return [
    ...(slower ? [line(formatDuration(slower.durationMs), formatDuration(slower.usualMs), slower)] : []),
    ...(heavier ? [line(`memory ${formatBytes(heavier.maxRssBytes)}`, formatBytes(heavier.usualBytes), heavier)] : []),
  ];
}

function describeSince<At>({ since, isFileChanged, fileChanged }: Rise<At>, short: (at: At) => string): string {
  if (fileChanged !== null) return `its file changed on ${short(fileChanged)}`;
  return `${short(since)}${isFileChanged === false ? ', its file unchanged' : ''}`;
}

/** A figure in the unit of its measure. */
export function formatMeasured(measure: string, value: number | null): string {
  if (measure === 'duration' || measure === 'cpu') return formatDuration(value);
  if (measure === 'count') return value === null ? UNKNOWN : formatNumber(value);
  return formatBytes(value);
}

/** How many times the other figure it is: `4.7×`; `–` where one of them is not known, or there is nothing to divide by. */
export function formatRatio(value: number | null, other: number | null): string {
  return value === null || other === null || other <= 0 ? UNKNOWN : `${formatTimes(value / other)}×`;
}

/** `4.7`, `23`: how many times as much. */
export function formatTimes(times: number): string {
  return times < 10 ? times.toFixed(1) : formatCount(Math.round(times));
}

/** Whether the jobs of a name are processed as fast as they come, as a view shows it. */
interface Pace {
  readonly verdict: 'keeps-up' | 'behind' | 'no-worker' | 'no-handler';
  readonly due: number;
  readonly ended: number;
  readonly behindPerHour: number;
  readonly workers: number | null;
  readonly clearMs: number | null;
}

/** `keeps up`, `falls behind by 40 jobs an hour; 2 workers would clear this in 12m`, `no handler here`. */
export function describePace({ verdict, due, ended, behindPerHour, workers, clearMs }: Pace): string {
  if (verdict === 'no-handler') return 'no handler here';
  if (verdict === 'no-worker') return 'no worker has called';
  const time = clearMs === null ? '' : formatElapsed(clearMs);
  if (verdict === 'keeps-up') return due === 0 || time === '' ? 'keeps up' : `keeps up, clear in ${time}`;
  const parts = [
    ...(behindPerHour > 0
      ? [`falls behind by ${formatCount(behindPerHour)} ${behindPerHour === 1 ? 'job' : 'jobs'} an hour`]
      : []),
    ...(workers !== null && time !== '' ? [`${countOf(workers, 'worker')} would clear this in ${time}`] : []),
  ];
  if (parts.length > 0) return parts.join('; ');
  return ended === 0 ? 'nothing is processed' : 'falls behind';
}
