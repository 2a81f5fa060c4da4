import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { ActivityEvent, JobState } from '../../../src/store/words.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import type { LoggedJob, LoggedRun, LoggedWorker } from '../engines/engine.ts';
import { executable, type FileContent } from '../root.ts';
import { groupBy } from '../until.ts';
import {
  checkFiles,
  checkJobs,
  checkRunning,
  checkRuns,
  checkWorkers,
  type LogContent,
  listRunProcesses,
  listWrong,
  readLog,
} from './log-content.ts';
import { checkSeenTries, readSeenTries } from './queue.ts';

const lifeOfWorker: Readonly<Record<string, string>> = {
  running: 'worker-started',
  skipped: 'worker-skipped',
  finished: 'worker-started worker-finished',
  crashed: 'worker-started worker-crashed',
};

/** Each transition is told once, and up to the state that the row has; in which order is a matter of instants. */
export function checkActivity(log: LogContent): string[] {
  return [
    ...log.workers.flatMap((worker) => checkWorkerLife(worker, log)),
    ...log.runs.flatMap((run) => checkRunLife(run, log)),
  ];
}

function checkWorkerLife({ id, tier, state }: LoggedWorker, { activity }: LogContent): string[] {
  const life = activity
    .filter(({ event, worker_id }) => worker_id === id && event.startsWith('worker-'))
    .map(({ event }) => event)
    .toSorted()
    .reverse()
    .join(' ');
  return life === lifeOfWorker[state] ? [] : [`worker ${id} (${tier}, ${state}): told as ${life}`];
}

function checkRunLife({ id, outcome, left_job }: LoggedRun, { activity }: LogContent): string[] {
  const life = activity.filter(({ run_id }) => run_id === id).map(({ event }) => event);
  const isReleased = outcome === 'released' && left_job !== 'cancelled';
  const end = isReleased ? 'job-released' : `job-${left_job ?? 'finished'}`;
  const expected = outcome === 'running' ? ['run-started'] : ['run-started', end];
  return life.toSorted().join() === expected.toSorted().join() ? [] : [`run ${id} (${outcome}): told as ${life}`];
}

/*
 * A zombie has no command line, and who has lost its parent gets another one: that is how a script
 * here knows that its runner is dead. It looks for half a second: a process that is being killed is
 * still there for a while where the processors have much to do.
 */

const LOOKS = 25;

/** What a script does besides leaving evidence. */
export interface Behaviour {
  /** Its first comment: `@retries 1`. */
  readonly tags?: readonly string[];
  /** How long it works at least. */
  readonly lastsMs?: number;
  /** Its exit code as a shell or JavaScript expression; `attempt` is known to both. */
  readonly exit?: string;
}

const EVIDENCE = 'evidence';
/** While this file is there, a script whose runner has died goes on. */
export const HOLD = 'hold';

/**
 * A script that writes down, where no runner has a say, that it started and that it ended. Whoever
 * killed its runner decides by the file `hold` how long it outlives it.
 */
export function shellScript({ tags = [], lastsMs = 0, exit = '0' }: Behaviour = {}): FileContent {
  return executable(`#!/bin/sh
${tags.map((tag) => `# ${tag}\n`).join('')}
cd "$RUNNER_ROOT"
attempt=$RUNNER_ATTEMPT
say() { echo "$1 $RUNNER_SCRIPT $RUNNER_RUN $2" >> ${EVIDENCE}; }
say started "$attempt"
sleep ${lastsMs / 1000}
look=0
lives() { grep -q bin.cjs "/proc/$PPID/cmdline" 2>/dev/null; }
while [ -e ${HOLD} ] && [ $look -lt ${LOOKS} ] && lives; do look=$((look + 1)); sleep 0.02; done
while [ -e ${HOLD} ] && ! lives; do sleep 0.02; done
code=$((${exit}))
say ended "$code"
exit "$code"
`);
}

/** The same in JavaScript: of its end its probe tells, too. */
export function nodeScript({ tags = [], lastsMs = 0, exit = '0' }: Behaviour = {}): FileContent {
  return `/**
${tags.map((tag) => ` * ${tag}\n`).join('')} */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
const { RUNNER_SCRIPT, RUNNER_RUN, RUNNER_ATTEMPT } = process.env;
const attempt = Number(RUNNER_ATTEMPT);
const runner = process.ppid;
const isRunnerAlive = () => {
  try { return readFileSync(\`/proc/\${runner}/cmdline\`, 'utf8').includes('bin.cjs'); } catch { return false; }
};
const say = (what, more) => appendFileSync('${EVIDENCE}', \`\${what} \${RUNNER_SCRIPT} \${RUNNER_RUN} \${more}\\n\`);
say('started', attempt);
await sleep(${lastsMs});
for (let look = 0; look < ${LOOKS} && existsSync('${HOLD}') && isRunnerAlive(); look += 1) await sleep(20);
while (existsSync('${HOLD}') && !isRunnerAlive()) await sleep(20);
const code = Number(${exit});
say('ended', code);
process.exitCode = code;
`;
}

/** A run as its script saw it. */
export interface SeenRun {
  readonly script: string;
  /** As the script was told: its claim's token, else the id that it has in the spool. */
  readonly key: string;
  readonly attempt: number;
  /** Null: it did not come to its end. */
  readonly exitCode: number | null;
  /** Where its first and its last line stand among all lines. */
  readonly from: number;
  readonly to: number | null;
}

/** For tests that take the log away: what it cannot know any more has not been. */
export function forget(root: string): void {
  rmSync(join(root, EVIDENCE), { force: true });
}

/** What the scripts of a root say that has been done, in the order of their starts. */
export function readEvidence(root: string): readonly SeenRun[] {
  const path = join(root, EVIDENCE);
  const lines = existsSync(path) ? readFileSync(path, 'utf8').trimEnd().split('\n') : [];
  const words = lines.map((line) => line.split(' '));
  return words.flatMap(([what, script = '', key = '', more = ''], from) => {
    if (what !== 'started') return [];
    const to = words.findIndex((end) => end[0] === 'ended' && end[2] === key && end[1] === script);
    return {
      script,
      key,
      attempt: Number(more),
      exitCode: to < 0 ? null : Number(words[to]?.[3]),
      from,
      to: to < 0 ? null : to,
    };
  });
}

/**
 * Compares what scripts did with what the log says: nothing is missing, nothing counted twice, nothing
 * told as what it was not.
 */
export function checkEvidence(seen: readonly SeenRun[], log: LogContent): string[] {
  return [...seen.flatMap((run) => checkSeen(run, log)), ...findOverlaps(seen), ...findInventions(seen, log)];
}

function checkSeen(run: SeenRun, { runs }: LogContent): string[] {
  const name = `${run.script}, run ${run.key}`;
  const rows = runs.filter((row) => isSame(row, run));
  const [row] = rows;
  if (row === undefined) return [`${name}: it started, and the log knows nothing of it`];
  if (rows.length > 1) return [`${name}: it is ${rows.length} times in the log`];
  if (row.attempt !== run.attempt) return [`${name}: attempt ${run.attempt} is told as ${row.attempt}`];
  const toldCode = row.exit_code;
  const isFalse = run.exitCode !== null && toldCode !== null && toldCode !== run.exitCode;
  return isFalse ? [`${name}: exit code ${run.exitCode} is told as ${toldCode}`] : [];
}

/** A run that was replayed from the spool keeps the name that its script knew it by. */
function isSame(row: LoggedRun, run: SeenRun): boolean {
  return row.script === run.script && [row.key, row.spool_id].includes(run.key);
}

/** By the order of the lines, which no clock changes: a run that ended after the next one started. */
function findOverlaps(seen: readonly SeenRun[]): string[] {
  return seen.flatMap((run) => {
    const next = seen.find((other) => other.script === run.script && other.from > run.from);
    const overlaps = next !== undefined && run.to !== null && run.to > next.from;
    return overlaps ? [`${run.script}: run ${next.key} started while run ${run.key} ran`] : [];
  });
}

/** Only of scripts that leave evidence at all. */
function findInventions(seen: readonly SeenRun[], { runs }: LogContent): string[] {
  const scripts = new Set(seen.map(({ script }) => script));
  const ended = runs.filter(({ script, exit_code }) => scripts.has(script) && exit_code !== null);
  return ended.flatMap((row) => {
    const isSeen = seen.some((run) => isSame(row, run) && run.exitCode !== null);
    return isSeen ? [] : [`run ${row.id} (${row.script}, ${row.outcome}): it never came to its end`];
  });
}

const endStates: readonly string[] = ['finished', 'failed', 'cancelled'];
const anew = ['queued', 'paused'] as const;
const back = ['retrying', 'paused', 'queued'] as const;
const waiting = ['queued', 'retrying'] as const;
const open = ['queued', 'retrying', 'running', 'paused'] as const;

type Step = readonly [from: readonly JobState[] | 'any', to: readonly JobState[] | 'same'];

/** What each transition leads from and to; the first one of a job comes from nowhere. */
const steps: Partial<Record<ActivityEvent, Step>> = {
  'job-queued': [['paused'], ['queued']],
  'job-paused': [['running'], ['paused']],
  'run-started': [waiting, ['running']],
  'job-retrying': [['running'], back],
  'job-released': [['running'], back],
  'job-finished': [['running'], ['finished']],
  'job-failed': [open, ['failed']],
  // Its run has failed, too.
  'job-buried': [[...open, 'failed'], ['failed']],
  'job-cancelled': [[...open, 'failed'], ['cancelled']],
  'job-kicked': [['failed', ...waiting], anew],
  'job-requeued': ['any', anew],
  'job-updated': ['any', 'same'],
  'job-added': ['any', 'same'],
  'job-claimed': ['any', 'same'],
  'job-ended': ['any', 'same'],
  'job-lease-expired': [['running', ...waiting], 'same'],
};

/**
 * What holds for the jobs of the queue, their runs, their families and what is told of them.
 *
 * @param isSettled no worker has still to end the process of a job that somebody else moved on
 */
export function checkQueue(log: LogContent, isPruned: boolean, isSettled: boolean): string[] {
  const runs = groupBy(log.runs, (run) => run.job_id);
  const lives = groupBy(log.activity, (row) => row.job_id ?? 0);
  const jobs = new Map(log.jobs.map((job) => [job.id, job]));
  const children = groupBy(log.jobs, ({ parent_id }) => parent_id ?? 0);
  const ofQueue = log.jobs.filter(({ tier }) => tier === null);
  return ofQueue.flatMap((job) => {
    const own = runs.get(job.id) ?? [];
    const life = lives.get(job.id) ?? [];
    const wrong = [
      ...checkRow(job, own, isSettled),
      ...checkFamily(job, jobs.get(job.parent_id ?? 0) ?? null, children.get(job.id) ?? []),
      ...(isPruned ? [] : checkLife(job, own, life)),
    ];
    return wrong.map((each) => `job ${job.id} (${job.name}, ${job.state}): ${each}`);
  });
}

function checkRow(job: LoggedJob, runs: readonly LoggedRun[], isSettled: boolean): string[] {
  const isHeld = job.state === 'running' || job.state === 'claimed';
  const waits = job.state === 'queued' || job.state === 'retrying';
  const running = runs.filter(({ outcome }) => outcome === 'running');
  const keys = runs.flatMap(({ key }) => key ?? []);
  const last = runs.at(-1);
  return listWrong([
    [endStates.includes(job.state) === (job.finished_at !== null), 'state and finished_at disagree'],
    [isHeld ? job.claim_token !== null : !isSettled || job.claim_token === null, 'state and claim disagree'],
    [isHeld === (job.lease_expires_at !== null), 'state and lease disagree'],
    [waits === (job.ready !== null), 'state and index disagree'],
    [running.length === (job.state === 'running' ? 1 : 0), `${running.length} runs are running`],
    [job.attempts <= runs.length, `${job.attempts} attempts in ${runs.length} runs`],
    [new Set(keys).size === keys.length, `claims that ended twice: ${keys}`],
    [job.state !== 'finished' || last?.outcome === 'succeeded', `last run: ${last?.outcome}`],
  ]);
}

/** Nobody waits for what does not come, and no child is taken before its parent waits for it. */
function checkFamily(job: LoggedJob, parent: LoggedJob | null, children: readonly LoggedJob[]): string[] {
  const { state, parent_id } = job;
  const waitsForChild = children.some(({ finished_at }) => finished_at === null);
  const waitsForParent = ['queued', 'retrying', 'claimed', 'running'].includes(parent?.state ?? '');
  const isTakeable = parent_id !== null && ['queued', 'retrying'].includes(state);
  return listWrong([
    [state !== 'paused' || waitsForParent || waitsForChild, 'nothing will ever resume it'],
    [!isTakeable || parent?.state === 'paused', `its parent is ${parent?.state}`],
    [state !== 'running' || parent?.state !== 'running', 'it runs beside its parent'],
  ]);
}

type Told = LogContent['activity'][number];

function checkLife(job: LoggedJob, runs: readonly LoggedRun[], life: readonly Told[]): string[] {
  const told = life.map(({ event }) => event).join(' ');
  const wrong = canHaveBeen(job, life) ? [] : [`told of as ${told}`];
  return [...wrong, ...runs.flatMap((run) => checkQueuedRunLife(run, life))];
}

/** Whether its transitions lead up to its state: in the order of their instants, those of one instant in any. */
function canHaveBeen(job: LoggedJob, life: readonly Told[]): boolean {
  // What was claimed and given back waits as one that was tried, or was not, whichever it was before.
  const isWaiting = ['queued', 'retrying', 'claimed'].includes(job.state);
  const ends: readonly JobState[] = isWaiting ? waiting : [job.state];
  const tried = new Set<string>();
  const follow = (state: JobState, left: readonly Told[]): boolean => {
    if (left.length === 0) return ends.includes(state);
    const key = `${state} ${left.map(({ event }) => event).sort()}`;
    if (tried.has(key)) return false;
    tried.add(key);
    const now = left.filter(({ at }) => at === left[0]?.at);
    return now.some((told) => {
      const rest = left.filter((each) => each !== told);
      return statesAfter(job, state, told).some((next) => follow(next, rest));
    });
  };
  const [first, ...rest] = life;
  return first?.event === 'job-queued' && anew.some((state) => follow(state, rest));
}

function statesAfter(job: LoggedJob, state: JobState, { event, run_id }: Told): readonly JobState[] {
  const [from, to] = steps[event] ?? [[], []];
  if (from !== 'any' && !from.includes(state)) return [];
  if (to === 'same') return [state];
  const repeats =
    run_id !== null &&
    ((event === 'job-finished' && job.repeat !== null) || (/failed|cancelled/.test(event) && repeatsAfterFailure(job)));
  return repeats ? [...to, 'queued'] : to;
}

/** A rule in plain words says when, whatever became of the run before. */
function repeatsAfterFailure({ repeat }: LoggedJob): boolean {
  return /^(every|daily|weekly|monthly|yearly)\b/.test(repeat ?? '');
}

/** Begun once, and ended once: by whoever had the say. */
function checkQueuedRunLife(run: LoggedRun, life: readonly Told[]): string[] {
  const events = life.filter(({ run_id }) => run_id === run.id).map(({ event }) => event);
  const [first, ...ends] = events;
  const isOpen = run.outcome === 'running';
  const isBegun = first === 'run-started' && ends.length === (isOpen ? 0 : 1);
  const isRight = isBegun && ends.every((end) => isToldAs(run, end));
  return isRight ? [] : [`run ${run.id} (${run.outcome}) is told of as ${events.join(' ')}`];
}

/** A time limit counts also where the handler asked for another try then; a child may have lost its parent meanwhile. */
function isToldAs({ outcome }: LoggedRun, end: ActivityEvent): boolean {
  if (outcome === 'released') return end === 'job-released' || end === 'job-cancelled';
  return end !== 'job-released' || outcome === 'timed-out';
}

/** What the test itself has done that some invariants do not survive. */
export interface Circumstances {
  /** A pass has looked since anything died, and nothing runs any more. True unless said otherwise. */
  readonly isSettled?: boolean;
  /** The clock was set, so instants prove nothing. */
  readonly hasClockMoved?: boolean;
  /** Old rows were deleted, so what the log does not know may have been. */
  readonly isPruned?: boolean;
  /** A lease ran out while its holder lived, so that a job was given to somebody else meanwhile. */
  readonly mayOverlap?: boolean;
}

/**
 * Proves from the log, the file system, the process table and from what the scripts themselves have
 * left that nothing is lost, counted twice or told as what it was not:
 *
 * - every job has one final state, or is open for a reason: waiting for its turn or its next try, or
 *   running in a process that lives
 * - every run has one outcome and one job; there are as many as there were attempts, and no more than
 *   allowed; no two of one script overlap
 * - every job of the queue has had a life that can be, each claim of it ended once, and what waits for
 *   a parent or a child will be resumed
 * - every start and every end that a script or a handler has written down itself is in the log, once, as it was
 *   (for those of `invariants-evidence.ts` and `queue-handlers.ts`)
 * - every transition was told once, in an order that can be
 * - no process, no lock, no file is left of what has ended
 * - the database file is sound
 */
export function checkInvariants(root: string, circumstances: Circumstances = {}): void {
  expect(findViolations(root, circumstances)).toEqual([]);
}

/** The same as a list, for tests that look at many roots. */
export function findViolations(
  root: string,
  { isSettled = true, hasClockMoved = false, isPruned = false, mayOverlap = false }: Circumstances = {},
): string[] {
  const log = readTransitions(root);
  const processes = listRunProcesses(root);
  const evidence = readEvidence(root);
  const ofState = isSettled ? checkSettled(root, log, processes) : [];
  if (log === null) {
    return [...ofState, ...evidence.map(({ script }) => `${script} ran, and there is no log`)];
  }
  return [
    ...log.damage,
    ...checkJobs(log),
    ...checkRuns(log, hasClockMoved),
    ...checkWorkers(log, isSettled),
    // What happened is told in the order of its instants.
    ...checkQueue(log, isPruned || hasClockMoved, isSettled),
    ...checkSeenTries(readSeenTries(root), log, mayOverlap),
    ...(isPruned ? [] : [...checkActivity(log), ...checkEvidence(evidence, log)]),
    ...ofState,
  ];
}

/** That somebody has asked for the end of a run changes nothing yet. */
function readTransitions(root: string): LogContent | null {
  const log = readLog(root);
  return log && { ...log, activity: log.activity.filter(({ event }) => event !== 'run-stop-requested') };
}

function checkSettled(
  root: string,
  log: ReturnType<typeof readLog>,
  processes: ReturnType<typeof listRunProcesses>,
): string[] {
  return [
    ...(log === null && existsSync(stateFolderOf(root).database) ? ['the log cannot be read'] : []),
    ...processes.map(({ pid, script }) => `process ${pid} of ${script} still runs`),
    ...(log === null ? [] : checkRunning(log, processes)),
    ...checkFiles(root, log),
  ];
}
