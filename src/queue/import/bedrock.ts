import { parseRepeat } from '../../schedule/repeat/grammar/parse.ts';
import { fixedUnitMs } from '../../schedule/repeat/rule.ts';
import type { ExternalDatabase, ExternalRow } from '../../store/external/external-database.ts';
import { openBedrockRows } from '../../store/external/external-database.ts';
import { isEnded, type JobState } from '../../store/words.ts';
import { requireJobName } from '../add/values.ts';
import {
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

/** The jobs of a Bedrock::Jobs database. @throws {UsageError} if the file is not such a database */
export function readBedrock(database: ExternalDatabase, options: ImportOptions): ForeignQueue {
  const { table = 'jobs' } = options;
  const rows = openBedrockRows(database, table);
  const kinOf = readFamilies(rows.relatives());
  return {
    system: 'Bedrock',
    table,
    notes: [],
    *read(bad) {
      for (const row of rows.jobs()) yield orBad(row.jobID, () => readJob(row, kinOf(textOf(row.jobID)), options, bad));
    },
  };
}

/** @param bad numbers of jobs that cannot be imported */
function readJob(row: ExternalRow, kin: Kin, options: ImportOptions, bad: ReadonlySet<string>): ForeignJob {
  const id = textOf(row.jobID);
  const state = textOf(row.state);
  if (!isUnfinished(state)) {
    if (ended[state] === undefined) throw invalidJob(`its state ${JSON.stringify(state)} is not known`);
    // An unfinished parent must still learn of its child's end, and unfinished children need their parent.
    const family = kin.parentId === null ? kin.children : [kin.parent];
    const isNeeded = family.some((relative) => relative !== null && isUnfinished(relative.state));
    if (!options.withEnded && !isNeeded) return { leftOut: 'ended' };
  }
  if (row.mockRequest !== null || kin.parent?.isMocked) return { leftOut: 'mocked' };
  const here = decideState(state, kin, bad);
  const repeat = readRule(textOf(row.repeat));
  const lease = readLease(textOf(row.retryAfter));
  // A claim sets Bedrock's `nextRun` to the time at which the job would be given back, and keeps the earlier time.
  const created_at = readNeededTime('created', row.created, readUtcClock);
  const run_at = readNeededTime('nextRun', row.nextRun, readUtcClock);
  const started_at = readTime('lastRun', row.lastRun, readUtcClock);
  const scheduledAt = readTime('originalNextRun', row.originalNextRun, readUtcClock) ?? run_at;
  return {
    id,
    key: keyOf(id, textOf(row.created)),
    ...readFamily(row, kin, bad),
    notes: [...here.notes, ...repeat.notes, ...lease.notes],
    row: {
      name: requireJobName(row.name),
      state: here.state,
      data: readData(row),
      priority: row.priority === null ? 500 : readForeignNumber('its priority', row.priority),
      scheduled_for: repeat.rule === null ? null : scheduledAt,
      run_at,
      // In Bedrock an error fails a job at once. So the job gets no tries of its own, only those of its handler.
      retry: null,
      repeat: repeat.rule,
      missed_policy: options.missed,
      lease_ms: lease.leaseMs,
      created_at,
      started_at,
      finished_at: isEnded(here.state) ? (started_at ?? created_at) : null,
      attempts: readAttempts(row),
      reason: null,
    },
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

function readFamily(row: ExternalRow, { parentId, parent, children }: Kin, bad: ReadonlySet<string>) {
  const isParent = children.length > 0;
  if (parentId === null) return { isParent, parent: null, parentKey: null };
  if (parent === null) throw invalidJob(`its parent ${parentId} is not in the file`);
  if (parent.parent !== null) throw invalidJob(`its parent ${parentId} is a child itself`);
  if (bad.has(parentId)) throw invalidJob(`its parent ${parentId} cannot be imported`);
  if (textOf(row.repeat) !== '') throw invalidJob('it is a child and repeats: its parent would wait for ever');
  return { isParent, parent: parentId, parentKey: keyOf(parentId, parent.created) };
}

interface StateHere {
  readonly state: JobState;
  readonly notes: readonly string[];
}

const MAY_RUN_THERE = 'a worker of Bedrock may be running it: queued, and run here as well';

/** @throws {QueueError} if the job would wait for ever */
function decideState(state: string, { parentId, parent, children }: Kin, bad: ReadonlySet<string>): StateHere {
  const queued = (...notes: string[]): StateHere => ({ state: 'queued', notes });
  const paused: StateHere = { state: 'paused', notes: [] };
  const end = ended[state];
  if (end !== undefined) return { state: end, notes: [] };
  if (state === 'QUEUED') return queued();
  if (state !== 'PAUSED') return queued(`${state}, so ${MAY_RUN_THERE}`);
  // A child waits for its parent's end, a parent for its children's end.
  if (parentId === null) {
    const isWaiting = children.some((child) => isUnfinished(child.state) && !child.isMocked && !bad.has(child.id));
    return isWaiting ? paused : queued('PAUSED, but no child is left to wait for: queued');
  }
  const { state: ofParent } = parent ?? { state: 'missing' };
  if (AT_WORK.includes(ofParent)) return paused;
  if (ofParent === 'PAUSED') return queued('PAUSED beside a parent that is PAUSED as well: queued');
  const which = `it is PAUSED until its parent ${parentId} finishes, which is ${ofParent}`;
  throw invalidJob(`${which}: nothing would ever queue it`);
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

function readData(row: ExternalRow): string {
  const text = readUtf8('its data', row.data);
  if (Number(row.isObject) !== 1) throw invalidJob('its data is not a JSON object');
  return checkSize(text);
}

/** The tenth hand-out is the last one, in Bedrock as here. */
const MOST_HAND_OUTS = 10;

function readAttempts({ retryAfterCount }: ExternalRow): number {
  const handOuts = Math.max(0, Math.trunc(Number(retryAfterCount ?? 0)) || 0);
  return Math.min(handOuts, MOST_HAND_OUTS - 1);
}

function readLease(retryAfter: string): { readonly leaseMs: number | null; readonly notes: readonly string[] } {
  const leaseMs = parseFixedMs(retryAfter);
  if (leaseMs !== null || retryAfter === '') return { leaseMs, notes: [] };
  const note = `retryAfter ${JSON.stringify(retryAfter)} is not a fixed time: the settings decide how long a claim is valid`;
  return { leaseMs, notes: [note] };
}

/**
 * Milliseconds of `+1 HOUR, +30 MINUTES`. Null: empty, or not a fixed time, as with `+1 MONTH` and `START OF DAY`. Unlike
 * a rule's step it may have more than three digits: `+1440 MINUTES`.
 */
function parseFixedMs(text: string): number | null {
  const parts = text.split(',').map((part) => part.trim());
  const totalMs = parts.filter((part) => part !== '').reduce((sum, part) => sum + durationOf(part), 0);
  return totalMs > 0 ? totalMs : null;
}

function durationOf(part: string): number {
  const [, sign, count, unit = ''] = /^([+-])(\d{1,8}) (\w+?)s?$/i.exec(part) ?? [];
  const unitMs: Readonly<Record<string, number>> = fixedUnitMs;
  return (sign === '-' ? -1 : 1) * Number(count) * (unitMs[unit.toLowerCase()] ?? Number.NaN);
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

/** The relatives of one job. */
interface Kin {
  /** Null: it is not a child. */
  readonly parentId: string | null;
  /** Null: it is not a child, or its parent is not in the file. */
  readonly parent: Relative | null;
  readonly children: readonly Relative[];
}

const AT_WORK: readonly string[] = ['QUEUED', 'RUNNING', 'RUNQUEUED'];

const isUnfinished = (state: string): boolean => state === 'PAUSED' || AT_WORK.includes(state);

/** Few jobs have relatives, so these fit into memory. */
function readFamilies(rows: Iterable<ExternalRow>): (id: string) => Kin {
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
  return (id) => {
    const { parent: parentId = null } = byId.get(id) ?? {};
    const parent = parentId === null ? null : (byId.get(parentId) ?? null);
    return { parentId, parent, children: byParent.get(id) ?? [] };
  };
}
