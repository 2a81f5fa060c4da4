import { tierPeriodMs } from '../../schedule/period.ts';
import { readSiteState, type SiteState } from '../../store/statements/monitor/checks.ts';
import { type CounterRow, metricsOf } from '../../store/statements/monitor/metrics.ts';
import type { StoreSession } from '../../store/store.ts';
import { isFailure } from '../../store/words.ts';
import { HOUR_MS } from '../../system/base/values.ts';
import { Figures } from './figures.ts';
import { Counters, eachMeasured, eachUncounted, HourlyFigures } from './hours.ts';
import { hourOf } from './periods.ts';

/** One metric with all its series. */
interface MetricFamily {
  /** As https://prometheus.io/docs/practices/naming asks for it. */
  readonly name: string;
  /** `counter`: it only grows. `summary`: a count and a sum that only grow, and quantiles of the last day. */
  readonly kind: 'counter' | 'gauge' | 'summary';
  readonly help: string;
  readonly points: readonly MetricPoint[];
}

interface MetricPoint {
  readonly labels: Readonly<Record<string, string>>;
  /** The value, or the sum of a summary. */
  readonly value: number;
  /** The count of a summary. */
  readonly count?: number;
  /** The quantiles of a summary: pairs of a share and the value that this share does not exceed. */
  readonly quantiles?: readonly (readonly [share: number, value: number])[];
}

/** Span of quantiles and peaks, the current hour included. */
const RECENT_MS = 24 * HOUR_MS;

/** The least of all instants. */
const BEGINNING = -8_640_000_000_000_000;

/**
 * The metrics of a site as Prometheus reads them, in its text format 0.0.4, which node_exporter's textfile collector
 * takes (https://prometheus.io/docs/instrumenting/exposition_formats); without instants, which that collector refuses.
 * Counters never become smaller, whatever is pruned from the log. Unknown values are left out.
 *
 * @param now UTC epoch milliseconds
 */
export async function writePrometheus(session: StoreSession, now: number, version: string): Promise<string> {
  const families = await readFamilies(session, now, version);
  return families
    .filter(({ points }) => points.length > 0)
    .map((family) => writeFamily(family))
    .join('');
}

async function readFamilies(session: StoreSession, now: number, version: string): Promise<MetricFamily[]> {
  const { counters, open } = await readCounters(session, now);
  const recent = await readRecent(session, open, now);
  const state = await readSiteState(session.statements, now);
  return [
    gauge('runner_build_info', 'The version of the runner; always 1.', [point({ version }, 1)]),
    ...countedFamilies(counters.toRows(), recent),
    ...scriptFamilies(state),
    ...siteFamilies(state),
  ];
}

interface CountedSoFar {
  readonly counters: Counters;
  /** Records that no closed hour has counted yet. */
  readonly open: HourlyFigures;
}

const MOST_READINGS = 5;

/** An hour that is closed meanwhile would be counted twice, or not at all: then all is read once more. */
async function readCounters(session: StoreSession, now: number): Promise<CountedSoFar> {
  const metrics = metricsOf(session.statements);
  let before = await metrics.counters();
  for (let reading = 1; ; reading += 1) {
    const open = await readOpen(session, now);
    const after = await metrics.counters();
    if (reading === MOST_READINGS || JSON.stringify(before) === JSON.stringify(after)) {
      const counters = new Counters();
      for (const row of [...after, ...open.counters.toRows()]) counters.merge(row);
      return { counters, open };
    }
    before = after;
  }
}

async function readOpen({ statements }: StoreSession, now: number): Promise<HourlyFigures> {
  const metrics = metricsOf(statements);
  const from = (await metrics.countedUntil()) ?? BEGINNING;
  const until = Math.max(from, now + 1);
  const figures = new HourlyFigures();
  await eachMeasured({ metrics }, { from, until }, (row) => figures.add(row, { from, until }));
  for (const added of await metrics.added({ from, until })) figures.addJobs(added);
  await eachUncounted({ metrics }, until, (row) => figures.add(row, { from: BEGINNING, until }));
  return figures;
}

/** By script, of the last hours. */
async function readRecent(
  { statements }: StoreSession,
  open: HourlyFigures,
  now: number,
): Promise<ReadonlyMap<string, Figures>> {
  const since = hourOf(now) - RECENT_MS + HOUR_MS;
  const closed = await metricsOf(statements).read({ from: since, until: now + 1 }, null);
  const recent = new Map<string, Figures>();
  const add = (name: string, figures: Figures): void => {
    const known = recent.get(name) ?? new Figures();
    recent.set(name, known);
    known.merge(figures);
  };
  for (const row of closed) add(row.name, Figures.fromRow(row));
  for (const { hour, name, figures } of open.entries()) if (hour >= since) add(name, figures);
  return recent;
}

function point(labels: MetricPoint['labels'], value: number | null): readonly MetricPoint[] {
  return value === null ? [] : [{ labels, value }];
}

function gauge(name: string, help: string, points: readonly (readonly MetricPoint[])[]): MetricFamily {
  return { name, kind: 'gauge', help, points: points.flat() };
}

const seconds = (ms: number | null): number | null => (ms === null ? null : ms / 1000);

function countedFamilies(rows: readonly CounterRow[], recent: ReadonlyMap<string, Figures>): MetricFamily[] {
  const sorted = rows.toSorted((one, other) => (one.name < other.name ? -1 : Number(one.name > other.name)));
  const runs = sorted.filter(({ what }) => what !== 'added');
  const added = sorted.filter(({ what }) => what === 'added');
  const byScript = [...Map.groupBy(runs, ({ name }) => name)];
  const sum = (of: readonly CounterRow[], figure: 'timed' | 'run_ms' | 'cpu_ms'): number =>
    of.reduce((all, row) => all + row[figure], 0);
  const memory = [...recent].map(([script, { maxRssBytes }]) => point({ script }, maxRssBytes));
  return [
    {
      ...{ name: 'runner_runs_total', kind: 'counter', help: 'Runs that have ended, by how they did.' },
      points: runs.map(({ name, what, times }) => ({ labels: { script: name, outcome: what }, value: times })),
    },
    {
      ...{ name: 'runner_run_duration_seconds', kind: 'summary' },
      help: 'How long runs took; quantiles are of the last 24 hours.',
      points: byScript.map(([script, of]) => ({
        ...{ labels: { script }, value: sum(of, 'run_ms') / 1000, count: sum(of, 'timed') },
        quantiles: quantilesOf(recent.get(script)),
      })),
    },
    {
      ...{ name: 'runner_run_cpu_time_seconds_total', kind: 'counter', help: 'CPU time of runs, user and system.' },
      points: byScript.map(([script, of]) => ({ labels: { script }, value: sum(of, 'cpu_ms') / 1000 })),
    },
    gauge('runner_run_memory_peak_bytes', 'Highest memory of a run in the last 24 hours.', memory),
    {
      ...{ name: 'runner_jobs_added_total', kind: 'counter', help: 'Jobs that were added to the queue.' },
      points: added.map(({ name, times }) => ({ labels: { script: name }, value: times })),
    },
  ];
}

function quantilesOf(figures: Figures | undefined): NonNullable<MetricPoint['quantiles']> {
  const { p50 = null, p95 = null } = figures?.run.spread() ?? {};
  const known = [[0.5, p50] as const, [0.95, p95] as const];
  return known.flatMap(([share, ms]) => (ms === null ? [] : [[share, ms / 1000] as const]));
}

function scriptFamilies({ scripts, tiers }: SiteState): MetricFamily[] {
  // A run that was stopped, or given back, says nothing of its script.
  const judged = scripts.filter(({ lastOutcome: how }) => how === 'succeeded' || (how !== null && isFailure(how)));
  return [
    gauge(
      'runner_last_run_timestamp_seconds',
      'When the last run began.',
      scripts.map(({ script, lastAt }) => point({ script }, seconds(lastAt))),
    ),
    gauge(
      'runner_last_success_timestamp_seconds',
      'When the last successful run began.',
      scripts.map(({ script, lastSuccessAt }) => point({ script }, seconds(lastSuccessAt))),
    ),
    gauge(
      'runner_last_run_succeeded',
      'Whether the last run succeeded: 1, or failed: 0.',
      judged.map(({ script, lastOutcome }) => point({ script }, lastOutcome === 'succeeded' ? 1 : 0)),
    ),
    gauge(
      'runner_last_run_warned',
      'Whether the last run that ended succeeded with a warning, as its output tells of a failure: 1, else 0.',
      judged.map(({ script, lastSuspect }) => point({ script }, lastSuspect)),
    ),
    gauge(
      'runner_tier_last_pass_timestamp_seconds',
      'When the last pass of a tier began.',
      tiers.map(({ tier, lastPassAt }) => point({ tier }, seconds(lastPassAt))),
    ),
    gauge(
      'runner_tier_period_seconds',
      'How often a tier is to be run.',
      tiers.map(({ tier }) => point({ tier }, seconds(tierPeriodMs(tier)))),
    ),
  ];
}

function siteFamilies(state: SiteState): MetricFamily[] {
  const { queue, incidents, deliveries } = state;
  const one = (value: number | null): readonly (readonly MetricPoint[])[] => [point({}, value)];
  return [
    gauge(
      'runner_queue_jobs',
      'Jobs of the queue that have not ended, and those that failed.',
      Object.entries(queue.jobs).map(([name, count]) => point({ state: name }, count)),
    ),
    gauge(
      'runner_queue_oldest_age_seconds',
      'How long the job that waits longest has been due.',
      one(seconds(queue.ageMs)),
    ),
    gauge('runner_running', 'Runs that are going on.', one(state.running)),
    gauge('runner_workers', 'Passes and workers that are at work.', one(state.workers)),
    gauge('runner_scripts_waiting', 'Scripts that wait for other scripts, or their time of day.', one(state.linked)),
    gauge(
      'runner_incidents_open',
      'Incidents that are not over.',
      Object.entries(incidents).map(([severity, count]) => point({ severity }, count)),
    ),
    gauge('runner_deliveries_waiting', 'Messages that have not arrived yet.', one(deliveries.waiting)),
    gauge('runner_deliveries_given_up', 'Messages that were given up.', one(deliveries.givenUp)),
    gauge('runner_log_size_bytes', 'Size of the activity log.', one(state.logBytes)),
  ];
}

function writeFamily({ name, kind, help, points }: MetricFamily): string {
  const lines = points.flatMap((point) => writePoint(name, kind, point));
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${kind}`, ...lines, ''].join('\n');
}

function writePoint(name: string, kind: MetricFamily['kind'], point: MetricPoint): string[] {
  const { labels, value, count = 0, quantiles = [] } = point;
  if (kind !== 'summary') return [writeSample(name, labels, value)];
  return [
    ...quantiles.map(([quantile, at]) => writeSample(name, { ...labels, quantile: String(quantile) }, at)),
    writeSample(`${name}_sum`, labels, value),
    writeSample(`${name}_count`, labels, count),
  ];
}

function writeSample(name: string, labels: Readonly<Record<string, string>>, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`);
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`;
}

/** File names hold anything: half characters, which no UTF-8 has, are replaced. */
function escapeLabel(text: string): string {
  return text.toWellFormed().replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
