import type { IncidentRow } from '../schema.ts';
import type { DeliveryKind, MeasuredBy, Outcome, Severity, Trigger } from '../words.ts';

/** What there is to be done besides jobs, by whichever invocation comes first. */
export interface DueChores {
  /** An hour is over, or something became known of one that was closed. */
  readonly hours: boolean;
  readonly checks: boolean;
  /** On a fleet: of what each machine checks for itself. */
  readonly ownChecks?: boolean;
  /** There are runs to be compared. */
  readonly usual: boolean;
  readonly deliveries: boolean;
  /** Of an incident there may be something to be told. */
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
 * What invocations do from time to time, whichever comes first: `checks`, `digest`. Of each machine `boot <host> <id>`,
 * on a fleet also `checks <host>`: {@link MachineStore.forget} knows them.
 */
export interface ChoreStore {
  /**
   * Asked at the end of every invocation, and cheap: mostly it is nothing.
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
    readonly lastWarning: string | null;
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
  /** What it ends. */
  readonly codes: readonly string[];
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
  /** Until the transaction ends, nobody else tells of any, or ends one: to be called first in it. */
  lock(): Promise<void>;
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
