import type { IncidentRow } from '../schema.ts';
import type { DeliveryKind, MeasuredBy, Outcome, Severity, Trigger } from '../words.ts';

/** Work besides jobs that is due; the first invocation that comes does it. */
export interface DueChores {
  /** An hour is over, or something became known about a closed hour. */
  readonly hours: boolean;
  readonly checks: boolean;
  /** On a fleet: checks that each machine makes for itself are due. */
  readonly ownChecks?: boolean;
  /** There are runs to be compared. */
  readonly usual: boolean;
  readonly deliveries: boolean;
  /** An incident may need an alert. */
  readonly incidents: boolean;
  /** An incident is open, and its subject may be gone. */
  readonly open: boolean;
}

/** A boot of a machine, as a chore that is done once: its name is the two, one after the other. */
export interface MachineBoot {
  readonly machine: string;
  readonly boot: string;
}

/**
 * Chores that the first invocation that comes does from time to time: `checks`, `digest`. For each machine there is
 * `boot <host> <id>`, on a fleet also `checks <host>`; {@link MachineStore.forget} removes these.
 */
export interface ChoreStore {
  /**
   * Called at the end of every invocation, so it is fast; usually nothing is due.
   *
   * @param whileRunningMs how often checks are due while a run goes on; default: as often as otherwise
   */
  due(at: number, checksEveryMs: number, whileRunningMs?: number): Promise<DueChores>;
  /** When it was last done; null: never. */
  doneAt(name: string): Promise<number | null>;
  /**
   * Notes that a machine was booted, once for each boot. To be called in a transaction.
   *
   * @returns whether an earlier boot of it is known; null: this one was noted before
   */
  noteBoot(boot: MachineBoot, at: number): Promise<'first' | 'next' | null>;
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
  /** Takes those that are due, the oldest first: until then nobody else tries them. To be called in a transaction. */
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

/** A run that has ended, in the form for telemetry. */
export interface EndedRunFacts {
  readonly id: number;
  readonly script: string;
  readonly jobId: number;
  /** Null: a caller that is no worker of the runner ran it. */
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
  /** In a log that has sent nothing so far: only runs that began since this time. */
  readonly firstSince: number;
  /** Runs that ended before this time are never sent. */
  readonly since: number;
  /** Most runs to look at. */
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
    readonly lastSuspect: 0 | 1;
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

/**
 * Records which runs were sent to a collector. The caller holds a delivery of that kind, so nobody else sends
 * meanwhile.
 */
export interface TelemetryStore {
  /** Requests a delivery, unless one is on its way. */
  request(channel: string, at: number): Promise<void>;
  /** Runs that have ended and were not sent yet, each once, even if rows were deleted meanwhile. */
  untold(query: UntoldQuery): Promise<UntoldRuns>;
  keepTold(told: readonly ToldRun[]): Promise<void>;
  /** Adds to what has happened since the log began. */
  addCounters(rows: readonly CounterRow[]): Promise<void>;
  counters(): Promise<CounterRow[]>;
  /** When the first run of the log began, which may be long gone; null: nothing has run. */
  beganAt(): Promise<number | null>;
  state(at: number): Promise<SiteState>;
}

/** One observation of a problem. */
export interface IncidentSign extends Pick<IncidentRow, 'subject' | 'code' | 'fingerprint' | 'severity'> {
  readonly at: number;
  readonly runId: number | null;
  readonly message: string | null;
  readonly hint: string | null;
}

/** A run of a subject that has succeeded. */
export interface SubjectSuccess {
  readonly subject: string;
  /** The codes of the incidents that it ends. */
  readonly codes: readonly string[];
  readonly at: number;
  /** Failures are over only if the last one is at least this long ago; null: at once. */
  readonly calmMs: number | null;
  /** Only incidents last seen by this time are over, because the report comes late. */
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

/** Incidents, and the alerts about them. */
export interface IncidentStore {
  /** Until the transaction ends, nobody else reports or ends an incident. Call it first in the transaction. */
  lock(): Promise<void>;
  /** Counts the sign for an open incident. False: none is open. */
  count(sign: IncidentSign): Promise<boolean>;
  open(sign: IncidentSign): Promise<void>;
  /** The one statement after each success; usually it finds nothing. */
  succeed(success: SubjectSuccess): Promise<void>;
  /** The open incidents: all, or those of these subjects. */
  current(subjects?: readonly string[]): Promise<IncidentRow[]>;
  /** Incidents that may need an alert, in the order in which they were seen. */
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
  /** Returns the mutes that existed. */
  unmute(names: readonly string[]): Promise<Mute[]>;
  /** Makes incidents due now that were to be looked at later. */
  lookAgain(at: number): Promise<void>;
  /** When a channel got messages since this time. Older records are deleted. */
  tellings(channel: string, since: number): Promise<number[]>;
  addTelling(channel: string, at: number): Promise<void>;
  /** A message to a channel that is due later, and that nobody has tried to send yet. */
  pending(channel: string, at: number): Promise<Pick<DeliveryRow, 'id' | 'body'> | null>;
  rewrite(delivery: number, body: string): Promise<void>;
  /** Deletes incidents that were over before this time, and for each subject all but the newest. */
  prune(before: number, newest: number): Promise<number>;
}
