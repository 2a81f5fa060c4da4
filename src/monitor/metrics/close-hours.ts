import { type MeasuredRow, metricsOf, type WorkerMetrics } from '../../store/statements/monitor/metrics.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import { eachMeasured, eachUncounted, HourlyFigures, hasRow, type MetricStatements, OpenHour } from './hours.ts';
import { HOUR_MS, hourOf } from './periods.ts';
import { HourOfWorkers, mergeMeasured } from './workers.ts';

/** So long one invocation works at a backlog; the next ones go on with it. */
const BUDGET_MS = 250;

/** Five years, so that this year is seen beside those before it. */
const KEPT_MS = 5 * 365 * 24 * HOUR_MS;
const PRUNED_ROWS = 2_000;

/**
 * Counts every hour that is over, the oldest first, and what became known late of those that were counted. Each hour
 * is one transaction: whoever is killed has counted it whole or not at all, and of two at the same time one comes
 * second and finds it counted.
 *
 * @param now UTC epoch milliseconds
 * @param budgetMs after this time no further hour is begun
 */
export async function closeHours(store: Store, now: () => number, budgetMs = BUDGET_MS): Promise<void> {
  const begun = performance.now();
  let isMore = true;
  while (isMore) {
    isMore = await store.transaction((session) => closeNext(session, now()), 'soon');
    if (performance.now() - begun >= budgetMs) break;
  }
  await metricsOf(store.statements).prune(now() - KEPT_MS, PRUNED_ROWS);
}

/** The least of all instants. */
const BEGINNING = -8_640_000_000_000_000;

/** @returns whether there is another one */
async function closeNext(session: StoreSession, now: number): Promise<boolean> {
  const metrics = metricsOf(session.statements);
  await metrics.lock();
  const over = hourOf(now);
  const known = await metrics.countedUntil();
  const from = known ?? Math.min(hourOf((await metrics.nextAt(BEGINNING)) ?? now), over);
  const until = from < over ? from + HOUR_MS : from;
  const scripts = new HourlyFigures();
  const open = from < until ? await OpenHour.open(metrics, { from, until }) : null;
  const hoursAgain = new Set<number>();
  let isLate = false;
  await eachUncounted({ metrics }, until, (row) => {
    isLate = true;
    scripts.add(row, { from: BEGINNING, until });
    open?.addLate(row);
    if (hasRow(row, from)) for (const hour of hoursOf(row, from)) hoursAgain.add(hour);
  });
  const again = await measureAgain(metrics, hoursAgain);
  const hour = (await open?.measure({ now, scripts })) ?? null;
  await scripts.addKnown(metrics);
  await metrics.write(scripts.toRows(), [...again, ...(hour?.workers ?? [])]);
  await metrics.addCounters(scripts.counters.toRows());
  // Whole days without anything are one step.
  const next = hour?.isEmpty ? Math.min(hourOf((await metrics.nextAt(until)) ?? over), over) : until;
  if (next !== known || isLate) await metrics.setCountedUntil(next);
  return next < over;
}

/** So far back workers are measured again; before that, too much may be gone by now. */
const AGAIN_MS = 7 * 24 * HOUR_MS;

/** Workers of hours that were counted before runs of theirs became known. */
async function measureAgain(metrics: MetricStatements, hours: ReadonlySet<number>): Promise<WorkerMetrics[]> {
  const rows: WorkerMetrics[] = [];
  for (const from of hours) {
    const span = { from, until: from + HOUR_MS };
    const before = await metrics.readWorkers({ from, until: from + 1 });
    const workers = new HourOfWorkers(span, await metrics.workers(span));
    await eachMeasured({ metrics }, span, (row) => workers.add(row));
    for (const row of workers.toRows()) {
      const known = before.find(({ kind, tier }) => kind === row.kind && tier === row.tier);
      rows.push(known === undefined ? row : mergeMeasured(known, row));
    }
  }
  return rows;
}

function hoursOf({ started_at, finished_at }: MeasuredRow, countedUntil: number): number[] {
  const end = Math.min(finished_at ?? started_at ?? countedUntil, countedUntil - 1);
  const first = Math.max(hourOf(started_at ?? end), hourOf(countedUntil) - AGAIN_MS);
  const hours: number[] = [];
  for (let hour = first; hour <= end; hour += HOUR_MS) hours.push(hour);
  return hours;
}
