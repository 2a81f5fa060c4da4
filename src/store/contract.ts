import type { Kysely, Selectable } from 'kysely';
import type {
  ActivityLog,
  DeliveryKind,
  DeviationsTable,
  FinishedRun,
  IncidentRow,
  JobRow,
  JobState,
  MeasuredBy,
  MetricsTable,
  Outcome,
  PauseKind,
  Severity,
  SkipCode,
  StoredEvent,
  TokenPermission,
  Trigger,
  UncountedTable,
  WorkerKind,
  WorkerMetricsTable,
  WorkerRow,
} from './schema.ts';

/**
 * What the product asks of a store, in its own words. Domain code decides on values; a store reads and
 * writes them. An engine implements it in a folder of its own; nothing here supposes one writer at a time.
 */
export interface Store extends StoreSession {
  readonly engine: 'sqlite';
  /** True where the log can only be read: writing to it fails. */
  readonly isReadOnly: boolean;
  /** That a broken log was quarantined, and where it is now: a sentence for people. */
  readonly quarantined: string | null;
  /**
   * Does work whole or not at all, seen by nobody before its end. What a method of the session reads of
   * jobs is locked until then. Every write of more than one row goes through it.
   */
  transaction<T>(work: (session: StoreSession) => Promise<T>, durability?: Durability): Promise<T>;
  /** Has all that was committed on the disk. */
  sync(): Promise<void>;
  /** Called once all that is committed by now survives a power loss; at once if it does already. */
  onDurable(notify: () => void): void;
  /** For what must not be lost: on a full disk the reserve is given up, and the work tried once more. */
  retryWhenFull<T>(work: () => Promise<T>): Promise<T>;
  /** Waits no longer than this for a log that others have locked, while this work is done. */
  withBusyTimeout<T>(ms: number, work: () => Promise<T>): Promise<T>;
  /** For reports: portable queries, built by Kysely, which is loaded only now. They change nothing. */
  queries(): Promise<Kysely<ActivityLog>>;
  /** For health checks, which are loaded only now. They change nothing. */
  checks(): Promise<CheckStore>;
  /** Whether checks may find something, and how tiers stand, which most often is all that is asked. */
  glance(from: GlanceFrom, tiers: readonly string[]): Promise<Glance>;
  /** Lets whoever finds nothing to do sleep until another process has committed. */
  watch(): ChangeWatch;
  close(): Promise<void>;
}

/**
 * `durable`: survives a power loss once the transaction has ended. `soon`: survives the death of this
 * process at once, and a power loss a moment later; {@link Store.onDurable} tells when.
 */
export type Durability = 'durable' | 'soon';

/** Everything that can be asked inside a transaction, or alone where it is one statement. */
export interface StoreSession {
  readonly jobs: JobStore;
  readonly claims: ClaimStore;
  readonly scriptJobs: ScriptJobStore;
  readonly runs: RunStore;
  readonly workers: WorkerStore;
  readonly events: EventStore;
  readonly pauses: PauseStore;
  readonly pruning: PruneStore;
  readonly usual: UsualStore;
  readonly chores: ChoreStore;
  readonly deliveries: DeliveryStore;
  readonly telemetry: TelemetryStore;
  readonly incidents: IncidentStore;
  readonly metrics: MetricStore;
  readonly tokens: TokenStore;
}

// ---- jobs of the queue ------------------------------------------------------------------------------

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

/** What changes of a job. The store keeps `ready` in step with `state` and `run_at` at the instant `at`. */
export interface JobChange {
  readonly id: number;
  readonly set: Partial<Omit<JobRow, 'id' | 'ready'>>;
}

export interface JobStore {
  /** In their order; their numbers. None has a unique key that is taken, or a parent that was not locked. */
  add(jobs: readonly NewJobRow[], at: number): Promise<number[]>;
  /** Locks jobs and their parents in ascending order, so that families change one after the other. */
  lock(ids: readonly number[]): Promise<void>;
  /** Jobs of the queue by number, in ascending order; those that are not there are left out. */
  byId(ids: readonly number[]): Promise<JobRow[]>;
  /** The unfinished job that has this key. */
  byUniqueKey(key: string): Promise<JobRow | null>;
  change(changes: readonly JobChange[], at: number): Promise<void>;
  /** Data of a job, merged with this by RFC 7396. */
  mergeData(id: number, patch: string): Promise<string>;
  /** Replaces the data of a job while this claim holds. False: it does not. */
  updateData(id: number, token: string, data: string): Promise<boolean>;
  children(parentId: number): Promise<JobRow[]>;
  hasOpenChildren(parentId: number): Promise<boolean>;
  /** What has ended is no news for the parent any more. */
  markReported(parentId: number): Promise<void>;
  /** Deletes jobs with their runs; names of output files that no run has any more. */
  delete(ids: readonly number[]): Promise<readonly string[]>;
  list(filter: JobFilter): Promise<JobRow[]>;
  /** Those of the list, by number, that hold a text. Rows are read one after another, so it stops in time. */
  search(filter: JobFilter & { readonly order: 'newest' | 'oldest' }, wanted: JobSearch): Promise<FoundJobs>;
  /** By name and state; what waits also by whether it is due at `at`. */
  count(patterns: readonly string[], at: number): Promise<JobCountRow[]>;
  /** What has happened to the jobs of each handler since the log began, by name; also to those that are gone. */
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
  /** So many are left out first. Default 0. */
  readonly offset?: number | undefined;
  readonly at: number;
}

export interface JobSearch {
  /** In data, result or reason, letter by letter as it stands there; A to Z in either case. */
  readonly text: string;
  /** So many jobs are looked at. */
  readonly most: number;
  /** Asked from time to time; true: it has taken long enough. */
  readonly isLate: () => boolean;
}

export interface FoundJobs {
  readonly rows: readonly JobRow[];
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
  /** Of runs their outcome; `lost`: their job was deleted before they ended. */
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

// ---- claims -----------------------------------------------------------------------------------------

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
export interface HeldRow extends JobRow {
  readonly has_children: boolean;
}

/** By what a claim is known to whoever settles it. */
export interface ClaimRef {
  readonly id: number;
  readonly token: string;
}

export interface ExpiredClaim {
  readonly job: JobRow;
  readonly workerId: number | null;
}

export interface ClaimStore {
  /** The job that is next; null: none is due. Changes nothing but which index a job that is due stands in. */
  next(selection: Selection, at: number): Promise<WaitingJob | null>;
  /** Whether any job is due, whoever may take it. */
  hasDue(at: number): Promise<boolean>;
  /** When something can be taken that cannot be now: a job becomes due, a lease expires, a pause ends. */
  nextWake(at: number, graceMs: number): Promise<number | null>;
  /** Takes the jobs that are next, up to so many. To be called in a transaction. */
  claim(request: ClaimRequest): Promise<ClaimedRow[]>;
  /** Rows of jobs whose claim still holds, locked. */
  held(claims: readonly ClaimRef[]): Promise<HeldRow[]>;
  /** Gives back what was claimed and has not begun, untouched: it waits as one that was tried, or was not. */
  release(claims: readonly ClaimRef[], at: number): Promise<void>;
  /** Renews all claims of a worker, each by its own lease; the shortest of these, null: it has none. */
  renew(workerId: number, at: number, defaultLeaseMs: number): Promise<number | null>;
  /** Claims whose lease has expired at that instant; of who is no worker, this much later. */
  expired(at: number, graceMs: number): Promise<ExpiredClaim[]>;
  /** Gives a worker that was late more time. */
  extend(id: number, leaseExpiresAt: number): Promise<void>;
  /** Every job that a worker of the runner has, or had when it died: `claimed` and `running`. */
  ofWorkers(): Promise<ClaimOfWorker[]>;
}

export interface ClaimOfWorker {
  readonly job: JobRow;
  readonly token: string;
  readonly worker: WorkerRow;
  /** Its row in `runs`, if it has lasted long enough to have one. */
  readonly run: StartedRunRow | null;
}

// ---- scripts' jobs ----------------------------------------------------------------------------------

/** A script's one row in `jobs`. */
export type ScriptJobRow = JobRow & { readonly tier: string };

export interface ScriptJobStore {
  /** Queues scripts for a pass, in their order: their rows are made, or begun anew. Their numbers. */
  enqueue(scripts: readonly NewScriptJob[]): Promise<number[]>;
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
  readonly scheduledFor: number | null;
  readonly at: number;
}

export interface ScriptClaim extends ClaimRef {
  /** `claimed`: it begins later. */
  readonly state: 'claimed' | 'running';
  readonly at: number;
}

// ---- runs -------------------------------------------------------------------------------------------

/** What a run is known by from its beginning. */
export interface RunStart {
  readonly jobId: number;
  readonly workerId: number | null;
  /** Its claim's token, by which its files are named; null: it has none of a worker. */
  readonly key: string | null;
  /** `hourly/clean-tmp`, `queue/mail/welcome`. */
  readonly script: string;
  /** SHA-256, hex; null: unknown. */
  readonly contentHash: string | null;
  readonly attempt: number;
  readonly scheduledFor: number | null;
  readonly startedAt: number;
  readonly timeoutMs: number | null;
}

/** A run that lasts: its row is there before its end. */
export interface LastingRun extends RunStart {
  readonly pid: number | null;
  readonly startTicks: number | null;
  readonly maxRssBytes: number | null;
}

export interface StartedRunRow {
  readonly id: number;
  readonly jobId: number;
  readonly key: string | null;
  readonly script: string;
  readonly startedAt: number;
  readonly attempt: number;
  readonly timeoutMs: number | null;
  readonly pid: number | null;
  readonly startTicks: number | null;
  readonly maxRssBytes: number | null;
}

export interface EndedRun extends RunStart {
  /** Its row, if it has one; null: it is written now. */
  readonly runId: number | null;
  readonly end: FinishedRun;
  /** State in which it leaves its job; null: finished. */
  readonly leftJob: JobState | null;
  readonly spoolId?: string | null;
}

/** A run that has a row. The number alone may be another run's by now: jobs are deleted with their runs. */
export interface RunRef {
  readonly runId: number;
  readonly jobId: number;
}

/** What the newest runs of a script tell. */
export interface RunHistory {
  /** When its last success began, and how long that took. */
  readonly lastSuccess: number | null;
  readonly lastDurationMs: number | null;
  readonly lastOutcome: Outcome | null;
}

export interface RunStore {
  /** Writes rows of runs that go on; their numbers. */
  start(runs: readonly LastingRun[]): Promise<number[]>;
  /** What is known of a run that goes on. */
  progress(run: RunRef, seen: { pid: number; startTicks: number | null; maxRssBytes: number | null }): Promise<void>;
  /** Writes how runs ended; their numbers. */
  end(runs: readonly EndedRun[]): Promise<number[]>;
  /** The job's run that goes on, if it has a row. */
  running(jobId: number): Promise<StartedRunRow | null>;
  /** Keeps what a run printed whose claim was lost, unless its output is known. */
  addOutput(run: RunRef, end: FinishedRun): Promise<void>;
  history(script: string): Promise<RunHistory>;
  /**
   * Whether an earlier try of the job died with its worker, or its lease expired. Of a repeating job only the
   * tries of this time count: they begin with the last first one that was not given back.
   */
  hasTryCrashed(jobId: number): Promise<boolean>;
  /** When the job's last successful run began; null: it has none. */
  lastSuccess(jobId: number): Promise<number | null>;
  /** How the job's last run ended; null: it has none. */
  lastOutcome(jobId: number): Promise<Outcome | null>;
  /** Durations of the script's last successful runs, newest first. */
  durations(script: string, limit: number): Promise<number[]>;
  /** Names of the files in the output folder that runs have. */
  outputFiles(): Promise<string[]>;
  /** Those of these spool ids that the log has. */
  knownSpoolIds(ids: readonly string[]): Promise<string[]>;
}

// ---- what is usual ----------------------------------------------------------------------------------

/** What a successful run is compared by. Unknown figures are null. */
export interface MeasuredRun {
  readonly id: number;
  readonly script: string;
  readonly startedAt: number;
  readonly durationMs: number | null;
  readonly maxRssBytes: number | null;
  readonly outputBytes: number | null;
  /** JSON: an object of numbers by name. */
  readonly counts: string;
}

export type Deviation = Omit<DeviationsTable, 'run_id'>;

/** That a script's content is another one since it last succeeded. Epoch milliseconds. */
export interface ContentChange {
  /** When the new content first ran. */
  readonly changedAt: number;
  /** When the last run with another content began that succeeded. */
  readonly lastSuccessAt: number;
}

export interface UsualStore {
  /** Successful runs that were not compared yet, the oldest first. */
  uncompared(limit: number): Promise<MeasuredRun[]>;
  /** A script's last successful runs that began before, newest first; it looks no further back than 10 times as many. */
  successes(script: string, before: number, limit: number): Promise<MeasuredRun[]>;
  /** Writes down what of these runs was unusual: they are not compared again. */
  setCompared(runs: readonly { readonly id: number; readonly deviations: readonly Deviation[] }[]): Promise<void>;
  /** Runs that go on, the oldest first; those of dead workers too. */
  running(): Promise<{ readonly id: number; readonly script: string; readonly startedAt: number }[]>;
  /** Of a run, or of a script's newest one; null: its content is what it was, or it is not known. */
  change(of: { readonly runId: number } | { readonly script: string }): Promise<ContentChange | null>;
}

// ---- workers ----------------------------------------------------------------------------------------

/** A worker as it begins. */
export interface NewWorker {
  readonly kind: WorkerKind;
  /** Null: it processes jobs of the queue. */
  readonly tier: string | null;
  readonly host: string;
  readonly bootId: string | null;
  readonly pid: number;
  readonly startTicks: number | null;
  readonly trigger: Trigger;
  readonly scheduledFor: number | null;
  readonly startedAt: number;
  readonly runnerVersion: string;
  readonly nodeVersion: string;
}

export interface WorkerEnd {
  readonly state: 'finished' | 'crashed';
  readonly at: number;
  readonly reason: string | null;
}

/** A pass that has ended or was skipped. */
export interface PassRow {
  readonly id: number;
  readonly state: WorkerRow['state'];
  readonly startedAt: number;
  readonly scheduledFor: number | null;
  readonly skipCode: SkipCode | null;
  readonly reason: string | null;
}

export interface WorkerStore {
  start(worker: NewWorker): Promise<number>;
  skip(worker: NewWorker, code: SkipCode, reason: string): Promise<number>;
  /** Writes down a worker that has ended without the log. */
  addEnded(worker: NewWorker, end: WorkerEnd): Promise<number>;
  /** Only while it is believed to be at work. False: somebody else has ended it. */
  end(id: number, end: WorkerEnd): Promise<boolean>;
  /** Workers that are believed to be at work: of a tier, or all. */
  running(tier?: string): Promise<WorkerRow[]>;
  byId(ids: readonly number[]): Promise<WorkerRow[]>;
  /** The worker that this description fits. */
  find(worker: NewWorker): Promise<WorkerRow | null>;
  /** What its spool says of a worker that ran without the log counts more than that it was found dead. */
  correct(id: number, end: WorkerEnd): Promise<void>;
  /** When each tier was last called by schedule, whether it could run or not. */
  lastCalls(): Promise<ReadonlyMap<string, number>>;
  /** Passes of a tier, the newest first: how far back, and of which states. */
  passes(tier: string, filter: PassFilter): Promise<PassRow[]>;
  /** Whether there may be something to rescue: a worker at work, or a job that a worker has. */
  hasOpen(): Promise<boolean>;
}

export interface PassFilter {
  readonly limit: number;
  readonly scheduledFor?: number | undefined;
  readonly startedFrom?: number | undefined;
  readonly states?: readonly WorkerRow['state'][] | undefined;
}

// ---- events, pauses, pruning ------------------------------------------------------------------------

export interface NewEvent {
  readonly at: number;
  readonly event: StoredEvent;
  readonly workerId?: number | null;
  readonly jobId?: number | null;
  readonly runId?: number | null;
  readonly detail?: string | null;
  /** Who asked for it through the API. */
  readonly actor?: string | null;
}

export interface EventStore {
  record(events: readonly NewEvent[]): Promise<void>;
  /** When the newest worker, job or event was recorded, the latest of them; null: the log is empty. */
  newestAt(): Promise<number | null>;
}

export interface Pause {
  /** `*`: everything; a tier's name; a script's: `hourly/clean-tmp`; `queue/` and a glob of job names. */
  readonly name: string;
  readonly kind: PauseKind;
  /** Epoch milliseconds; null: until it is resumed. */
  readonly until: number | null;
  readonly createdAt: number;
}

export interface PauseStore {
  /** Those in force at that instant, by name. */
  inForce(at: number): Promise<Pause[]>;
  /** Replaces one of the same name. */
  set(pause: Pause): Promise<void>;
  /** Removes this one, or all; those that were removed. */
  remove(name: string | null): Promise<Pause[]>;
}

/** Steps of pruning; each deletes at most `limit` rows. */
export interface PruneStore {
  /** Jobs of the queue in these states that ended before, the longest ago first, with their runs. */
  endedJobs(states: readonly JobState[], before: number, limit: number): Promise<PruneStep>;
  /** Runs that began before, of scripts and of jobs that repeat: those have no end to go by. */
  runs(before: { succeeded: number; failed: number }, limit: number): Promise<PruneStep>;
  /** The oldest of what has ended, whatever its age: to come below a size. */
  oldest(limit: number): Promise<PruneStep>;
  events(before: number, limit: number): Promise<PruneStep>;
  /** Workers that ended before; one stays as long as one of its runs does. */
  workers(before: number, limit: number): Promise<PruneStep>;
  /** Bytes of the log in use, output files included; free space inside the file does not count. */
  usedBytes(): Promise<number>;
  /** How many there are of what `oldest` deletes next: runs, or where there are none ended jobs. */
  rows(): Promise<number>;
  /** Gives so many free pages back to the disk, unless others write just now. */
  shrink(pages: number): Promise<void>;
}

export interface PruneStep {
  readonly deleted: number;
  readonly outputFiles: readonly string[];
}

// ---- housekeeping, alerts ---------------------------------------------------------------------------

/** What there is to be done besides jobs, by whichever invocation comes first. */
export interface DueChores {
  /** An hour is over, or something became known of one that was closed. */
  readonly hours: boolean;
  readonly checks: boolean;
  /** There are runs to be compared. */
  readonly usual: boolean;
  readonly deliveries: boolean;
  /** Of an incident there may be something to be told. */
  readonly incidents: boolean;
}

/** What invocations do from time to time, whichever comes first: `checks`, `digest`. */
export interface ChoreStore {
  /**
   * Asked at the end of every invocation, and cheap: mostly it is nothing.
   *
   * @param whileRunningMs how often checks are due while a run goes on; default: as often as otherwise
   */
  due(at: number, checksEveryMs: number, whileRunningMs?: number): Promise<DueChores>;
  /** When it was last done; null: never. */
  doneAt(name: string): Promise<number | null>;
  setDone(name: string, at: number): Promise<void>;
}

export interface NewDelivery {
  readonly kind: DeliveryKind;
  /** Name of the channel in the settings. */
  readonly channel: string;
  /** JSON. */
  readonly body: string;
  readonly at: number;
}

export interface DeliveryRow {
  readonly id: number;
  readonly kind: DeliveryKind;
  readonly channel: string;
  readonly body: string;
  readonly createdAt: number;
  /** Tries so far. */
  readonly attempts: number;
  readonly reason: string | null;
}

/** Messages on their way out. */
export interface DeliveryStore {
  add(deliveries: readonly NewDelivery[]): Promise<void>;
  /** Takes those that are due, the oldest first: until then nobody else tries them. */
  claim(at: number, until: number, limit: number): Promise<DeliveryRow[]>;
  /** It has arrived. */
  remove(id: number): Promise<void>;
  /** @param dueAt when it is tried again; null: it is given up */
  postpone(id: number, dueAt: number | null, reason: string): Promise<void>;
  /** Those that have not arrived though tried, or were given up, the oldest first. */
  undelivered(): Promise<DeliveryRow[]>;
  /** Deletes all of a kind and channel: what is sent now says more. */
  supersede(kind: DeliveryKind, channel: string): Promise<void>;
  /** Deletes what was given up before. */
  prune(before: number): Promise<void>;
}

// ---- telemetry ---------------------------------------------------------------------------------------

/** A run that has ended, as somebody outside is told of it. */
export interface EndedRunFacts {
  readonly id: number;
  readonly script: string;
  readonly jobId: number;
  /** Null: it was run by somebody who is no worker of the runner. */
  readonly host: string | null;
  readonly trigger: Trigger | null;
  readonly outcome: Outcome;
  readonly attempt: number;
  readonly scheduledFor: number | null;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  readonly durationMs: number | null;
  readonly userCpuMs: number | null;
  readonly systemCpuMs: number | null;
  readonly maxRssBytes: number | null;
  readonly measuredBy: MeasuredBy | null;
  readonly pid: number | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly reason: string | null;
  readonly errorName: string | null;
  readonly errorMessage: string | null;
  readonly errorStack: string | null;
}

/** How far the runs of the log were told: the newest one that was looked at, and those that had not ended by then. */
export interface ToldRun {
  readonly id: number;
  /** A run that is deleted may leave its number to another one. */
  readonly startedAt: number;
  readonly isOpen: boolean;
}

export interface UntoldQuery {
  /** Of a log of which nothing was told so far, only runs that began since then. */
  readonly firstSince: number;
  /** What ended before is told to nobody. */
  readonly since: number;
  /** How many runs are looked at. */
  readonly limit: number;
}

export interface UntoldRuns {
  readonly runs: readonly EndedRunFacts[];
  /** To be kept by {@link TelemetryStore.keepTold} once they have arrived. */
  readonly told: readonly ToldRun[];
  /** Whether there may be more of them. */
  readonly hasMore: boolean;
}

/** How often something has happened to a script since the log began, and how long that took. */
export interface CounterRow {
  readonly name: string;
  /** `added`: jobs of the queue; else runs that ended so. */
  readonly what: Outcome | 'added';
  readonly times: number;
  /** How many of them are known to have taken how long, and that time. */
  readonly timed: number;
  readonly run_ms: number;
  readonly cpu_ms: number;
}

/** How a site is now; null is unknown. */
export interface SiteState {
  readonly scripts: readonly {
    readonly script: string;
    readonly lastAt: number | null;
    readonly lastOutcome: Outcome | null;
    readonly lastSuccessAt: number | null;
  }[];
  readonly tiers: readonly { readonly tier: string; readonly lastPassAt: number | null }[];
  readonly queue: {
    readonly jobs: Readonly<Record<'waiting' | 'delayed' | 'running' | 'failed', number>>;
    /** How long the first of those that wait has been due; null: none waits. */
    readonly ageMs: number | null;
  };
  readonly running: number;
  readonly workers: number;
  readonly incidents: Readonly<Record<Severity, number>>;
  readonly deliveries: { readonly waiting: number; readonly givenUp: number };
  readonly logBytes: number;
}

/** Which runs were sent to a collector. Whoever asks holds a delivery of that kind: nobody else does meanwhile. */
export interface TelemetryStore {
  /** Asks for a delivery, unless one is on its way. */
  request(channel: string, at: number): Promise<void>;
  /** Runs that have ended and were not told yet, each once, whatever was deleted meanwhile. */
  untold(query: UntoldQuery): Promise<UntoldRuns>;
  keepTold(told: readonly ToldRun[]): Promise<void>;
  /** Adds to what has happened since the log began. */
  addCounters(rows: readonly CounterRow[]): Promise<void>;
  counters(): Promise<CounterRow[]>;
  /** When the first run of the log began, which may be long gone; null: nothing has run. */
  beganAt(): Promise<number | null>;
  state(at: number): Promise<SiteState>;
}

// ---- incidents --------------------------------------------------------------------------------------

/** That something is wrong, as it was seen once. */
export interface IncidentSign extends Pick<IncidentRow, 'subject' | 'code' | 'fingerprint' | 'severity'> {
  readonly at: number;
  readonly runId: number | null;
  readonly message: string | null;
  readonly hint: string | null;
}

/** A run of a subject that has succeeded. */
export interface SubjectSuccess {
  readonly subject: string;
  readonly code: string;
  readonly at: number;
  /** Failures are over only once the last one is so long ago; null: at once. */
  readonly calmMs: number | null;
  /** Only what was last seen by then is over: it is told late. */
  readonly seenBy?: number;
}

/** An incident with what is known of its last run; null: that is gone. */
export interface IncidentRun {
  readonly id: number;
  readonly startedAt: number;
  readonly outcome: Outcome;
  readonly durationMs: number | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly reason: string | null;
  /** Null: a script's. */
  readonly queueJobId: number | null;
  /** The end of what it has printed. */
  readonly output: string | null;
}

export interface Mute {
  /** A glob over subjects. */
  readonly name: string;
  /** Epoch milliseconds; null: until it is taken back. */
  readonly until: number | null;
  readonly createdAt: number;
}

export interface IncidentChange {
  readonly id: number;
  readonly set: Partial<Omit<IncidentRow, 'id'>>;
}

/** What is wrong, and what was told of it. */
export interface IncidentStore {
  /** Counts for what is open of it. False: nothing is. */
  count(sign: IncidentSign): Promise<boolean>;
  open(sign: IncidentSign): Promise<void>;
  /** The one statement that follows each success, which mostly finds nothing. */
  succeed(success: SubjectSuccess): Promise<void>;
  /** What is not over: all, or of these subjects. */
  current(subjects?: readonly string[]): Promise<IncidentRow[]>;
  /** Of which there may be something to be told, in the order in which they were seen. */
  due(at: number): Promise<IncidentRow[]>;
  /** All that is known, the newest first. */
  list(limit: number): Promise<IncidentRow[]>;
  change(changes: readonly IncidentChange[]): Promise<void>;
  /** The last run of an incident. */
  lastRun(incident: Pick<IncidentRow, 'subject' | 'last_run_id'>): Promise<IncidentRun | null>;
  /** How the newest runs of a subject that have ended did so, the newest first. */
  outcomes(subject: string, limit: number): Promise<{ outcome: Outcome; durationMs: number | null }[]>;
  mutes(at: number): Promise<Mute[]>;
  /** Replaces one of the same name. */
  mute(mute: Mute): Promise<void>;
  /** Those that there were. */
  unmute(names: readonly string[]): Promise<Mute[]>;
  /** Whatever was to be looked at later is looked at now. */
  lookAgain(at: number): Promise<void>;
  /** When a channel was told something since. Older ones are forgotten. */
  tellings(channel: string, since: number): Promise<number[]>;
  addTelling(channel: string, at: number): Promise<void>;
  /** What a channel is to be told later, and nobody has tried to yet. */
  pending(channel: string, at: number): Promise<Pick<DeliveryRow, 'id' | 'body'> | null>;
  rewrite(delivery: number, body: string): Promise<void>;
  /** Deletes what was over before, and of each subject all but the newest. */
  prune(before: number, newest: number): Promise<number>;
}

// ---- tokens -----------------------------------------------------------------------------------------

/** A credential of the dashboard, without what it is checked by. */
export interface Token {
  readonly id: number;
  readonly name: string;
  readonly permission: TokenPermission;
  readonly createdAt: number;
  /** Null: never. */
  readonly expiresAt: number | null;
  /** The beginning of the day, UTC, on which it was last used; null: it never was. */
  readonly lastUsedAt: number | null;
}

export interface HashedToken extends Token {
  /** SHA-256, hex. */
  readonly hash: string;
}

export interface TokenStore {
  /** Null: there is one of that name. */
  add(token: Omit<HashedToken, 'id' | 'lastUsedAt'>): Promise<Token | null>;
  /** By name. */
  list(): Promise<Token[]>;
  byHash(hash: string): Promise<HashedToken | null>;
  byId(id: number): Promise<HashedToken | null>;
  /** False: there is none of that name. */
  remove(name: string): Promise<boolean>;
  /** @param day its beginning, UTC */
  noteUse(id: number, day: number): Promise<void>;
}

// ---- metrics ----------------------------------------------------------------------------------------

/** A run, or what counts like one, as far as metrics are made of it. */
export type MeasuredRow = Selectable<UncountedTable>;

/** A worker that was there in an hour. */
export type PresentWorker = Pick<WorkerRow, 'id' | 'kind' | 'tier' | 'state' | 'started_at' | 'finished_at'>;

/** Of a script or handler: `hourly/clean-tmp`, `queue/mail/welcome`. */
export type ScriptMetrics = Omit<Selectable<MetricsTable>, 'script_id'> & { readonly name: string };

export type WorkerMetrics = Selectable<WorkerMetricsTable>;

/** Jobs of a handler that are due and wait. */
export interface WaitingJobs {
  readonly name: string;
  readonly jobs: number;
  /** When the first of them was due. */
  readonly since: number;
}

/** From the first instant on, before the second one. */
export interface Span {
  readonly from: number;
  readonly until: number;
}

/** Hours begin at whole hours of UTC and end before the next one. */
export interface MetricStore {
  /** All that happened before is counted; null: nothing is. */
  countedUntil(): Promise<number | null>;
  /** Nobody is to count it again: what no row tells any more is forgotten. */
  setCountedUntil(at: number): Promise<void>;
  /** The first instant from this one on at which anything began, ended or was added; null: there is none. */
  nextAt(from: number): Promise<number | null>;
  /** Runs that were going on at some time of it or ended in it, jobs that were added, and those that failed alone. */
  measured(span: Span): Promise<MeasuredRow[]>;
  /** The beginnings and ends before this instant that no row tells any more, or that came too late. */
  uncounted(before: number): Promise<MeasuredRow[]>;
  /** Workers that were there, and calls that were skipped. */
  workers(span: Span): Promise<PresentWorker[]>;
  /** What is due and waits now, of what was due at that instant. */
  waiting(at: number): Promise<WaitingJobs[]>;
  /** Hours that begin in this span, of these scripts or of all; by script, the oldest first. */
  read(span: Span, names: readonly string[] | null): Promise<ScriptMetrics[]>;
  readWorkers(span: Span): Promise<WorkerMetrics[]>;
  /** In place of what is known of the same hour. */
  write(scripts: readonly ScriptMetrics[], workers: readonly WorkerMetrics[]): Promise<void>;
  /** Deletes hours that began before; how many rows. */
  prune(before: number, limit: number): Promise<number>;
}

// ---- health checks ----------------------------------------------------------------------------------

/** What health checks ask of the log, each with a few steps into an index. */
/** From when on, and how much of it, is too much to be overlooked. UTC epoch milliseconds. */
export interface GlanceFrom {
  readonly at: number;
  /** Runs in progress that have begun by then. */
  readonly runningSince: number;
  readonly failedSince: number;
  readonly fewestFailed: number;
  readonly crashedSince: number;
  readonly fewestCrashes: number;
  /** Messages that were tried, and made by then. */
  readonly undeliveredSince: number;
}

/** What a glance at the log tells. */
export interface Glance {
  /** Something may be wrong with runs, the queue, workers or messages, or is known to be with what checks look at. */
  readonly isSuspicious: boolean;
  readonly tiers: readonly TierGlance[];
}

export interface TierGlance extends Pick<TierCallRow, 'tier' | 'calledAt' | 'isDue'> {
  /** Whether its last call has found the lock held; null: it was never called. */
  readonly isHeld: boolean | null;
  /** Of its scripts that do not run now, when the first one was last tried, or queued; null: it has none. */
  readonly idleSince: number | null;
}

export interface CheckStore {
  /** How each tier that was ever called stands. */
  tiers(): Promise<TierCallRow[]>;
  /** When the oldest call that is known was made by schedule; null: none was. */
  firstCall(): Promise<number | null>;
  /** The one row of each script. */
  scripts(): Promise<ScriptStandRow[]>;
  /** Of a script, its failures since it last succeeded, counted up to `limit`. */
  failures(script: string, limit: number): Promise<FailureStreak>;
  /** Runs that go on, the oldest first, with their workers; not those of who is no worker. */
  running(): Promise<RunningRow[]>;
  /** Jobs of the queue that are due, by name, of the `limit` that are taken next. */
  due(at: number, limit: number): Promise<DueJobsRow[]>;
  /** How many jobs of the queue have ended like this since then, counted up to `limit`. */
  ended(state: 'finished' | 'failed', since: number, limit: number): Promise<number>;
  /** When a worker last began to process jobs of the queue; null: none ever has. */
  lastQueueWork(): Promise<number | null>;
  /** Workers that are believed to process jobs of the queue. */
  queueWorkers(): Promise<WorkerIdentityRow[]>;
  /** Whether somebody who is no worker of the runner has a job of the queue. */
  isClaimedOutside(): Promise<boolean>;
  /** Whether anything is known to be wrong, other than that scripts fail. */
  hasIncidents(): Promise<boolean>;
  /** Workers that have died since then, the newest first. */
  crashed(since: number): Promise<CrashedWorkerRow[]>;
}

export interface TierCallRow {
  readonly tier: string;
  /** Its last call by schedule, skipped ones too; null: it was only called by hand. */
  readonly calledAt: number | null;
  /** By the one line for all tiers. */
  readonly isDue: boolean;
  /** In how many periods in a row calls have found the lock held by an earlier pass, and since when. */
  readonly held: number;
  readonly heldSince: number | null;
}

export interface ScriptStandRow {
  readonly name: string;
  readonly tier: string;
  readonly state: JobState;
  /** When its last try began. */
  readonly startedAt: number | null;
  /** When it was first queued. */
  readonly createdAt: number;
  readonly reason: string | null;
}

export interface FailureStreak {
  readonly count: number;
  /** When the first of them began. */
  readonly since: number | null;
  /** How the last one ended: one sentence. */
  readonly reason: string | null;
}

/** Which process a worker is. */
export interface WorkerIdentityRow {
  readonly pid: number;
  readonly startTicks: number | null;
  readonly host: string;
  readonly bootId: string | null;
}

/** A run that goes on, with the process of its worker. */
export interface RunningRow extends WorkerIdentityRow {
  readonly id: number;
  readonly script: string;
  readonly startedAt: number;
  readonly timeoutMs: number | null;
}

export interface DueJobsRow {
  readonly name: string;
  readonly jobs: number;
  /** Since when the first of them is due. */
  readonly oldest: number;
}

export interface CrashedWorkerRow {
  /** Null: it processed jobs of the queue. */
  readonly tier: string | null;
  readonly finishedAt: number;
  readonly reason: string | null;
}

// ---- waiting ----------------------------------------------------------------------------------------

/** Lets whoever finds nothing to do sleep until another process has written to the log. */
export interface ChangeWatch {
  /** Which version of the log is seen now. To be asked before looking for work, not after it. */
  look(): number;
  /**
   * Sleeps until another connection has committed since that look, the clock shows `untilMs` (null:
   * never), or a signal tells to stop; not at all if that is so already.
   */
  changed(since: number, untilMs: number | null, ...signals: AbortSignal[]): Promise<WaitEnd>;
  /** There was something to do. Who never finds anything while others write is woken less often. */
  found(): void;
  close(): void;
}

export type WaitEnd = 'changed' | 'due' | 'stopped';
