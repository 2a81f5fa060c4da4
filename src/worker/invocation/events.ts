import { EventEmitter } from 'node:events';
import type { RunEnd } from '../../execution/result/result.ts';
import type { UnsentMail } from '../../monitor/alert/deliver.ts';
import type { PrintedIncident } from '../../monitor/alert/tell.ts';

export interface PassStarted {
  readonly tier: string;
  /** The scripts that it will run. */
  readonly scripts: readonly string[];
  /** Whether the tier contains any script. */
  readonly hasScripts: boolean;
  /**
   * The usual duration of a script's last successful runs in milliseconds; null: none, or the log cannot be read.
   * Absent: no log.
   */
  readonly usualDurationMs?: (script: string) => Promise<number | null>;
}

interface PassSkipped {
  readonly tier: string;
  /** "another pass of hourly is running: pid 4711 on web3, since …" */
  readonly reason: string;
}

interface PassFinished {
  readonly tier: string;
}

export interface RunStarted {
  /** The key that names its files, by which its output is found while it runs. */
  readonly key: string;
  readonly script: string;
  /** The file of its output until its end is recorded; null: jobs before and after it write to the same file. */
  readonly output: string | null;
}

export interface RunFinished extends Omit<RunStarted, 'output'> {
  /** Its number in the log; null: not in the log, or not yet. */
  readonly runId: number | null;
  /** The number of a job of the queue; null: the run of a script. */
  readonly jobId: number | null;
  readonly end: RunEnd;
  /** When a failed run is tried again; null: never, or not known yet. */
  readonly nextTryAt: number | null;
}

/** The events of a pass; the terminal and the summary for cron's mail listen to them. */
interface WorkerEventMap {
  'pass-skipped': [PassSkipped];
  'pass-started': [PassStarted];
  'run-started': [RunStarted];
  'run-finished': [RunFinished];
  /** One sentence about a problem that needs a person: the log is lost, or was quarantined. */
  problem: [string];
  /** One sentence that says why something does not run now: it still runs, or is left to the next pass. */
  deferred: [string];
  /** One sentence about a problem that does not stop the pass. */
  warning: [string];
  'pass-finished': [PassFinished];
  /** Nothing runs any more, and no lock is held. The log is closed only after the promises that listeners add. */
  closing: [Promise<unknown>[]];
  /** The incidents to print for cron's mail; they are computed only if there is a listener. */
  incidents: [readonly PrintedIncident[]];
  /** An alert that a mail channel could not send. */
  unsent: [UnsentMail];
}

export type WorkerEvents = EventEmitter<WorkerEventMap>;

export function createWorkerEvents(): WorkerEvents {
  return new EventEmitter<WorkerEventMap>();
}
