import type { ForeignRow } from '../../store/foreign-database.ts';
import type { JobState } from '../../store/schema.ts';
import type { ImportedJob, ImportOptions, Reading } from './imported-job.ts';
import { type OfClock, readNeededTime, readTime } from './read-time.ts';
import { checkSize, readUtf8, readWholeNumber, textOf, wrong } from './read-values.ts';

export interface LaterQueue {
  /** LaterJob's jobs have no names: each queue has one sort of them. */
  readonly name: string;
  readonly clock: OfClock;
  readonly options: ImportOptions;
}

/** @throws {QueueError} that says why it cannot be taken over */
export function convertLaterJob(row: ForeignRow, { name, clock, options }: LaterQueue): Reading {
  const id = textOf(row.job_id);
  if (id === '') throw wrong('it has no job_id');
  const { state, note } = readState(textOf(row.state_id));
  const isEnded = state === 'finished' || state === 'failed';
  if (isEnded && !options.withEnded) return { leftOut: 'ended' };
  const data = readData(row);
  return {
    id,
    key: `import:laterjob:${id}`,
    parent: null,
    name,
    state,
    ...readTimes(row, state, clock),
    data: data.json,
    priority: 500,
    ...readTries(row, isEnded),
    repeat: null,
    missed: options.missed,
    leaseMs: null,
    reason: textOf(row.reason) || null,
    notes: [note, data.note].filter((each) => each !== null),
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
    note: 'STARTED, so that a worker of LaterJob may be at it: queued for the end of its lock',
  },
  3: { state: 'finished', note: null },
  4: { state: 'retrying', note: null },
  5: { state: 'failed', note: null },
};

function readState(stateId: string): State {
  const state = states[stateId];
  if (state !== undefined) return state;
  throw wrong(`its state_id is ${JSON.stringify(stateId)}, expected 1 to 5`);
}

type Times = Pick<ImportedJob, 'createdAt' | 'runAt' | 'startedAt' | 'scheduledFor' | 'finishedAt'>;

/** What a worker has locked is left to it for as long as that holds. */
function readTimes(row: ForeignRow, state: JobState, clock: OfClock): Times {
  const createdAt = readNeededTime('dte_add', row.dte_add, clock);
  const retryAt = readTime('retry_last', row.retry_last, clock);
  const lockedUntil = readTime('lock_timeout', row.lock_timeout, clock);
  const startedAt = readTime('start', row.started, clock);
  const endedAt = readTime('end', row.ended, clock);
  const dueAt = state === 'retrying' ? (retryAt ?? createdAt) : createdAt;
  const isEnded = state === 'finished' || state === 'failed';
  return {
    createdAt,
    runAt: isEnded ? createdAt : Math.max(dueAt, lockedUntil ?? 0),
    startedAt,
    scheduledFor: null,
    finishedAt: isEnded ? (endedAt ?? startedAt ?? createdAt) : null,
  };
}

/** `retry_count` is how often it may still fail; it then has one try more. */
function readTries({ starts, retry_count }: ForeignRow, isEnded: boolean) {
  const attempts = readWholeNumber('its count of starts', starts);
  const left = Math.max(0, readWholeNumber('its retry_count', retry_count));
  const maxAttempts = isEnded ? Math.max(1, attempts) : attempts + left + 1;
  return { attempts, reserves: attempts, maxAttempts };
}

interface Data {
  readonly json: string;
  readonly note: string | null;
}

/** What PHP's `serialize` writes. */
const serialized = /^(?:N;|b:[01];|[id]:[-\dINFA.E+]+;|[saOCE]:\d+:)/;

function readData({ data, isJson }: ForeignRow): Data {
  if (data === null) return { json: 'null', note: null };
  const text = readUtf8('its job_data', data);
  if (Number(isJson) === 1) return { json: checkSize(text), note: null };
  const what = serialized.test(text) ? 'serialized by PHP' : 'no JSON';
  return { json: checkSize(JSON.stringify(text)), note: `data that is ${what}: a JSON string now` };
}
