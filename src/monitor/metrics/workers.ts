import type { MeasuredRow, PresentWorker, Span, WorkerMetrics } from '../../store/contract/metrics.ts';

/** What the workers of each kind and tier did within one hour. */
export function measureWorkers(
  span: Span,
  workers: readonly PresentWorker[],
  rows: readonly MeasuredRow[],
): WorkerMetrics[] {
  const groups = new Map<string, Group>();
  const groupOf = new Map<number, Group>();
  for (const worker of workers) {
    const key = `${worker.kind} ${worker.tier ?? ''}`;
    const group = groups.get(key) ?? { worker, present: [], runs: [], jobs: new Map(), skipped: 0, crashed: 0 };
    groups.set(key, group);
    groupOf.set(worker.id, group);
    addWorker(group, worker, span);
  }
  for (const row of rows) {
    const group = groupOf.get(row.worker_id ?? 0);
    if (group !== undefined && row.what === 'run') addRun(group, row, span);
  }
  return [...groups.values()]
    .map((group) => toRow(group, span))
    .filter(({ workers, skipped }) => workers + skipped > 0);
}

interface Group {
  readonly worker: PresentWorker;
  /** Within the hour. */
  readonly present: Span[];
  readonly runs: Span[];
  /** How many jobs each worker has finished or failed. */
  readonly jobs: Map<number, number>;
  skipped: number;
  crashed: number;
}

function addWorker(group: Group, { state, started_at, finished_at }: PresentWorker, span: Span): void {
  const isEnd = finished_at !== null && finished_at >= span.from && finished_at < span.until;
  if (state === 'skipped') group.skipped += Number(isEnd);
  else if (isWithin(started_at, finished_at, span)) group.present.push(clip(started_at, finished_at, span));
  if (state === 'crashed') group.crashed += Number(isEnd);
}

function addRun({ runs, jobs }: Group, row: MeasuredRow, span: Span): void {
  const { started_at, finished_at, worker_id, outcome, left_job } = row;
  if (started_at !== null && isWithin(started_at, finished_at, span)) runs.push(clip(started_at, finished_at, span));
  const isDone = (outcome === 'succeeded' && left_job === null) || left_job === 'failed';
  if (!isDone || finished_at === null || finished_at < span.from || finished_at >= span.until) return;
  jobs.set(worker_id as number, (jobs.get(worker_id as number) ?? 0) + 1);
}

/** What begins and ends in the same millisecond was there. */
function isWithin(start: number, end: number | null, { from, until }: Span): boolean {
  return start < until && (end === null || end >= from);
}

function clip(start: number, end: number | null, { from, until }: Span): Span {
  const begin = Math.max(start, from);
  return { from: begin, until: Math.max(begin, Math.min(end ?? until, until)) };
}

function toRow({ worker, present, runs, jobs, skipped, crashed }: Group, { from: hour }: Span): WorkerMetrics {
  const each = [...jobs.values()];
  return {
    kind: worker.kind,
    tier: worker.tier ?? 'queue',
    hour,
    workers: present.length,
    ...{ skipped, crashed, alive_ms: lengthOf(present), busy_ms: lengthOf(runs) },
    jobs: each.reduce((sum, count) => sum + count, 0),
    max_jobs: each.reduce((most, count) => Math.max(most, count), 0),
    peak: Math.max(mostAtOnce(present), mostAtOnce(runs)),
  };
}

function lengthOf(spans: readonly Span[]): number {
  return spans.reduce((sum, { from, until }) => sum + until - from, 0);
}

/** Where one ends as another begins, they are not there at the same time. */
function mostAtOnce(spans: readonly Span[]): number {
  const begins = Float64Array.from(spans, ({ from }) => from).sort();
  const ends = Float64Array.from(spans, ({ from, until }) => Math.max(until, from + 1)).sort();
  let ended = 0;
  let most = 0;
  for (const [index, begin] of begins.entries()) {
    while ((ends[ended] as number) <= begin) ended += 1;
    most = Math.max(most, index + 1 - ended);
  }
  return most;
}

/** Of an hour that was measured twice: what became known later adds to it, and what is gone by then takes nothing away. */
export function mergeMeasured(one: WorkerMetrics, other: WorkerMetrics): WorkerMetrics {
  const max = (column: 'workers' | 'skipped' | 'crashed' | 'alive_ms' | 'busy_ms' | 'jobs' | 'max_jobs' | 'peak') =>
    Math.max(one[column], other[column]);
  return {
    ...one,
    ...{ workers: max('workers'), skipped: max('skipped'), crashed: max('crashed') },
    ...{ alive_ms: max('alive_ms'), busy_ms: max('busy_ms'), jobs: max('jobs') },
    ...{ max_jobs: max('max_jobs'), peak: max('peak') },
  };
}
