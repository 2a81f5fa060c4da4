import type { JobRow, WorkerRow } from '../schema.ts';
import type { JobState, Outcome } from '../words.ts';
import type { ClaimRef, StartedRunRow } from './runs.ts';

/** A job without what it carries: that may be megabytes, and few who look at a job want it. */
export type JobHead = Omit<JobRow, 'data' | 'result'>;

/** The same with the length of what it carries, in bytes. */
export interface SizedJobRow extends JobHead {
  readonly data_bytes: number;
  /** Null: it has no result. */
  readonly result_bytes: number | null;
}

/** A job as a list has it. */
export interface ListedJobRow extends SizedJobRow {
  /** Null: it is too long for a list. */
  readonly data: string | null;
  /** The same, or there is none. */
  readonly result: string | null;
}

/** Columns of a job as it is added; the store decides on `id` and `ready`. */
export type NewJobRow = Pick<
  JobRow,
  | 'name'
  | 'state'
  | 'data'
  | 'priority'
  | 'scheduled_for'
  | 'run_at'
  | 'retry'
  | 'repeat'
  | 'missed_policy'
  | 'unique_key'
  | 'concurrency_key'
  | 'parent_id'
  | 'on_child_failure'
  | 'lease_ms'
  | 'created_at'
> &
  Partial<Pick<JobRow, 'attempts' | 'started_at' | 'finished_at' | 'result' | 'reason'>>;

/** A change of a job's columns. The store keeps `ready` in step with `state` and `run_at` at the instant `at`. */
export interface JobChange {
  readonly id: number;
  /** The job has no children. If somebody has added one meanwhile, the whole transaction is repeated. */
  readonly isChildless?: boolean;
  readonly set: Partial<Omit<JobRow, 'id' | 'ready'>>;
}

export interface JobStore extends ListStore {
  /** In their order; their numbers. None has a unique key that is taken, or a parent that was not locked. */
  add(jobs: readonly NewJobRow[], at: number): Promise<number[]>;
  /** Locks jobs and their parents in ascending order, so that families change one after the other. */
  lock(ids: readonly number[]): Promise<void>;
  /** Jobs of the queue by number, in ascending order; those that are not there are left out. */
  byId(ids: readonly number[]): Promise<JobHead[]>;
  /** Like `byId`, with data and results; for a few jobs at a time. */
  wholeById(ids: readonly number[]): Promise<JobRow[]>;
  /**
   * The unfinished jobs that have these keys, locked. Until the transaction's end nobody else adds a job with one of
   * them.
   */
  byUniqueKeys(keys: readonly string[]): Promise<JobHead[]>;
  change(changes: readonly JobChange[], at: number): Promise<void>;
  /** Data of a job, merged with this by RFC 7396. */
  mergeData(id: number, patch: string): Promise<string>;
  /** Replaces the data of a job while this claim is valid. False: it is not. */
  updateData(id: number, token: string, data: string): Promise<boolean>;
  /** In ascending order, locked. */
  children(parentId: number): Promise<SizedJobRow[]>;
  hasOpenChildren(parentId: number): Promise<boolean>;
  /** Marks ended children as reported, so they are no news for the parent any more. */
  markReported(parentId: number): Promise<void>;
  /** Deletes jobs with their runs; names of output files that no run has any more. */
  delete(ids: readonly number[]): Promise<readonly string[]>;
}

/** What is asked of many jobs, mostly by people. */
export interface ListStore {
  list(filter: JobFilter): Promise<ListedJobRow[]>;
  /** Those of these numbers, in ascending order, as a list has them. */
  listById(ids: readonly number[]): Promise<ListedJobRow[]>;
  /** Jobs of the list, by number, that contain a text. It reads rows one after another, so it can stop in time. */
  search(filter: JobFilter & { readonly order: 'newest' | 'oldest' }, wanted: JobSearch): Promise<FoundJobs>;
  /** By name and state; what waits also by whether it is due at `at`. */
  count(patterns: readonly string[], at: number): Promise<JobCountRow[]>;
  /** Counts of events of each handler's jobs since the log began, by name, including jobs that are gone. */
  totals(patterns: readonly string[]): Promise<JobTotalRow[]>;
  /** Failed jobs that can be queued again, the longest ago first. */
  revivable(patterns: readonly string[], limit: number): Promise<number[]>;
  /** Jobs that wait for their time, the next ones first. */
  delayed(patterns: readonly string[], limit: number, at: number): Promise<number[]>;
  /** Counted from runs and events. */
  counters(id: number): Promise<JobCounterRow>;
  /** Jobs whose unique key begins like this, and those that were once imported under such a key. */
  imported(prefix: string): Promise<ImportedRow[]>;
}

/** Null: its row is gone. */
export type ImportedRow =
  | { readonly key: string; readonly id: number; readonly state: JobState }
  | { readonly key: string; readonly id: null; readonly state: null };

export interface JobFilter {
  /** Globs over names; undefined: all. */
  readonly patterns?: readonly string[] | undefined;
  readonly states?: readonly JobState[] | undefined;
  readonly due?: 'ready' | 'delayed' | undefined;
  readonly parent?: number | undefined;
  readonly before?: number | undefined;
  readonly after?: number | undefined;
  /** Those that were added from `since` on, and before `until`. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  readonly order: 'newest' | 'oldest' | 'next' | 'soonest';
  readonly limit: number;
  /** How many rows to skip first. Default 0. */
  readonly offset?: number | undefined;
  readonly at: number;
}

export interface JobSearch {
  /** Searched in data, result and reason as stored; A to Z match in either case. */
  readonly text: string;
  /** Most jobs to look at. */
  readonly most: number;
  /** Called from time to time; true: the search has taken long enough. */
  readonly isLate: () => boolean;
}

export interface FoundJobs {
  readonly rows: readonly ListedJobRow[];
  /** How many jobs were looked at. */
  readonly looked: number;
  /** The last one of these, from which a search goes on; null: there is no further one. */
  readonly last: number | null;
}

export interface JobCountRow {
  /** The jobs' name without parameters. */
  readonly handler: string;
  readonly state: JobState;
  readonly isDue: boolean;
  readonly jobs: number;
}

export interface JobTotalRow {
  /** The jobs' name without parameters. */
  readonly handler: string;
  /** For runs the outcome; `lost`: the job was deleted before its run ended. */
  readonly what: 'added' | Outcome | 'lost' | 'job-lease-expired' | 'job-buried' | 'job-kicked';
  readonly times: number;
}

export interface JobCounterRow {
  readonly reserves: number;
  readonly timeouts: number;
  readonly releases: number;
  readonly buries: number;
  readonly kicks: number;
  readonly crashes: number;
}

/** A job as it is seen before it is claimed. */
export interface WaitingJob {
  readonly id: number;
  readonly name: string;
  readonly priority: number;
  readonly run_at: number;
  readonly concurrency_key: string | null;
}

export interface Selection {
  /** Names that are wanted, if there is a list of them; null: whatever `isWanted` says. */
  readonly names: readonly string[] | null;
  isWanted(name: string): boolean;
  /** How many jobs of one concurrency key may be claimed at the same time; null: any number. */
  readonly groupLimit: number | null;
  /** Nothing below this priority. */
  readonly minPriority?: number | undefined;
  /** No other job than this one. */
  readonly id?: number | undefined;
}

export interface ClaimRequest {
  readonly selection: Selection;
  readonly count: number;
  /** UTC epoch milliseconds. */
  readonly at: number;
  /** Token of each claim. */
  newToken(): string;
  /** Overrides the job's own. */
  readonly leaseMs: number | null;
  readonly defaultLeaseMs: number;
  /** `claimed`: it begins later, and its try counts then. `running`: it begins now. */
  readonly state: 'claimed' | 'running';
}

/** A claimed job, as its row is now. */
export interface ClaimedRow extends JobRow {
  readonly claim_token: string;
  readonly has_unreported_children: boolean;
}

/** A job whose claim holds. */
export interface HeldRow extends JobHead {
  readonly has_children: boolean;
}

export interface ExpiredClaim {
  readonly job: JobHead;
  readonly workerId: number | null;
}

export interface StoreTurn {
  /** One for each run: its number, or null, as {@link RunStore.finish} says. */
  readonly runIds: readonly (number | null)[];
  /** Others among them are to be given back. None: it was not looked everywhere. */
  readonly claimed: readonly ClaimedRow[];
}

export interface ClaimStore {
  /** The job that is next; null: none is due. Changes nothing but which index a job that is due stands in. */
  next(selection: Selection, at: number): Promise<WaitingJob | null>;
  /** Whether any job is due, whoever may take it. */
  hasDue(at: number): Promise<boolean>;
  /** When something can be taken that cannot be now: a job becomes due, a lease expires, a pause ends. */
  nextWake(at: number, graceMs: number): Promise<number | null>;
  /** Claims the next jobs, at most `count`. Call it in a transaction. */
  claim(request: ClaimRequest): Promise<ClaimedRow[]>;
  /** Rows of jobs whose claim still holds, locked; without those that others have moved on. */
  held(claims: readonly ClaimRef[]): Promise<HeldRow[]>;
  /**
   * Gives back claims that have not begun, unchanged: a job waits as before, whether tried or not. For a job that
   * others have moved on, only the claim ends.
   */
  release(claims: readonly ClaimRef[], at: number): Promise<void>;
  /** Renews all claims of a worker, each by its own lease; the shortest of these, null: it has none. */
  renew(workerId: number, at: number, defaultLeaseMs: number): Promise<number | null>;
  /** Claims whose lease has expired at that instant; `graceMs` later if the holder is no worker. */
  expired(at: number, graceMs: number): Promise<ExpiredClaim[]>;
  /** Gives a worker that was late more time. */
  extend(id: number, leaseExpiresAt: number): Promise<void>;
  /**
   * Every job that a worker of the runner has, or had when it died: `claimed` and `running`, and those that others have
   * moved on, whose process may still run.
   */
  ofWorkers(): Promise<ClaimOfWorker[]>;
  /** Those of them whose worker has ended. */
  ofEndedWorkers(): Promise<ClaimOfWorker[]>;
}

export interface ClaimOfWorker {
  readonly job: JobHead;
  readonly token: string;
  readonly worker: WorkerRow;
  /** Its row in `runs`, if it has lasted long enough to have one. */
  readonly run: StartedRunRow | null;
}

/** A script's one row in `jobs`; of one that runs on every host, that of one of them. */
export type ScriptJobRow = JobRow & { readonly tier: string };

export interface ScriptJobStore {
  /** Queues scripts for a pass, in their order: their rows are made, or begun anew. Their numbers. */
  enqueue(scripts: readonly NewScriptJob[]): Promise<number[]>;
  /**
   * The same for a slot that many machines have: only those that are not open and, unless they are to run again, were
   * not queued for this slot or a later one. To be called in a transaction. Null: somebody was sooner. A slot more than
   * a day ahead of `at` does not count: a clock was wrong then.
   */
  enqueueOnce(scripts: readonly NewScriptJob[]): Promise<(number | null)[]>;
  /** Those that have not ended, of a tier or of all tiers, those first that are to be run first. */
  open(tier?: string): Promise<ScriptJobRow[]>;
  /** All rows of a tier's scripts. */
  ofTier(tier: string): Promise<ScriptJobRow[]>;
  /** Takes open jobs that nobody has, up to all of them; those that somebody else has are left out. */
  claim(claims: readonly ScriptClaim[]): Promise<number[]>;
}

export interface NewScriptJob {
  readonly name: string;
  readonly tier: string;
  /** The only machine that it is for. Left out, or null: any. */
  readonly host?: string | null;
  readonly scheduledFor: number | null;
  /** By hand: whatever slot it was queued for before, which its row keeps: `scheduledFor` is null then. */
  readonly isAgain?: boolean;
  readonly at: number;
}

export interface ScriptClaim extends ClaimRef {
  /** `claimed`: it begins later. */
  readonly state: 'claimed' | 'running';
  readonly at: number;
  /** Only if its row is still this: on another machine it may have run meanwhile. Left out: whatever it is. */
  readonly seen?: Pick<JobRow, 'attempts' | 'scheduled_for'>;
}
