import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import type { JobOptions } from '../../../src/queue/api.ts';
import { readRetry } from '../../../src/queue/settle/own-retry.ts';
import type { ActivityEvent } from '../../../src/store/words.ts';
import { cronPlace, type Started, startCommand } from '../command.ts';
import type { LoggedJob, LoggedRun } from '../engines/engine.ts';
import { queryLog } from '../log.ts';
import { executable, type FileContent } from '../root.ts';
import { groupBy, until } from '../until.ts';
import type { LogContent } from './log-content.ts';

/** What a handler does besides leaving evidence. */
export interface HandlerBehaviour {
  /** Its first comment: `@retries 1`. */
  readonly tags?: readonly string[];
  /** How long it works at least. */
  readonly lastsMs?: number;
  /**
   * JavaScript, before its end: `if (times < 2) retry()`. Known are `job`, with its parts as variables;
   * `times`, how often the job was started; `addChildren(2)`.
   */
  readonly does?: string;
}

/** Where handlers write down, out of any runner's reach, what they did. */
export const QUEUE_EVIDENCE = 'queue-evidence';
/** While this file is there, a handler whose worker has died goes on. */
export const HOLD = 'hold';

const library = new URL('../../../dist/index.mjs', import.meta.url).pathname;

/** A handler in JavaScript, to be kept warm unless it says `@isolate`. It returns the key of its run. */
export function nodeHandler({ tags = [], lastsMs = 0, does = '' }: HandlerBehaviour = {}): FileContent {
  return `/**
${tags.map((tag) => ` * ${tag}\n`).join('')} */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const root = process.env.RUNNER_ROOT;
const say = (text) => appendFileSync(\`\${root}/${QUEUE_EVIDENCE}\`, \`\${text}\\n\`);

function isAlive(pid) {
  try { return readFileSync(\`/proc/\${pid}/cmdline\`, 'utf8').includes('bin.cjs'); } catch { return false; }
}

async function hold(worker) {
  const isHeld = () => existsSync(\`\${root}/${HOLD}\`);
  // Who is being killed is still there for a while.
  for (let look = 0; look < 25 && isHeld() && isAlive(worker); look += 1) await sleep(20);
  while (isHeld() && !isAlive(worker)) await sleep(20);
}

export default async (job) => {
  const { id, attempt, children, data, retry, fail, update } = job;
  const run = process.env.RUNNER_RUN;
  say(\`started \${id} \${run} \${attempt}\`);
  const worker = process.ppid;
  const addChildren = async (count) => {
    const { openQueue } = await import('${library}');
    const queue = await openQueue({ root });
    for (let index = 0; index < count; index += 1) {
      await queue.add('child', { index }, { parent: id, uniqueKey: \`child:\${id}:\${index}\` });
    }
    await queue.close();
  };
  try {
    ${lastsMs > 0 ? `await sleep(${lastsMs});` : ''}
    await hold(worker);
    ${does.includes('times') ? `const times = readFileSync(\`\${root}/${QUEUE_EVIDENCE}\`, 'utf8').split(\`started \${id} \`).length - 1;` : ''}
    ${does}
  } catch (error) {
    say(\`ended \${id} \${run} failed\`);
    throw error;
  }
  say(\`ended \${id} \${run} done\`);
  return { run };
};
`;
}

/** The same as a program. What it does is its exit code, a shell expression over `attempt` and `times`. */
export function programHandler({
  tags = [],
  lastsMs = 0,
  exit = '0',
}: Omit<HandlerBehaviour, 'does'> & { readonly exit?: string } = {}): FileContent {
  return executable(`#!/bin/sh
${tags.map((tag) => `# ${tag}\n`).join('')}
cd "$RUNNER_ROOT"
attempt=$RUNNER_ATTEMPT
say() { echo "$1 $RUNNER_JOB $RUNNER_RUN $2" >> ${QUEUE_EVIDENCE}; }
say started "$attempt"
times=$(grep -c "^started $RUNNER_JOB " ${QUEUE_EVIDENCE})
${lastsMs > 0 ? `sleep ${lastsMs / 1000}` : ''}
[ ! -e ${HOLD} ] || sleep 0.1
while [ -e ${HOLD} ] && ! grep -q bin.cjs "/proc/$PPID/cmdline"; do sleep 0.02; done 2>/dev/null
code=$((${exit}))
[ "$code" = 0 ] && how=done || how=failed
say ended "$how"
echo "{\\"run\\":\\"$RUNNER_RUN\\"}"
exit "$code"
`);
}

/** A try of a job as its handler saw it. */
export interface SeenTry {
  readonly jobId: number;
  /** Its claim's token. */
  readonly key: string;
  readonly attempt: number;
  /** Null: it did not come to its end. */
  readonly end: 'done' | 'failed' | null;
  /** Where its first and its last line stand among all lines. */
  readonly from: number;
  readonly to: number | null;
}

/** What the handlers of a root say that has been done, in the order of their starts. */
export function readSeenTries(root: string): readonly SeenTry[] {
  const path = join(root, QUEUE_EVIDENCE);
  const lines = existsSync(path) ? readFileSync(path, 'utf8').trimEnd().split('\n') : [];
  const words = lines.map((line) => line.split(' '));
  const ends = new Map(words.flatMap(([what, , key, end], at) => (what === 'ended' ? [[key, { at, end }]] : [])));
  return words.flatMap(([what, jobId, key = '', attempt], from) => {
    if (what !== 'started') return [];
    const end = ends.get(key);
    return {
      jobId: Number(jobId),
      key,
      attempt: Number(attempt),
      end: (end?.end ?? null) as SeenTry['end'],
      from,
      to: end?.at ?? null,
    };
  });
}

/**
 * Compares what handlers did with what the log says: nothing is missing, nothing told as what it was
 * not, no run was executed twice.
 *
 * @param mayOverlap whether a job may have been given to somebody else while its handler went on
 */
export function checkSeenTries(seen: readonly SeenTry[], log: LogContent, mayOverlap: boolean): string[] {
  const runs = new Map(log.runs.map((run) => [run.key ?? '', run]));
  const jobs = new Map(log.jobs.map((job) => [job.id, job]));
  return [
    ...findDoubled(seen),
    ...seen.flatMap((each) => checkSeenTry(each, runs.get(each.key), isKept(jobs.get(each.jobId), each))),
    ...(mayOverlap ? [] : findOverlaps(seen)),
    ...findInventions(seen, log),
    ...checkFamilies(seen, log),
  ];
}

/** What has begun and is still claimed has no row yet. */
function isKept(job: LoggedJob | undefined, { key }: SeenTry): boolean {
  return job !== undefined && job.claim_token !== key;
}

function findDoubled(seen: readonly SeenTry[]): string[] {
  const keys = new Set<string>();
  return seen.flatMap(({ key, jobId }) => {
    if (!keys.has(key)) {
      keys.add(key);
      return [];
    }
    return [`run ${key} of job ${jobId} was executed twice`];
  });
}

function checkSeenTry(seen: SeenTry, run: LoggedRun | undefined, isWanted: boolean): string[] {
  const name = `job ${seen.jobId}, run ${seen.key}`;
  if (run === undefined) {
    return isWanted ? [`${name}: it started, and the log knows nothing of it`] : [];
  }
  if (run.job_id !== seen.jobId) return [`${name}: the log has it of job ${run.job_id}`];
  if (run.attempt !== seen.attempt) return [`${name}: attempt ${seen.attempt} is ${run.attempt}`];
  const isFalse =
    (run.outcome === 'succeeded' && seen.end !== 'done') || (run.outcome === 'failed' && seen.end === 'done');
  return isFalse ? [`${name}: it was ${seen.end}, and is told as ${run.outcome}`] : [];
}

/** By the order of the lines, which no clock changes. */
function findOverlaps(seen: readonly SeenTry[]): string[] {
  const last = new Map<number, SeenTry>();
  return seen.flatMap((each) => {
    const before = last.get(each.jobId);
    last.set(each.jobId, each);
    const overlaps = before !== undefined && before.to !== null && before.to > each.from;
    return overlaps ? [`job ${each.jobId}: run ${each.key} started while run ${before.key} ran`] : [];
  });
}

/** Only of handlers that leave evidence at all; whoever claims from outside leaves none. */
function findInventions(seen: readonly SeenTry[], { runs }: LogContent): string[] {
  const told = new Set(seen.map(({ key }) => key));
  const scripts = new Set(runs.filter(({ key }) => told.has(key ?? '')).map(({ script }) => script));
  const done = new Set(seen.filter(({ end }) => end === 'done').map(({ key }) => key));
  return runs.flatMap(({ id, key, script, outcome, tier, worker_id }) => {
    const isOurs = tier === 'queue' && worker_id !== null && scripts.has(script);
    const isInvented = isOurs && outcome === 'succeeded' && !done.has(key ?? '');
    return isInvented ? [`run ${id} (${script}) succeeded, and never came to its end`] : [];
  });
}

/** Children are worked off between two runs of their parent, and not while one of these goes on. */
function checkFamilies(seen: readonly SeenTry[], { jobs, runs }: LogContent): string[] {
  const outside = new Set(runs.flatMap((run) => (run.worker_id === null ? [run.job_id] : [])));
  const parents = new Map(
    jobs.flatMap(({ id, parent_id }: LoggedJob) => (parent_id === null ? [] : [[id, parent_id]])),
  );
  const ofJob = groupBy(seen, ({ jobId }) => jobId);
  return seen.flatMap(({ jobId, key, from, to }) => {
    const parentId = parents.get(jobId);
    // Who is no worker of the runner has left no evidence of the parent's runs.
    if (parentId === undefined || outside.has(parentId)) return [];
    const tries = ofJob.get(parentId) ?? [];
    const hasPaused = tries.some((each) => each.end === 'done' && (each.to as number) < from);
    const meets = tries.some((each) => each.from > from && to !== null && each.from < to);
    return [
      ...(hasPaused ? [] : [`job ${jobId}: run ${key} started before its parent had paused`]),
      ...(meets ? [`job ${jobId}: its parent went on while run ${key} ran`] : []),
    ];
  });
}

/** Loaded hosts take their time. */
export const WITHIN_MS = 90_000;

/** JavaScript of a handler: it waits for the file `go`, in its first try. */
export const UNTIL_GO = 'while (attempt < 2 && !existsSync(root + "/go")) await sleep(10);';
/** The same in a shell: as what its exit code is made of. */
export const UNTIL_GO_IN_SHELL = '$(while [ "$attempt" -lt 2 ] && [ ! -e go ]; do sleep 0.01; done; echo 0)';

/** Lets the handlers that wait for it go on. */
export function letGo(root: string): void {
  writeFileSync(join(root, 'go'), '');
}

/** Waits for jobs until it is told to end. */
export function startWaiting(root: string, ...options: readonly string[]): Started {
  return startCommand(['--root', root, 'work', '--wait', '10m', ...options], cronPlace(root));
}

/** They have nothing to tell. */
export async function endInPeace(root: string, ...workers: readonly Started[]): Promise<void> {
  // One that has not begun yet is ended by the signal itself.
  const listPids = () => queryLog<{ pid: number }>(root, 'select pid from workers').map((row) => row.pid);
  const areAtWork = () => workers.every(({ pid }) => listPids().includes(pid));
  await until('all of them have begun', areAtWork, WITHIN_MS);
  for (const worker of workers) worker.kill('SIGTERM');
  const ended = await Promise.all(workers.map((worker) => worker.ended));
  expect(ended).toEqual(workers.map(() => ({ status: 0, stdout: '', stderr: '' })));
}

export async function addJob(root: string, name: string, options: JobOptions = {}): Promise<number> {
  const queue = await openQueue({ root });
  const id = await queue.add(name, {}, options);
  await queue.close();
  return id;
}

export function readJobRow(root: string, id: number): LoggedJob {
  return queryLog<LoggedJob>(root, 'select * from jobs where id = ?', id)[0] as LoggedJob;
}

/** How often it was had, and what became of that. */
export function readTries(root: string, id: number) {
  const { state, attempts } = readJobRow(root, id);
  const outcomes = readJobRuns(root, id).map(({ outcome }) => outcome);
  const lost = "select id from events where job_id = ? and event = 'job-lease-expired'";
  return { state, attempts, outcomes, lostLeases: queryLog(root, lost, id).length };
}

export function readJobRuns(root: string, id: number): LoggedRun[] {
  return queryLog<LoggedRun>(root, 'select * from runs where job_id = ? order by id', id);
}

export async function untilStarted(root: string, id: number, tries = 1): Promise<void> {
  const hasStarted = () => readSeenTries(root).filter(({ jobId }) => jobId === id).length >= tries;
  await until(`try ${tries} of job ${id} has started`, hasStarted, WITHIN_MS);
}

export async function untilState(root: string, id: number, state: string): Promise<void> {
  await until(`job ${id} is ${state}`, () => readJobRow(root, id).state === state, WITHIN_MS);
}

/** A job that waits, at a moment of the log. */
interface Waiting {
  readonly id: number;
  readonly priority: number;
  readonly runAt: number;
}

const putsBack: readonly ActivityEvent[] = ['job-queued', 'job-retrying'];

/**
 * Goes through all that was told of in the order of its transactions: whenever a job began, it was the first one
 * of those that were due, by priority, then due time, then number. For jobs that were added to be run at once,
 * and whose handler has one retry delay.
 *
 * @param ahead how many others may have claimed ahead and not begun: as many may stand before a job that begins
 * @returns which jobs began out of their turn
 */
export function findOutOfTurn({ jobs, activity }: LogContent, ahead = 0): string[] {
  const rows = new Map(jobs.map((job) => [job.id, job]));
  const waiting: Waiting[] = [];
  return activity.flatMap(({ event, job_id, at }) => {
    const job = rows.get(job_id ?? 0);
    if (job === undefined) return [];
    if (putsBack.includes(event)) insert(waiting, toWaiting(job, event, at));
    if (event !== 'run-started') return [];
    const index = waiting.findIndex(({ id }) => id === job.id);
    const before = waiting.slice(0, Math.max(index, 0)).filter(({ runAt }) => runAt <= at);
    if (index >= 0) waiting.splice(index, 1);
    return index >= 0 && before.length <= ahead
      ? []
      : [`job ${job.id} began before job ${before[0]?.id}, the first of ${before.length}`];
  });
}

function toWaiting(job: LoggedJob, event: ActivityEvent, at: number): Waiting {
  const runAt = event === 'job-retrying' ? at + retryDelayMs(job) : job.created_at;
  return { id: job.id, priority: job.priority, runAt };
}

/** Mostly what is put in is the last one, or nearly the first. */
function insert(waiting: Waiting[], job: Waiting): void {
  let [from, to] = [0, waiting.length];
  while (from < to) {
    const middle = Math.floor((from + to) / 2);
    if (compareTurns(waiting[middle] as Waiting, job) < 0) from = middle + 1;
    else to = middle;
  }
  waiting.splice(from, 0, job);
}

function compareTurns(one: Waiting, other: Waiting): number {
  return other.priority - one.priority || one.runAt - other.runAt || one.id - other.id;
}

function retryDelayMs({ retry }: LoggedJob): number {
  return retry === null ? 0 : (readRetry(retry).delay?.firstMs ?? 0);
}
