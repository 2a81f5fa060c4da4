import type { Signal } from '../child/job-context.ts';
import type { ChildFailurePolicy, JobState, MissedPolicy } from '../store/schema.ts';

/** What can be written as JSON. */
export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** When: a date; epoch milliseconds; or words such as `+10 minutes`, `2026-12-24 18:00`. */
export type When = Date | number | string;

/** What becomes of a job that is added while one of its unique key has not ended. */
export type DuplicatePolicy = 'keep' | 'replace' | 'merge';

/** How a job is to be run; what is left out is as said, or as its handler says. */
export interface JobOptions {
  /** Default: now. */
  readonly runAt?: When;
  /** A whole number; higher ones are taken first. Default 500. */
  readonly priority?: number;
  /** How many times it is tried again after a failure, 0 to 100. Default: as its handler says, else 0. */
  readonly retries?: number;
  /** `5m`, `exponential 30s 6h`. Default: as its handler says, else `1m`. */
  readonly retryDelay?: string;
  /** At most one unfinished job has it. */
  readonly uniqueKey?: string;
  /**
   * If an unfinished job has that key already, it stays and its number is given back: as it is
   * (`keep`), with this data (`replace`), or with its data merged with this by RFC 7396 (`merge`).
   * Default `keep`. A running job's data is not changed.
   */
  readonly onDuplicate?: DuplicatePolicy;
  /** The rule by which it is queued again once it has finished: `SCHEDULED, +1 HOUR`. */
  readonly repeat?: string;
  /** Times that have passed meanwhile: run `all`, run `once`, or `skip` to the next. Default `all`. */
  readonly missed?: MissedPolicy;
  /** The number of a job that runs, or waits for its children: this one becomes one of them. */
  readonly parent?: number;
  /** What becomes of this job should a child of it fail. Default `resume`. */
  readonly onChildFailure?: ChildFailurePolicy;
  /** What shares the settings' `queue.groupLimit`: a customer, a mail server. */
  readonly group?: string;
  /** How long a claim holds unless it is renewed: `30s`, `10m`. Default: the settings' `queue.lease`. */
  readonly lease?: string;
}

/** A job to be added. */
export interface NewJob<Data = JsonValue> extends JobOptions {
  /** That of its handler: `mail/welcome` for `jobs/queue/mail/welcome.ts`. */
  readonly name: string;
  /** JSON of at most 1 MiB. Default `{}`. */
  readonly data?: Data;
}

/** What became of a job that was to be added. */
export interface AddedJob {
  readonly id: number;
  /** False: an unfinished job has its unique key already, and this is that one's number. */
  readonly added: boolean;
}

/** How often something happened to a job. */
export interface JobCounters {
  readonly reserves: number;
  readonly timeouts: number;
  readonly releases: number;
  readonly buries: number;
  readonly kicks: number;
  readonly crashes: number;
}

/** A job of the queue. Unknown is null. */
export interface Job<Data = JsonValue, Result = JsonValue> {
  readonly id: number;
  readonly name: string;
  readonly state: JobState;
  readonly data: Data;
  /** Null: there is none (yet). */
  readonly result: Result | null;
  readonly priority: number;
  /** When it is due, or was. */
  readonly runAt: Date;
  /** Of a repeating job, the time that its rule gave. */
  readonly scheduledFor: Date | null;
  readonly createdAt: Date;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
  /** Tries since it was added, repeated or kicked. */
  readonly attempts: number;
  /** Null: as its handler says. */
  readonly maxAttempts: number | null;
  readonly repeat: string | null;
  readonly missed: MissedPolicy;
  readonly uniqueKey: string | null;
  readonly group: string | null;
  readonly parent: number | null;
  readonly leasedUntil: Date | null;
  /** Why it is as it is: one sentence. */
  readonly reason: string | null;
  readonly counters: JobCounters;
}

/** A child that has ended, as its parent is told of it. */
export interface ChildJob {
  readonly id: number;
  readonly name: string;
  readonly data: JsonValue;
  readonly result: JsonValue;
}

/** What a parent's children have become, once it is resumed. */
export interface EndedChildren {
  readonly finished: readonly ChildJob[];
  readonly failed: readonly ChildJob[];
  readonly cancelled: readonly ChildJob[];
}

/** A job that was taken, for whoever works it off outside of the runner. */
export interface ClaimedJob<Data = JsonValue> extends Job<Data> {
  /** By which it is ended: `queue.finish(job)`. Lost once the lease has run out and another has it. */
  readonly token: string;
  /** 1 for the first. */
  readonly attempt: number;
  /** The parent's data; null: it has none. */
  readonly parentData: JsonValue;
  readonly children: EndedChildren;
}

/** Which job: its number, or what `claim` gave. With a token, only as long as that claim holds. */
export type JobRef = number | { readonly id: number; readonly token?: string };

export interface ClaimOptions {
  /** How long to wait for one: `30s`, `10m`. Default: not at all. */
  readonly wait?: string;
  /** Overrides the job's own. */
  readonly lease?: string;
  /** Ends the wait. */
  readonly signal?: Signal;
}

export interface FinishOptions {
  /** What is kept of it: anything that can be written as JSON. */
  readonly result?: unknown;
  /** Replaces the job's data; of a repeating job the next run gets it. */
  readonly data?: unknown;
}

export interface RetryOptions {
  /** How long to wait: `10m`. Default: now; of a repeating job, its next time. */
  readonly delay?: string;
  /** Counts instead of the delay. */
  readonly runAt?: When;
  readonly priority?: number;
  /** The job goes on under another name. */
  readonly name?: string;
  readonly data?: unknown;
  /** Of a repeating job: not at its next time, but as said here. Default false. */
  readonly ignoreRepeat?: boolean;
  readonly reason?: string;
}

export interface FailOptions {
  readonly reason?: string;
  readonly data?: unknown;
  /**
   * Only this try has failed: the job is tried again after its retry delay, as long as it has tries left.
   * Default false: it has failed for good.
   */
  readonly mayRetry?: boolean;
}

export interface BuryOptions {
  readonly priority?: number;
  readonly reason?: string;
}

export interface UpdateOptions {
  readonly data?: unknown;
  readonly priority?: number;
  /**
   * Null: it repeats no more. A new rule gives a new time to a job that is not due yet, unless `runAt`
   * says another; one that is due, or runs, gets it once it has finished.
   */
  readonly repeat?: string | null;
  readonly runAt?: When;
}

export interface RequeueOptions {
  readonly name?: string;
  /** Lets the last claim not count as a try: it never reached its worker. */
  readonly forgetTry?: boolean;
}

export interface ListOptions {
  /** A glob over names: `mail/*`. Default: all. */
  readonly pattern?: string | readonly string[];
  readonly state?: JobState | readonly JobState[];
  /** Only what is due (`ready`), or only what is not yet (`delayed`). */
  readonly due?: 'ready' | 'delayed';
  readonly parent?: number;
  /**
   * `newest`: by number, the highest first. `next`: what waits, in the order in which it is taken.
   * `soonest`: what waits, by its time, whatever its priority. Default `newest`.
   */
  readonly order?: 'newest' | 'next' | 'soonest';
  /** 1 to 1000. Default 50. */
  readonly limit?: number;
  /** Only jobs with a lower number, to page on. */
  readonly before?: number;
}

/** How many jobs of a name are in which state. */
export interface JobCount {
  readonly name: string;
  readonly ready: number;
  readonly delayed: number;
  readonly running: number;
  readonly retrying: number;
  readonly paused: number;
  readonly failed: number;
  readonly finished: number;
  readonly cancelled: number;
}

export interface PauseOptions {
  /** How long: `2h`. Default: until it is resumed. */
  readonly for?: string;
  /** Due jobs fail at once instead of waiting. Default false. */
  readonly fail?: boolean;
}

/**
 * The job queue of a root: adds jobs, takes them, ends them, and tells of them. All changes are in the
 * activity log when a promise is fulfilled, and survive a power loss. Wrong use rejects with a
 * {@link QueueError}.
 */
export interface Queue {
  /** Adds a job; its number. */
  add<Data = JsonValue>(name: string, data?: Data, options?: JobOptions): Promise<number>;
  /** Adds jobs in their order, all or none; their numbers. */
  addMany(jobs: readonly NewJob<unknown>[]): Promise<number[]>;
  /** `add` that also says whether the job was added, or one with its unique key was kept. */
  addUnique<Data = JsonValue>(name: string, data?: Data, options?: JobOptions): Promise<AddedJob>;
  /** `addMany` that also says this of each job. */
  addManyUnique(jobs: readonly NewJob<unknown>[]): Promise<AddedJob[]>;
  /** Takes the job that is next among those names, or waits for one; null: there is none. */
  claim<Data = JsonValue>(
    patterns?: string | readonly string[],
    options?: ClaimOptions,
  ): Promise<ClaimedJob<Data> | null>;
  /** Takes up to `count` jobs; waits, if asked to, for the first. */
  claimMany<Data = JsonValue>(
    patterns: string | readonly string[],
    count: number,
    options?: ClaimOptions,
  ): Promise<ClaimedJob<Data>[]>;
  /** Ends a running job as finished; a repeating one is queued for its next time. */
  finish(job: JobRef, options?: FinishOptions): Promise<void>;
  /** Gives a running job back, to be taken again. */
  retry(job: JobRef, options?: RetryOptions): Promise<void>;
  /** Ends a running job as failed, whatever tries it has left; with `mayRetry` only this try of it. */
  fail(job: JobRef, options?: FailOptions): Promise<void>;
  /** Sets a job that runs, or waits to be taken, aside, as failed, until it is kicked. */
  bury(job: JobRef, options?: BuryOptions): Promise<void>;
  /** Queues a failed or delayed job at once, with all its tries. */
  kick(id: number): Promise<void>;
  /** Kicks up to `count` jobs of these names: failed ones, or if there are none, delayed ones. How many. */
  kickMany(patterns: string | readonly string[], count: number): Promise<number>;
  /** Ends a job that waits, or has failed, as cancelled; with a parent, what waits of its children. */
  cancel(id: number): Promise<void>;
  /** Renews a claim: its lease begins anew. Until when it holds. */
  touch(job: JobRef, options?: { readonly lease?: string }): Promise<Date>;
  /** Removes a job that does not run, or that this claim holds, with its runs and its ended children. */
  delete(job: JobRef): Promise<void>;
  /** Changes a job's data, priority, rule or time in any state, without changing that. */
  update(job: JobRef, options: UpdateOptions): Promise<void>;
  /** Queues jobs anew from whatever state they are in, as first of their priority. How many there were. */
  requeue(ids: readonly number[], options?: RequeueOptions): Promise<number>;
  /** Null: there is none of that number. */
  get<Data = JsonValue, Result = JsonValue>(id: number): Promise<Job<Data, Result> | null>;
  list(options?: ListOptions): Promise<Job[]>;
  count(pattern?: string | readonly string[]): Promise<JobCount[]>;
  /** Starts nothing of these names for a while. */
  pause(pattern: string, options?: PauseOptions): Promise<void>;
  /** False: it was not paused. */
  resume(pattern: string): Promise<boolean>;
  close(): Promise<void>;
}
