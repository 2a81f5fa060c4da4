import { parseRepeat } from '../../schedule/repeat/parse.ts';
import type { ExternalDatabase, ExternalRow } from '../../store/external/external-database.ts';
import { openBedrockRows } from '../../store/external/queue-tables.ts';
import type { JobState } from '../../store/words.ts';
import { requireJobName } from '../add/values.ts';
import { isEnded } from '../read/list.ts';
import {
  checkSize,
  type ForeignJob,
  type ForeignQueue,
  type GoodJob,
  type ImportOptions,
  invalidJob,
  orBad,
  readForeignNumber,
  readNeededTime,
  readTime,
  readUtcClock,
  readUtf8,
  textOf,
} from './foreign-queue.ts';

/** The jobs of a Bedrock::Jobs database. @throws {UsageError} if the file is not such a database */
export function readBedrock(database: ExternalDatabase, options: ImportOptions): ForeignQueue {
  const { table = 'jobs' } = options;
  const rows = openBedrockRows(database, table);
  const families = readFamilies(rows.relatives());
  return {
    system: 'Bedrock',
    table,
    notes: [],
    *read(bad) {
      const queue = { families, options, bad };
      for (const row of rows.jobs()) yield orBad(row.jobID, () => readJob(row, queue));
    },
  };
}

interface BedrockQueue {
  readonly families: Families;
  readonly options: ImportOptions;
  readonly bad: ReadonlySet<string>;
}

function readJob(row: ExternalRow, queue: BedrockQueue): ForeignJob {
  const id = textOf(row.jobID);
  const state = textOf(row.state);
  if (!isUnfinished(state) && !isWanted(id, state, queue)) return { leftOut: 'ended' };
  if (isMocked(id, row, queue.families)) return { leftOut: 'mocked' };
  const here = decideState(id, state, queue);
  const repeat = readRule(textOf(row.repeat));
  const lease = readLease(textOf(row.retryAfter));
  return {
    id,
    ...readFamily(id, row, queue),
    key: keyOf(id, textOf(row.created)),
    name: requireJobName(row.name),
    state: here.state,
    ...readTimes(row, here.state, repeat.rule !== null),
    data: readData(row),
    priority: row.priority === null ? 500 : readForeignNumber('its priority', row.priority),
    ...readTries(row),
    repeat: repeat.rule,
    missed: queue.options.missed,
    leaseMs: lease.leaseMs,
    reason: null,
    notes: [...here.notes, ...repeat.notes, ...lease.notes],
  };
}

/** The key includes the time of creation: otherwise job 1 of one database would pass for job 1 of another. */
function keyOf(id: string, created: string): string {
  return `import:bedrock:${id}@${created}`;
}

const ended: Readonly<Record<string, JobState>> = {
  FINISHED: 'finished',
  FAILED: 'failed',
  CANCELLED: 'cancelled',
};

function isWanted(id: string, state: string, { families, options }: BedrockQueue): boolean {
  if (ended[state] === undefined) throw invalidJob(`its state ${JSON.stringify(state)} is not known`);
  return options.withEnded || isOfUnfinishedFamily(families, id);
}

/** Whether the job or its parent was made only for a test. */
function isMocked(id: string, row: ExternalRow, families: Families): boolean {
  const { parent = null } = families.find(id) ?? {};
  return row.mockRequest !== null || (parent !== null && families.find(parent)?.isMocked === true);
}

function readFamily(id: string, row: ExternalRow, { families, bad }: BedrockQueue) {
  const isParent = families.childrenOf(id).length > 0;
  const { parent = null } = families.find(id) ?? {};
  if (parent === null) return { isParent, parent, parentKey: null };
  const found = families.find(parent);
  if (found === null) throw invalidJob(`its parent ${parent} is not in the file`);
  if (found.parent !== null) throw invalidJob(`its parent ${parent} is a child itself`);
  if (bad.has(parent)) throw invalidJob(`its parent ${parent} cannot be imported`);
  if (textOf(row.repeat) !== '') {
    throw invalidJob('it is a child and repeats: its parent would wait for ever');
  }
  return { isParent, parent, parentKey: keyOf(parent, found.created) };
}

interface StateHere {
  readonly state: JobState;
  readonly notes: readonly string[];
}

const MAY_RUN_THERE = 'a worker of Bedrock may be running it: queued, and run here as well';

function decideState(id: string, state: string, { families, bad }: BedrockQueue): StateHere {
  const end = ended[state];
  if (end !== undefined) return { state: end, notes: [] };
  if (state === 'QUEUED') return { state: 'queued', notes: [] };
  if (state === 'PAUSED') return decidePaused(families, id, bad);
  return { state: 'queued', notes: [`${state}, so ${MAY_RUN_THERE}`] };
}

/** Keeps the rule word for word. @throws {QueueError} if the text is not a rule */
function readRule(repeat: string): { rule: string | null; notes: readonly string[] } {
  if (repeat === '') return { rule: null, notes: [] };
  const parsed = parseRepeat(repeat);
  if ('problem' in parsed) {
    throw invalidJob(`its repeat ${JSON.stringify(repeat)}: ${parsed.problem}`);
  }
  const meaning = meanings[repeat.toUpperCase()];
  if (meaning === undefined) return { rule: repeat, notes: [] };
  return { rule: repeat, notes: [`${repeat.toUpperCase()} means ${meaning}`] };
}

/** Rules whose meaning in Bedrock's documentation differs from that in its code. */
const meanings: Readonly<Record<string, string>> = {
  HOURLY: 'FINISHED, +1 HOUR here; Bedrock itself runs it at the full hour',
  DAILY: 'FINISHED, +1 DAY here; Bedrock itself runs it at midnight UTC',
  WEEKLY: 'FINISHED, +7 DAYS here; Bedrock itself runs it on Sunday at midnight UTC',
};

type Times = Pick<GoodJob, 'createdAt' | 'runAt' | 'startedAt' | 'scheduledFor' | 'finishedAt'>;

/** A claim sets Bedrock's `nextRun` to the time at which the job would be given back, and keeps the earlier time. */
function readTimes(row: ExternalRow, state: JobState, isRepeating: boolean): Times {
  const createdAt = readNeededTime('created', row.created, readUtcClock);
  const runAt = readNeededTime('nextRun', row.nextRun, readUtcClock);
  const startedAt = readTime('lastRun', row.lastRun, readUtcClock);
  const scheduledAt = readTime('originalNextRun', row.originalNextRun, readUtcClock) ?? runAt;
  return {
    createdAt,
    runAt,
    startedAt,
    scheduledFor: isRepeating ? scheduledAt : null,
    finishedAt: isEnded(state) ? (startedAt ?? createdAt) : null,
  };
}

function readData(row: ExternalRow): string {
  const text = readUtf8('its data', row.data);
  if (Number(row.isObject) !== 1) throw invalidJob('its data is not a JSON object');
  return checkSize(text);
}

/** The tenth hand-out is the last one, in Bedrock as here. */
const MOST_HAND_OUTS = 10;

/** In Bedrock an error fails a job at once. So the job gets no tries of its own, only those of its handler. */
function readTries({ retryAfterCount }: ExternalRow) {
  const handOuts = Math.max(0, Math.trunc(Number(retryAfterCount ?? 0)) || 0);
  return { attempts: Math.min(handOuts, MOST_HAND_OUTS - 1), maxAttempts: null };
}

function readLease(retryAfter: string): Pick<GoodJob, 'leaseMs' | 'notes'> {
  const leaseMs = parseDurations(retryAfter);
  if (leaseMs !== null || retryAfter === '') return { leaseMs, notes: [] };
  const note = `retryAfter ${JSON.stringify(retryAfter)} is not a fixed time: the settings decide how long a claim is valid`;
  return { leaseMs, notes: [note] };
}

const unitMs: Readonly<Record<string, number>> = {
  SECOND: 1_000,
  MINUTE: 60_000,
  HOUR: 3_600_000,
  DAY: 86_400_000,
};

/**
 * The sum of `+1 HOUR, +30 MINUTES` in milliseconds. Null: empty, or not a fixed time, as with `+1 MONTH` and `START OF
 * DAY`.
 */
function parseDurations(text: string): number | null {
  const parts = text.toUpperCase().split(',');
  const durations = parts.map((part) => part.trim()).filter((part) => part !== '');
  const totalMs = durations.reduce((sum, each) => sum + durationOf(each), 0);
  return totalMs > 0 ? totalMs : null;
}

function durationOf(part: string): number {
  const [, sign, count, unit = ''] = /^([+-])(\d{1,8}) (\w+?)S?$/.exec(part) ?? [];
  return (sign === '-' ? -1 : 1) * Number(count) * (unitMs[unit] ?? Number.NaN);
}

/** A job that is a parent or a child, in Bedrock's state. */
interface Relative {
  readonly id: string;
  /** Null: it is not a child. */
  readonly parent: string | null;
  readonly created: string;
  readonly state: string;
  /** Whether it was made only for a test. */
  readonly isMocked: boolean;
}

interface Families {
  find(id: string): Relative | null;
  childrenOf(id: string): readonly Relative[];
}

const AT_WORK: readonly string[] = ['QUEUED', 'RUNNING', 'RUNQUEUED'];

const isUnfinished = (state: string): boolean => state === 'PAUSED' || AT_WORK.includes(state);

/** Few jobs have relatives, so these fit into memory. */
function readFamilies(rows: Iterable<ExternalRow>): Families {
  const relatives = Array.from(
    rows,
    ({ id, parent, created, state, isMocked }): Relative => ({
      id: textOf(id),
      parent: parent === null ? null : textOf(parent),
      created: textOf(created),
      state: textOf(state),
      isMocked: Number(isMocked) === 1,
    }),
  );
  const byId = new Map(relatives.map((relative) => [relative.id, relative]));
  const byParent = Map.groupBy(relatives, ({ parent }) => parent);
  return {
    find: (id) => byId.get(id) ?? null,
    childrenOf: (id) => byParent.get(id) ?? [],
  };
}

/**
 * Whether an ended job belongs to an unfinished one: as its child, whose end it must still learn of, or as its parent.
 */
function isOfUnfinishedFamily(families: Families, id: string): boolean {
  const { parent = null } = families.find(id) ?? {};
  const family = parent === null ? families.childrenOf(id) : [families.find(parent)];
  return family.some((relative) => relative !== null && isUnfinished(relative.state));
}

/** The state of a paused job after the import. */
interface PausedState {
  readonly state: JobState;
  readonly notes: readonly string[];
}

/**
 * Decides what a paused job waits for: a child for its parent's end, a parent for its children's end.
 *
 * @param bad numbers of jobs that cannot be imported
 * @throws {QueueError} if it would wait for ever
 */
function decidePaused(families: Families, id: string, bad: ReadonlySet<string>): PausedState {
  const { parent = null } = families.find(id) ?? {};
  if (parent !== null) return decidePausedChild(parent, families.find(parent)?.state ?? 'missing');
  const isWaiting = families
    .childrenOf(id)
    .some((child) => isUnfinished(child.state) && !child.isMocked && !bad.has(child.id));
  if (isWaiting) return { state: 'paused', notes: [] };
  return { state: 'queued', notes: ['PAUSED, but no child is left to wait for: queued'] };
}

function decidePausedChild(parent: string, state: string): PausedState {
  if (AT_WORK.includes(state)) return { state: 'paused', notes: [] };
  if (state === 'PAUSED') {
    return { state: 'queued', notes: ['PAUSED beside a parent that is PAUSED as well: queued'] };
  }
  throw invalidJob(`it is PAUSED until its parent ${parent} finishes, which is ${state}: nothing would ever queue it`);
}
