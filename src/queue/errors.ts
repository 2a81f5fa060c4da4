import type { JobState } from '../store/words.ts';

/**
 * `invalid`: a wrong argument. `no-such-job`. `wrong-state`: the job's state does not allow the call. `stale-claim`:
 * the claim is over, and another worker or nobody has the job. `deadline-soon`: a claim is about to expire.
 */
export type QueueErrorCode = 'invalid' | 'no-such-job' | 'wrong-state' | 'stale-claim' | 'deadline-soon';

/** Wrong use of the queue, described in one sentence. */
export class QueueError extends Error {
  override readonly name = 'QueueError';
  readonly code: QueueErrorCode;
  /** The option whose value is wrong: `runAt`; null: it is none, or several. */
  readonly field: string | null;
  /** The place in the list of the job that is wrong, from 0 on, of which `cause` tells alone; null: there is no list. */
  readonly index: number | null;

  constructor(code: QueueErrorCode, message: string, { field = null, index = null, ...options }: QueueErrorParts = {}) {
    super(message, options);
    this.code = code;
    this.field = field;
    this.index = index;
  }
}

interface QueueErrorParts extends ErrorOptions {
  readonly field?: string | null;
  readonly index?: number | null;
}

/** The fields by which a sentence names a job. */
interface NamedJob {
  readonly id: number;
  readonly name: string;
  readonly state: JobState;
}

/** An error with its own words: the problem, and the cure. */
export function refuse(job: NamedJob, matter: string): QueueError {
  return new QueueError('wrong-state', `${nameJob(job)} ${matter}`);
}

export function noSuchJob(id: number): QueueError {
  return new QueueError(
    'no-such-job',
    `There is no job ${id} in the queue; \`npx folder-runner jobs\` lists all jobs.`,
  );
}

export function staleClaim(job: NamedJob): QueueError {
  return refuseClaim(job, job.state === 'running' ? 'another worker has claimed it' : `the job is ${job.state}`);
}

/** The claim has expired, but no other worker has the job yet. */
export function expiredClaim(job: NamedJob): QueueError {
  return refuseClaim(job, 'it was not renewed in time, and the job will be given to another worker');
}

/** Ends a wait for another job. */
export function deadlineSoon({ id, name }: NamedJob): QueueError {
  const what = `The claim of job ${id} (${name}) expires within a second`;
  return new QueueError('deadline-soon', `${what}, so no other job is waited for: end that job, or touch it.`);
}

function refuseClaim({ id, name }: NamedJob, why: string): QueueError {
  return new QueueError('stale-claim', `The claim of job ${id} (${name}) has expired: ${why}; nothing was changed.`);
}

/** `Job 7 (mail/welcome)` */
function nameJob({ id, name }: NamedJob): string {
  return `Job ${id} (${name})`;
}

/** The words of a verb about jobs in a state that does not fit it. */
export interface StateWords {
  /** Completes "only a … can be". */
  readonly expected: string;
  /** Completes "can be", and on the dashboard "job 7 (mail/welcome)". */
  readonly done: string;
  /** The remedy for a wrong state, where it differs from that of other verbs. */
  readonly hints?: Partial<Record<JobState, string>>;
}

/** The remedy for a state that does not fit a verb. */
const hints: Readonly<Record<JobState, string>> = {
  queued: 'claim it first',
  retrying: 'claim it first',
  claimed: 'wait for its end',
  running: 'wait for its end; fail or bury it to end it now',
  paused: 'end or delete the jobs it waits for',
  finished: 'add a new one, or requeue it',
  failed: 'kick it first',
  cancelled: 'add a new one, or requeue it',
};

/** "Job 7 (mail/welcome) is finished, and only a running job can be touched; …" */
export function wrongState(
  job: NamedJob & { readonly parent_id: number | null },
  { expected, done, hints: own = {} }: StateWords,
): QueueError {
  const { state, parent_id: parent } = job;
  const isPausedChild = state === 'paused' && parent !== null;
  const hint = isPausedChild ? `it waits for the end of its parent, job ${parent}` : (own[state] ?? hints[state]);
  return refuse(job, `is ${state}, and only a ${expected} can be ${done}; ${hint}.`);
}
