import type { ForeignRow } from '../../store/foreign-database.ts';
import type { JobState } from '../../store/schema.ts';
import { readJobName } from '../job-values.ts';
import {
  type Families,
  isOfUnfinishedFamily,
  isUnfinished,
  judgePaused,
} from './bedrock-families.ts';
import type { ImportedJob, ImportOptions, Reading } from './imported-job.ts';
import { leaseOfRetryAfter } from './lease-of-retry-after.ts';
import { readBedrockRule } from './read-bedrock-rule.ts';
import { ofUtc, readNeededTime, readTime } from './read-time.ts';
import { checkSize, readUtf8, readWholeNumber, textOf, wrong } from './read-values.ts';

export interface BedrockQueue {
  readonly families: Families;
  readonly options: ImportOptions;
  readonly bad: ReadonlySet<string>;
}

/** @throws {QueueError} that says why it cannot be taken over */
export function convertBedrockJob(row: ForeignRow, queue: BedrockQueue): Reading {
  const id = textOf(row.jobID);
  const state = textOf(row.state);
  if (!isUnfinished(state) && !isWanted(id, state, queue)) return { leftOut: 'ended' };
  if (row.mockRequest !== null) return { leftOut: 'mocked' };
  const parent = queue.families.find(id)?.parent ?? null;
  if (parent !== null) checkParent(parent, row, queue);
  const fate = judgeState(id, state, queue);
  const repeat = readBedrockRule(textOf(row.repeat));
  const lease = readLease(textOf(row.retryAfter));
  return {
    id,
    parent,
    state: fate.state,
    ...readIdentity(id, row),
    ...readTimes(row, fate.state, repeat.rule !== null),
    data: readData(row),
    priority: row.priority === null ? 500 : readWholeNumber('its priority', row.priority),
    ...readTries(row),
    repeat: repeat.rule,
    missed: queue.options.missed,
    leaseMs: lease.leaseMs,
    reason: null,
    notes: [...fate.notes, ...repeat.notes, ...lease.notes],
  };
}

const ended: Readonly<Record<string, JobState>> = {
  FINISHED: 'finished',
  FAILED: 'failed',
  CANCELLED: 'cancelled',
};

function isWanted(id: string, state: string, { families, options }: BedrockQueue): boolean {
  if (ended[state] === undefined)
    throw wrong(`its state is ${JSON.stringify(state)}, which is none`);
  return options.withEnded || isOfUnfinishedFamily(families, id);
}

function checkParent(parent: string, row: ForeignRow, { families, bad }: BedrockQueue): void {
  const found = families.find(parent);
  if (found === null) throw wrong(`its parent ${parent} is not in the file`);
  if (found.parent !== null) throw wrong(`its parent ${parent} is a child itself`);
  if (bad.has(parent)) throw wrong(`its parent ${parent} cannot be taken over`);
  if (textOf(row.repeat) === '') return;
  throw wrong('it is a child and repeats: its parent would wait for ever');
}

interface Fate {
  readonly state: JobState;
  readonly notes: readonly string[];
}

function judgeState(id: string, state: string, { families, bad }: BedrockQueue): Fate {
  const end = ended[state];
  if (end !== undefined) return { state: end, notes: [] };
  if (state === 'QUEUED') return { state: 'queued', notes: [] };
  if (state !== 'PAUSED') return { state: 'queued', notes: [`${state}, so that ${atWork}`] };
  const verdict = judgePaused(families, id, (other) => bad.has(other));
  if ('problem' in verdict) throw wrong(verdict.problem);
  return { state: verdict.state, notes: verdict.note === undefined ? [] : [verdict.note] };
}

const atWork = 'a worker of Bedrock may be at it: queued, and run here as well';

/** Without its creation, 1 of one database would be taken for 1 of another. */
function readIdentity(id: string, row: ForeignRow): Pick<ImportedJob, 'key' | 'name'> {
  const key = `import:bedrock:${id}@${textOf(row.created)}`;
  return { key, name: readJobName(row.name) };
}

type Times = Pick<ImportedJob, 'createdAt' | 'runAt' | 'startedAt' | 'scheduledFor' | 'finishedAt'>;

/** A claim moves Bedrock's `nextRun` to when it would be given back; it notes the time before. */
function readTimes(row: ForeignRow, state: JobState, isRepeating: boolean): Times {
  const createdAt = readNeededTime('created', row.created, ofUtc);
  const runAt = readNeededTime('nextRun', row.nextRun, ofUtc);
  const startedAt = readTime('lastRun', row.lastRun, ofUtc);
  const scheduledAt = readTime('originalNextRun', row.originalNextRun, ofUtc) ?? runAt;
  const isEnded = ['finished', 'failed', 'cancelled'].includes(state);
  return {
    createdAt,
    runAt,
    startedAt,
    scheduledFor: isRepeating ? scheduledAt : null,
    finishedAt: isEnded ? (startedAt ?? createdAt) : null,
  };
}

function readData(row: ForeignRow): string {
  const text = readUtf8('its data', row.data);
  if (Number(row.isObject) !== 1) throw wrong('its data is no JSON object');
  return checkSize(text);
}

/** The tenth hand-out is the last one, there as here. */
const MOST_HAND_OUTS = 10;

/** What throws there has failed at once: no tries of its own, only those that its handler gives. */
function readTries({ retryAfterCount }: ForeignRow) {
  const reserves = Math.max(0, Math.trunc(Number(retryAfterCount ?? 0)) || 0);
  return { attempts: Math.min(reserves, MOST_HAND_OUTS - 1), reserves, maxAttempts: null };
}

function readLease(retryAfter: string): Pick<ImportedJob, 'leaseMs' | 'notes'> {
  if (retryAfter === '') return { leaseMs: null, notes: [] };
  const leaseMs = leaseOfRetryAfter(retryAfter);
  if (leaseMs !== null) return { leaseMs, notes: [] };
  const note = `retryAfter ${JSON.stringify(retryAfter)} is no fixed time: a claim holds as long as the settings say`;
  return { leaseMs, notes: [note] };
}
