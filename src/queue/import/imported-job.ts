import type { JobState, MissedPolicy } from '../../store/schema.ts';

/** A job of another system's queue, as it is to be here. Instants are UTC epoch milliseconds. */
export interface ImportedJob {
  /** Its number there. */
  readonly id: string;
  /** Tells it from every other job of whatever file; the same in a copy, and when it has changed. */
  readonly key: string;
  readonly parent: string | null;
  readonly name: string;
  readonly state: JobState;
  /** JSON. */
  readonly data: string;
  readonly priority: number;
  readonly runAt: number;
  readonly scheduledFor: number | null;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly finishedAt: number | null;
  readonly attempts: number;
  /** How often it was handed out there. */
  readonly reserves: number;
  /** Null: as its handler says. */
  readonly maxAttempts: number | null;
  readonly repeat: string | null;
  readonly missed: MissedPolicy;
  readonly leaseMs: number | null;
  readonly reason: string | null;
  /** What somebody should know of how it was taken over; the same words for each job alike. */
  readonly notes: readonly string[];
}

/** A job that cannot be taken over. */
export interface BadJob {
  readonly id: string;
  readonly problem: string;
}

/** What is not taken over on purpose. */
export interface LeftOut {
  readonly leftOut: 'ended' | 'mocked';
}

export type Reading = ImportedJob | BadJob | LeftOut;

/** The queue of another system, to be read as often as one likes. */
export interface ForeignQueue {
  /** `Bedrock`, `LaterJob`. */
  readonly system: string;
  readonly table: string;
  /** What is to be known of the file as a whole. */
  readonly notes: readonly string[];
  isParent(id: string): boolean;
  /**
   * Each job, parents before children, else in the order in which they were added.
   *
   * @param bad numbers of jobs that cannot be taken over, as far as that is known
   */
  read(bad: ReadonlySet<string>): Iterable<Reading>;
}

/** What the caller wants. */
export interface ImportOptions {
  /** The table; default: the one that the system makes. */
  readonly table?: string;
  /** Ended jobs as well. Those that a parent is still to be told of are always taken over. */
  readonly withEnded: boolean;
  /** Of repeating jobs. */
  readonly missed: MissedPolicy;
  /** Of LaterJob's jobs, which have none. Default: the table's. */
  readonly name?: string;
  /** In which LaterJob's times are told. Default: UTC. */
  readonly timeZone?: string;
}
