import type { ActivityEvent, JobState } from '../../src/store/schema.ts';
import { groupBy } from './group-by.ts';
import { type LogContent, listWrong } from './invariants-log.ts';
import type { LoggedJob, LoggedRun } from './log-tables.ts';

const endStates: readonly string[] = ['finished', 'failed', 'cancelled'];
const anew = ['queued', 'paused'] as const;
const back = ['retrying', 'paused', 'queued'] as const;

type Step = readonly [from: readonly JobState[] | 'any', to: readonly JobState[] | 'same'];

/** What each transition leads from and to; the first one of a job comes from nowhere. */
const steps: Partial<Record<ActivityEvent, Step>> = {
  'job-queued': [['paused', 'finished'], ['queued']],
  'job-paused': [['running'], ['paused']],
  'job-running': [['queued', 'retrying'], ['running']],
  'job-retrying': [['running'], back],
  'job-released': [['running'], back],
  'job-finished': [['running'], ['finished']],
  'job-failed': [['running', 'queued', 'retrying', 'paused'], ['failed']],
  'job-buried': [['running', 'queued', 'retrying'], ['failed']],
  'job-cancelled': [['running', 'queued', 'retrying', 'paused', 'failed'], ['cancelled']],
  'job-kicked': [['failed', 'queued', 'retrying'], anew],
  'job-requeued': ['any', anew],
  'job-updated': ['any', 'same'],
  'job-lease-expired': [['running'], 'same'],
};

/** What holds for the jobs of the queue, their runs, their families and what is told of them. */
export function checkQueue(log: LogContent, isPruned: boolean): string[] {
  const runs = groupBy(log.runs, (run) => run.job_id);
  const lives = groupBy(log.activity, (row) => row.job_id ?? 0);
  const jobs = new Map(log.jobs.map((job) => [job.id, job]));
  const children = groupBy(log.jobs, ({ parent_id }) => parent_id ?? 0);
  const ofQueue = log.jobs.filter(({ tier }) => tier === null);
  return ofQueue.flatMap((job) => {
    const own = runs.get(job.id) ?? [];
    const life = lives.get(job.id) ?? [];
    const wrong = [
      ...checkRow(job, own),
      ...checkFamily(job, jobs.get(job.parent_id ?? 0) ?? null, children.get(job.id) ?? []),
      ...(isPruned ? [] : checkLife(job, own, life)),
    ];
    return wrong.map((each) => `job ${job.id} (${job.name}, ${job.state}): ${each}`);
  });
}

function checkRow(job: LoggedJob, runs: readonly LoggedRun[]): string[] {
  const isRunning = job.state === 'running';
  const running = runs.filter(({ outcome }) => outcome === 'running');
  const broken = runs.filter(
    ({ outcome, reason }) =>
      ['crashed', 'timed-out'].includes(outcome) && !reason?.includes('requeued'),
  );
  const last = runs.at(-1);
  return listWrong([
    [
      endStates.includes(job.state) === (job.finished_at !== null),
      'state and finished_at disagree',
    ],
    [isRunning === (job.claim_token !== null), 'state and claim disagree'],
    [isRunning === (job.leased_until !== null), 'state and lease disagree'],
    [running.length === (isRunning ? 1 : 0), `${running.length} runs are running`],
    [runs.length === job.reserves, `${runs.length} runs, but ${job.reserves} claims`],
    [job.attempts <= job.reserves, `${job.attempts} attempts of ${job.reserves} claims`],
    [
      broken.length === job.crashes + job.timeouts,
      `${broken.length} broken runs, but ${job.crashes} crashes and ${job.timeouts} timeouts`,
    ],
    [job.state !== 'finished' || last?.outcome === 'succeeded', `last run: ${last?.outcome}`],
  ]);
}

/** Nobody waits for what does not come, and no child is taken before its parent waits for it. */
function checkFamily(
  job: LoggedJob,
  parent: LoggedJob | null,
  children: readonly LoggedJob[],
): string[] {
  const { state, parent_id } = job;
  const waitsForChild = children.some(({ finished_at }) => finished_at === null);
  const waitsForParent = ['queued', 'retrying', 'running'].includes(parent?.state ?? '');
  const isTakeable = parent_id !== null && ['queued', 'retrying'].includes(state);
  return listWrong([
    [state !== 'paused' || waitsForParent || waitsForChild, 'nothing will ever resume it'],
    [!isTakeable || parent?.state === 'paused', `its parent is ${parent?.state}`],
    [state !== 'running' || parent?.state !== 'running', 'it runs beside its parent'],
  ]);
}

type Told = LogContent['activity'][number];

function checkLife(job: LoggedJob, runs: readonly LoggedRun[], life: readonly Told[]): string[] {
  const events = life.map(({ event }) => event);
  const count = (event: ActivityEvent) => events.filter((each) => each === event).length;
  return [
    ...followLife(job, events),
    ...listWrong([
      [count('job-running') === runs.length, `${runs.length} runs, told of as ${events}`],
      [count('job-released') === job.releases, `${job.releases} releases, told of as ${events}`],
      [count('job-buried') === job.buries, `${job.buries} buries, told of as ${events}`],
      [count('job-kicked') === job.kicks, `${job.kicks} kicks, told of as ${events}`],
    ]),
    ...runs.flatMap((run) => checkRunLife(run, life)),
  ];
}

function followLife(job: LoggedJob, events: readonly ActivityEvent[]): string[] {
  const [first, ...rest] = events;
  let states: readonly JobState[] = first === 'job-paused' ? ['paused'] : ['queued'];
  const isBegun = first === 'job-queued' || first === 'job-paused';
  const canBe = rest.every((event) => {
    const [from, to] = steps[event] ?? [[], []];
    const isFrom =
      from === 'any' ||
      states.some((state) => from.includes(state)) ||
      (event === 'job-queued' && states.includes('failed') && repeatsAfterFailure(job));
    if (to !== 'same') states = to;
    return isFrom;
  });
  const isRight = isBegun && canBe && states.includes(job.state);
  return isRight ? [] : [`told of as ${events.join(' ')}`];
}

/** A rule in plain words says when, whatever became of the run before. */
function repeatsAfterFailure({ repeat }: LoggedJob): boolean {
  return /^(every|daily|weekly|monthly|yearly)\b/.test(repeat ?? '');
}

/** Begun once, and ended once: by whoever had the say. */
function checkRunLife(run: LoggedRun, life: readonly Told[]): string[] {
  const events = life.filter(({ run_id }) => run_id === run.id).map(({ event }) => event);
  const [first, ...ends] = events;
  const isOpen = run.outcome === 'running' || run.reason?.includes('requeued') === true;
  const isBegun = first === 'job-running' && ends.length === (isOpen ? 0 : 1);
  const isRight = isBegun && ends.every((end) => isToldAs(run, end));
  return isRight ? [] : [`run ${run.id} (${run.outcome}) is told of as ${events.join(' ')}`];
}

/** A time limit counts also where the handler asked for another try then; a child may have lost its parent meanwhile. */
function isToldAs({ outcome }: LoggedRun, end: ActivityEvent): boolean {
  if (outcome === 'released') return end === 'job-released' || end === 'job-cancelled';
  return end !== 'job-released' || outcome === 'timed-out';
}
