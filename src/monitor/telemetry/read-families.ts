import { tierPeriodMs } from '../../schedule/period.ts';
import { metricsOf } from '../../store/statements/monitor/metrics.ts';
import { type CounterRow, type SiteState, telemetryOf } from '../../store/statements/monitor/telemetry.ts';
import type { StoreSession } from '../../store/store.ts';
import { Figures } from '../metrics/figures.ts';
import { Counters, eachMeasured, eachUncounted, HourlyFigures } from '../metrics/hours.ts';
import { HOUR_MS, hourOf } from '../metrics/periods.ts';
import type { MetricFamily, MetricPoint } from './families.ts';

/** Quantiles and peaks are those of so many hours, the current one included. */
const RECENT_MS = 24 * HOUR_MS;

/** The least of all instants. */
const BEGINNING = -8_640_000_000_000_000;

/**
 * All that can be told of a site in figures: what only grows since its log began, and how it is now. What grows never
 * gets less, whatever of the log is pruned. What is unknown is left out.
 *
 * @param now UTC epoch milliseconds
 */
export async function readFamilies(session: StoreSession, now: number, version: string): Promise<MetricFamily[]> {
  const { counters, open } = await readCounters(session, now);
  const recent = await readRecent(session, open, now);
  const state = await telemetryOf(session.statements).state(now);
  return [
    gauge('runner.build.info', '', 'The version of the runner; always 1.', [point({ version }, 1)]),
    ...countedFamilies(counters.toRows(), recent),
    ...scriptFamilies(state),
    ...siteFamilies(state),
  ];
}

interface CountedSoFar {
  readonly counters: Counters;
  /** What no hour has counted yet. */
  readonly open: HourlyFigures;
}

const MOST_READINGS = 5;

/** An hour that is closed meanwhile would be counted twice, or not at all: then all is read once more. */
async function readCounters(session: StoreSession, now: number): Promise<CountedSoFar> {
  const telemetry = telemetryOf(session.statements);
  let before = await telemetry.counters();
  for (let reading = 1; ; reading += 1) {
    const open = await readOpen(session, now);
    const after = await telemetry.counters();
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
  for (const row of [...closed, ...open.toRows().filter(({ hour }) => hour >= since)]) {
    const figures = recent.get(row.name) ?? new Figures();
    recent.set(row.name, figures);
    figures.merge(Figures.fromRow(row));
  }
  return recent;
}

function point(labels: MetricPoint['labels'], value: number | null): readonly MetricPoint[] {
  return value === null ? [] : [{ labels, value }];
}

function gauge(name: string, unit: string, help: string, points: readonly (readonly MetricPoint[])[]): MetricFamily {
  return { name, kind: 'gauge', unit, help, points: points.flat() };
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
      ...{ name: 'runner.runs', kind: 'counter', unit: '{run}', help: 'Runs that have ended, by how they did.' },
      points: runs.map(({ name, what, times }) => ({ labels: { script: name, outcome: what }, value: times })),
    },
    {
      ...{ name: 'runner.run.duration', kind: 'summary', unit: 's' },
      help: 'How long runs took; quantiles are of the last 24 hours.',
      points: byScript.map(([script, of]) => ({
        ...{ labels: { script }, value: sum(of, 'run_ms') / 1000, count: sum(of, 'timed') },
        quantiles: quantilesOf(recent.get(script)),
      })),
    },
    {
      ...{ name: 'runner.run.cpu.time', kind: 'counter', unit: 's', help: 'CPU time of runs, user and system.' },
      points: byScript.map(([script, of]) => ({ labels: { script }, value: sum(of, 'cpu_ms') / 1000 })),
    },
    gauge('runner.run.memory.peak', 'By', 'Highest memory of a run in the last 24 hours.', memory),
    {
      ...{ name: 'runner.jobs.added', kind: 'counter', unit: '{job}', help: 'Jobs that were added to the queue.' },
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
  const ended = scripts.filter(({ lastOutcome }) => lastOutcome !== null && lastOutcome !== 'running');
  return [
    gauge(
      'runner.last_run.timestamp',
      's',
      'When the last run began.',
      scripts.map(({ script, lastAt }) => point({ script }, seconds(lastAt))),
    ),
    gauge(
      'runner.last_success.timestamp',
      's',
      'When the last successful run began.',
      scripts.map(({ script, lastSuccessAt }) => point({ script }, seconds(lastSuccessAt))),
    ),
    gauge(
      'runner.last_run.succeeded',
      '',
      'Whether the last run that ended succeeded: 1, else 0.',
      ended.map(({ script, lastOutcome }) => point({ script }, lastOutcome === 'succeeded' ? 1 : 0)),
    ),
    gauge(
      'runner.last_run.warned',
      '',
      'Whether the last run that ended succeeded with a warning, as its output tells of a failure: 1, else 0.',
      ended.map(({ script, lastSuspect }) => point({ script }, lastSuspect)),
    ),
    gauge(
      'runner.tier.last_pass.timestamp',
      's',
      'When the last pass of a tier began.',
      tiers.map(({ tier, lastPassAt }) => point({ tier }, seconds(lastPassAt))),
    ),
    gauge(
      'runner.tier.period',
      's',
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
      'runner.queue.jobs',
      '{job}',
      'Jobs of the queue that have not ended, and those that failed.',
      Object.entries(queue.jobs).map(([name, count]) => point({ state: name }, count)),
    ),
    gauge(
      'runner.queue.oldest.age',
      's',
      'How long the job that waits longest has been due.',
      one(seconds(queue.ageMs)),
    ),
    gauge('runner.running', '{run}', 'Runs that are going on.', one(state.running)),
    gauge('runner.workers', '{worker}', 'Passes and workers that are at work.', one(state.workers)),
    gauge(
      'runner.incidents.open',
      '{incident}',
      'Incidents that are not over.',
      Object.entries(incidents).map(([severity, count]) => point({ severity }, count)),
    ),
    gauge('runner.deliveries.waiting', '{delivery}', 'Messages that have not arrived yet.', one(deliveries.waiting)),
    gauge('runner.deliveries.given_up', '{delivery}', 'Messages that were given up.', one(deliveries.givenUp)),
    gauge('runner.log.size', 'By', 'Size of the activity log.', one(state.logBytes)),
  ];
}
