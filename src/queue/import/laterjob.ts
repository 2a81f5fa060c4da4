import type { ExternalDatabase, ExternalRow } from '../../store/external/external-database.ts';
import { openLaterJobRows } from '../../store/external/external-database.ts';
import { isEnded, type JobState } from '../../store/words.ts';

import { UsageError } from '../../system/base/errors.ts';
import { isZone, nearestZone } from '../../system/base/zone.ts';
import { requireJobName } from '../add/values.ts';
import { writeRetry } from '../settle/own-retry.ts';
import {
  type ClockReader,
  checkSize,
  type ForeignJob,
  type ForeignQueue,
  type ImportOptions,
  invalidJob,
  orBad,
  readForeignNumber,
  readNeededTime,
  readTime,
  readUtcClock,
  readUtf8,
  textOf,
} from './import-jobs.ts';

/** The jobs of one of LaterJob's queues. @throws {UsageError} if the table is not such a queue */
export async function readLaterJob(database: ExternalDatabase, options: ImportOptions): Promise<ForeignQueue> {
  const { table = 'later_job_queue' } = options;
  const rows = openLaterJobRows(database, table);
  const name = requireJobName(options.name ?? table);
  const readClock = await clockReaderOf(options.timeZone);
  const missing = rows.missingTransitions;
  const note = `there is no table ${missing}: the times of runs and the reasons of failures are not known`;
  return {
    system: 'LaterJob',
    table,
    notes: missing === null ? [] : [note],
    *read() {
      for (const row of rows.jobs()) {
        yield orBad(row.job_id, () => readJob(row, { name, readClock, options }));
      }
    },
  };
}

/** Reads times in a zone; undefined: UTC. @throws {UsageError} if the zone is unknown */
async function clockReaderOf(zone: string | undefined): Promise<ClockReader> {
  if (zone === undefined || zone === 'UTC') return readUtcClock;
  if (!isZone(zone)) throw new UsageError(describeUnknownZone(zone));
  const { Temporal } = await import('temporal-polyfill');
  return (wallMs) => {
    const wall = Temporal.Instant.fromEpochMilliseconds(wallMs).toZonedDateTimeISO('UTC');
    return wall.toPlainDateTime().toZonedDateTime(zone).epochMilliseconds;
  };
}

function describeUnknownZone(zone: string): string {
  const nearest = nearestZone(zone);
  const guess = nearest === null ? '.' : `; did you mean ${nearest}?`;
  return `--time-zone must be a time zone such as Europe/Berlin, found ${JSON.stringify(zone)}${guess}`;
}

interface LaterQueue {
  /** LaterJob's jobs have no names: each queue holds one kind of job. */
  readonly name: string;
  readonly readClock: ClockReader;
  readonly options: ImportOptions;
}

function readJob(row: ExternalRow, { name, readClock, options }: LaterQueue): ForeignJob {
  const id = textOf(row.job_id);
  if (id === '') throw invalidJob('it has no job_id');
  const { state, note } = readState(textOf(row.state_id));
  const hasEnded = isEnded(state);
  if (hasEnded && !options.withEnded) return { leftOut: 'ended' };
  const data = readData(row);
  const created_at = readNeededTime('dte_add', row.dte_add, readClock);
  const retryAt = readTime('retry_last', row.retry_last, readClock);
  // A job that a worker has locked is left to it until the end of the lock.
  const lockedUntil = readTime('lock_timeout', row.lock_timeout, readClock) ?? 0;
  const started_at = readTime('start', row.started, readClock);
  const endedAt = readTime('end', row.ended, readClock);
  const dueAt = state === 'retrying' ? (retryAt ?? created_at) : created_at;
  const attempts = readForeignNumber('its count of starts', row.starts);
  // `retry_count` is how often the job may still fail.
  const left = Math.max(0, readForeignNumber('its retry_count', row.retry_count));
  return {
    ...{ id, key: `import:laterjob:${id}`, parent: null, parentKey: null, isParent: false },
    notes: [note, data.note].filter((each) => each !== null),
    row: {
      ...{ name, state, data: data.json, priority: 500, scheduled_for: null, repeat: null, lease_ms: null },
      run_at: hasEnded ? created_at : Math.max(dueAt, lockedUntil),
      retry: writeRetry(hasEnded ? Math.max(0, attempts - 1) : attempts + left, undefined),
      missed_policy: options.missed,
      created_at,
      started_at,
      finished_at: hasEnded ? (endedAt ?? started_at ?? created_at) : null,
      attempts,
      reason: textOf(row.reason) || null,
    },
  };
}

interface State {
  readonly state: JobState;
  readonly note: string | null;
}

const states: Readonly<Record<string, State>> = {
  1: { state: 'queued', note: null },
  2: {
    state: 'queued',
    note: 'STARTED, so a worker of LaterJob may be running it: queued for the end of its lock',
  },
  3: { state: 'finished', note: null },
  4: { state: 'retrying', note: null },
  5: { state: 'failed', note: null },
};

function readState(stateId: string): State {
  const state = states[stateId];
  if (state !== undefined) return state;
  throw invalidJob(`its state_id is ${JSON.stringify(stateId)}, expected 1 to 5`);
}

interface Data {
  readonly json: string;
  readonly note: string | null;
}

/** The format of PHP's `serialize`. */
const serialized = /^(?:N;|b:[01];|[id]:[-\dINFA.E+]+;|[saOCE]:\d+:)/;

function readData({ data, isJson }: ExternalRow): Data {
  if (data === null) return { json: 'null', note: null };
  const text = readUtf8('its job_data', data);
  if (Number(isJson) === 1) return { json: checkSize(text), note: null };
  const what = serialized.test(text) ? 'serialized by PHP' : 'not JSON';
  return { json: checkSize(JSON.stringify(text)), note: `data that is ${what}: now a JSON string` };
}
