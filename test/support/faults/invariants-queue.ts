import type { ActivityEvent, JobState } from '../../../src/store/words.ts';
import { groupBy } from '../group-by.ts';
import type { LoggedJob, LoggedRun } from '../log/log-tables.ts';
import { type LogContent, listWrong } from './invariants-log.ts';

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
  return [...wrong, ...runs.flatMap((run) => checkRunLife(run, life))];
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
    ((event === 'job-finished' && job.repeat !== null) || (event === 'job-failed' && repeatsAfterFailure(job)));
  return repeats ? [...to, 'queued'] : to;
}

/** A rule in plain words says when, whatever became of the run before. */
function repeatsAfterFailure({ repeat }: LoggedJob): boolean {
  return /^(every|daily|weekly|monthly|yearly)\b/.test(repeat ?? '');
}

/** Begun once, and ended once: by whoever had the say. */
function checkRunLife(run: LoggedRun, life: readonly Told[]): string[] {
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
