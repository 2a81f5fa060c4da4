import type { Signal } from '../child/contexts.ts';
import type { JobCounters } from '../store/statements/list-jobs.ts';
import type { ChildFailurePolicy, JobState, MissedPolicy } from '../store/words.ts';

/** A value that JSON can express. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/** A time: a date; epoch milliseconds; or words such as `+10 minutes`, `2026-12-24 18:00`. */
export type When = Date | number | string;

/** How an unfinished job with the same unique key is changed by the new one. */
export type DuplicatePolicy = 'keep' | 'replace' | 'merge' | 'replace-all';

/** Options of a new job; each has a default. */
export interface JobOptions {
  /** Default: now. */
  readonly runAt?: When;
  /** An integer; jobs with a higher priority run first. Default 500. */
  readonly priority?: number;
  /** How often it is retried after a failure, 0 to 100. Default: the handler's own number, otherwise 0. */
  readonly retries?: number;
  /** Delay before a retry: `5m`, `exponential 30s 6h`. Default: the handler's own delay, otherwise `1m`. */
  readonly retryDelay?: string;
  /** At most one unfinished job can have this key. */
  readonly uniqueKey?: string;
  /**
   * The rule for an unfinished job that has that key already. The existing job stays, and its number is returned. It is
   * unchanged (`keep`, the default), takes this data (`replace`), takes this data merged into its own by RFC 7396
   * (`merge`), or takes all that is given here: data, time, rule, priority, retries, group and so on (`replace-all`). A
   * running job is never changed.
   */
  readonly onDuplicate?: DuplicatePolicy;
  /** The rule by which it is queued again after it has finished: `SCHEDULED, +1 HOUR`. */
  readonly repeat?: string;
  /** How to treat missed times: run `all`, run `once`, or `skip` to the next one. Default `all`. */
  readonly missed?: MissedPolicy;
  /** The number of its parent job, which must be running or waiting for its children. */
  readonly parent?: number;
  /** How a failed child affects this job. Default `resume`. */
  readonly onChildFailure?: ChildFailurePolicy;
  /** Jobs of one group share the limit `queue.groupLimit` of the settings: for a customer, a mail server. */
  readonly group?: string;
  /** How long a claim is valid unless it is renewed: `30s`, `10m`. Default: `queue.lease` of the settings. */
  readonly lease?: string;
}

/** A new job. */
export interface NewJob<Data = JsonValue> extends JobOptions {
  /** The path of its handler: `mail/welcome` for `jobs/queue/mail/welcome.ts`. */
  readonly name: string;
  /** JSON of at most 1 MiB. Default `{}`. */
  readonly data?: Data;
}

/** Whether a job was added. */
export interface AddedJob {
  readonly id: number;
  /** False: an unfinished job already has its unique key, and `id` is that job's number. */
  readonly added: boolean;
  /** True: that job took part of this one. */
  readonly changed: boolean;
  /** Options given here that that job did not take: `data`, `runAt` and so on. */
  readonly ignored: readonly string[];
}

/** A job of the queue. Unknown values are null. */
export interface Job<Data = JsonValue, Result = JsonValue> {
  readonly id: number;
  readonly name: string;
  readonly state: JobState;
  readonly data: Data;
  /** Null: no result, or none yet. */
  readonly result: Result | null;
  readonly priority: number;
  /** When it is or was due. */
  readonly runAt: Date;
  /** For a repeating job, the time that its rule gave. */
  readonly scheduledFor: Date | null;
  readonly createdAt: Date;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
  /** Tries since it was added, repeated or kicked. */
  readonly attempts: number;
  /** Null: the handler decides. */
  readonly maxAttempts: number | null;
  readonly repeat: string | null;
  readonly missed: MissedPolicy;
  readonly uniqueKey: string | null;
  readonly group: string | null;
  readonly parent: number | null;
  /** How long a claim of it is valid, unless that claim has its own lease. Null: the settings decide. */
  readonly leaseMs: number | null;
  readonly leasedUntil: Date | null;
  /** The reason for its state, in one sentence. */
  readonly reason: string | null;
  readonly counters: JobCounters;
}

/** A job in a list: values of more than 4,096 bytes are left out; `get` has them. */
export interface ListedJob extends Job {
  /** Length in bytes of data that was left out (`data` is null then). Null: `data` is whole. */
  readonly dataBytes: number | null;
  /** Length in bytes of a result that was left out (`result` is null then). Null: `result` is whole. */
  readonly resultBytes: number | null;
}

/** A child job that has ended, as its parent sees it. */
export interface ChildJob {
  readonly id: number;
  readonly name: string;
  readonly data: JsonValue;
  readonly result: JsonValue;
}

/** The ended children of a parent that resumes. */
export interface EndedChildren {
  readonly finished: readonly ChildJob[];
  readonly failed: readonly ChildJob[];
  readonly cancelled: readonly ChildJob[];
}

/** A claimed job, for a worker outside of the runner. */
export interface ClaimedJob<Data = JsonValue> extends Job<Data> {
  /** Needed to end the job: `queue.finish(job)`. Invalid from two seconds after the end of the lease. */
  readonly token: string;
  /** 1 for the first try. */
  readonly attempt: number;
  /** The parent's data; null: it has no parent. */
  readonly parentData: JsonValue;
  readonly children: EndedChildren;
}

/**
 * A job: its number, or the object that `claim` returned. With a token, the call works only while that claim is valid.
 */
export type JobRef = number | { readonly id: number; readonly token?: string };

export interface ClaimOptions {
  /** How long to wait for a job: `30s`, `10m`. Default: no wait. */
  readonly wait?: string;
  /** Overrides the job's own lease. */
  readonly lease?: string;
  /** Claims only jobs of this priority or a higher one. Default: all. */
  readonly minPriority?: number;
  /**
   * Jobs that the caller still holds. If there is no job to claim and one of these is within the last second of its
   * lease, the claim rejects with `deadline-soon`, however long its `wait` is: end that job, or touch it.
   */
  readonly holding?: readonly JobRef[];
  /** Aborting it ends the wait. */
  readonly signal?: Signal;
}

export interface FinishOptions {
  /** Its result: anything that can be written as JSON. */
  readonly result?: unknown;
  /** Replaces the job's data; the next run of a repeating job gets it. */
  readonly data?: unknown;
}

export interface RetryOptions {
  /** How long to wait: `10m`. Default: no wait; for a repeating job, until its next time. */
  readonly delay?: string;
  /** Used instead of the delay. */
  readonly runAt?: When;
  readonly priority?: number;
  /** The job's new name. */
  readonly name?: string;
  readonly data?: unknown;
  /** Repeating job: use `delay` or `runAt` instead of its next time. Default false. */
  readonly ignoreRepeat?: boolean;
  readonly reason?: string;
}

export interface FailOptions {
  readonly reason?: string;
  readonly data?: unknown;
  /**
   * True: only this try has failed, and the job is retried after its retry delay while it has tries left. Default
   * false: the job has failed for good.
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
   * Null: it stops repeating. A new rule gives a job that is not due yet a new time, unless `runAt` is set; a due or
   * running job gets its new time once it has finished.
   */
  readonly repeat?: string | null;
  readonly runAt?: When;
}

export interface RequeueOptions {
  readonly name?: string;
  /** Does not count the last claim as a try, because it never reached its worker. */
  readonly forgetTry?: boolean;
}

export interface ListOptions {
  /** A glob over names: `mail/*`. Default: all. */
  readonly pattern?: string | readonly string[];
  readonly state?: JobState | readonly JobState[];
  /** Waiting jobs only: those that are due (`ready`), or those whose time has not come (`delayed`). */
  readonly due?: 'ready' | 'delayed';
  readonly parent?: number;
  /**
   * `newest`: by number, the highest first. `oldest`: the lowest first. `next`: waiting jobs, in the order in which
   * they will be claimed. `soonest`: waiting jobs, by their time. `kick`: the jobs that `kickMany` would kick, in its
   * order; then only `pattern` and `limit` are allowed besides. Default `newest`.
   */
  readonly order?: 'newest' | 'oldest' | 'next' | 'soonest' | 'kick';
  /** 1 to 1000. Default 50. */
  readonly limit?: number;
  /** Only jobs with a lower number, for the next page from the newest. */
  readonly before?: number;
  /** Only jobs with a higher number, for the next page from the oldest. */
  readonly after?: number;
  /** Only jobs added at that time or later. */
  readonly since?: When;
  /** Only jobs added before that time. */
  readonly until?: When;
}

/** How many jobs of a name are in each state; jobs with different parameters count together. */
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

/** How often each of these has happened to jobs of a name since the log began; pruning takes nothing away. */
export interface JobTotals {
  readonly name: string;
  /** Jobs added. */
  readonly added: number;
  /** Tries. The next five fields say how they have ended. */
  readonly runs: number;
  readonly succeeded: number;
  /** Tries that failed, were killed, or could not be started. */
  readonly failed: number;
  readonly timedOut: number;
  /** Tries whose worker died, or whose lease expired. */
  readonly crashed: number;
  readonly released: number;
  readonly stopped: number;
  readonly leasesExpired: number;
  readonly buried: number;
  readonly kicked: number;
}

export interface PauseOptions {
  /** How long: `2h`. Default: until `resume`. */
  readonly for?: string;
  /** True: due jobs fail at once instead of waiting. Default false. */
  readonly fail?: boolean;
}

/**
 * The job queue of a root: adds, claims, ends and shows jobs. When a promise is fulfilled, its changes are in the
 * activity log and survive a power loss. A usage error rejects with a {@link QueueError}.
 */
export interface Queue {
  /** Adds a job. Returns its number. */
  add<Data = JsonValue>(name: string, data?: Data, options?: JobOptions): Promise<number>;
  /** Adds jobs in their order, all or none. Returns their numbers. */
  addMany(jobs: readonly NewJob<unknown>[]): Promise<number[]>;
  /** Like `add`; also says whether the job was added, and what an existing job with its unique key took of it. */
  addUnique<Data = JsonValue>(name: string, data?: Data, options?: JobOptions): Promise<AddedJob>;
  /** Like `addMany`; also says this for each job. */
  addManyUnique(jobs: readonly NewJob<unknown>[]): Promise<AddedJob[]>;
  /** Claims the next job with a matching name, or waits for one. Null: no job. */
  claim<Data = JsonValue>(
    patterns?: string | readonly string[],
    options?: ClaimOptions,
  ): Promise<ClaimedJob<Data> | null>;
  /** Claims up to `count` jobs; waits for the first one if `wait` is set. */
  claimMany<Data = JsonValue>(
    patterns: string | readonly string[],
    count: number,
    options?: ClaimOptions,
  ): Promise<ClaimedJob<Data>[]>;
  /**
   * Claims this job, even if it is not due yet or has failed; such a job is kicked first. Rejects if the job is
   * running, has ended, or its name is paused.
   */
  claimJob<Data = JsonValue>(id: number, options?: { readonly lease?: string }): Promise<ClaimedJob<Data>>;
  /** Ends a running job as finished; a repeating job is queued for its next time. */
  finish(job: JobRef, options?: FinishOptions): Promise<void>;
  /** Puts a running job back into the queue. */
  retry(job: JobRef, options?: RetryOptions): Promise<void>;
  /** Ends a running job as failed, even if it has tries left; with `mayRetry` only this try. */
  fail(job: JobRef, options?: FailOptions): Promise<void>;
  /** Ends a running or waiting job as failed; it stays failed until it is kicked. */
  bury(job: JobRef, options?: BuryOptions): Promise<void>;
  /** Makes a failed or delayed job due at once, with all its tries. */
  kick(id: number): Promise<void>;
  /** Kicks up to `count` failed jobs with these names; delayed ones if none has failed. Returns how many. */
  kickMany(patterns: string | readonly string[], count: number): Promise<number>;
  /** Ends a waiting or failed job as cancelled, with its waiting children. */
  cancel(id: number): Promise<void>;
  /** Renews a claim: its lease, the one given to `claim`, begins anew. Returns when it expires. */
  touch(job: JobRef, options?: { readonly lease?: string }): Promise<Date>;
  /** Removes a job with its runs and its ended children. A running job needs its claim's token. */
  delete(job: JobRef): Promise<void>;
  /** Changes a job's data, priority, rule or time, in any state. The state stays the same. */
  update(job: JobRef, options: UpdateOptions): Promise<void>;
  /** Queues jobs again from any state, first of their priority. Returns how many. */
  requeue(ids: readonly number[], options?: RequeueOptions): Promise<number>;
  /** Null: no such job. */
  get<Data = JsonValue, Result = JsonValue>(id: number): Promise<Job<Data, Result> | null>;
  /** Lists jobs. Data and results of more than 4,096 bytes are left out; `get` has them. */
  list(options?: ListOptions): Promise<ListedJob[]>;
  count(pattern?: string | readonly string[]): Promise<JobCount[]>;
  /** Counts the events of each name's jobs since the log began, including jobs that are gone. */
  totals(pattern?: string | readonly string[]): Promise<JobTotals[]>;
  /** Pauses jobs with matching names; each pattern is a separate pause. */
  pause(pattern: string | readonly string[], options?: PauseOptions): Promise<void>;
  /** Ends the pauses of these patterns. False: none of them was paused. */
  resume(pattern: string | readonly string[]): Promise<boolean>;
  close(): Promise<void>;
}
