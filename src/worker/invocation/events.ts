import { EventEmitter } from 'node:events';
import type { RunEnd } from '../../execution/result/result.ts';
import type { UnsentMail } from '../../monitor/alert/deliver.ts';
import type { PrintedIncident } from '../../monitor/alert/incidents/tell.ts';

export interface PassStarted {
  readonly tier: string;
  /** What it is going to run. */
  readonly scripts: readonly string[];
  /** Whether the tier holds any. */
  readonly hasScripts: boolean;
  /** What a script's last successful runs took; null: it has none, or the log cannot be asked. Left out: there is no log. */
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
  /** By which its files are named, and its output is found while it runs. */
  readonly key: string;
  readonly script: string;
  /** The file that it writes to, until its end is recorded; null: jobs before and after it write there, too. */
  readonly output: string | null;
}

export interface RunFinished extends Omit<RunStarted, 'output'> {
  /** Its number in the log; null: it is not there, or not yet. */
  readonly runId: number | null;
  /** The number of a job of the queue; null: it was a script's run. */
  readonly jobId: number | null;
  readonly end: RunEnd;
  /** When a failed one is tried again; null: it isn't, or that is not known yet. */
  readonly nextTryAt: number | null;
}

/** What happens during a pass: the terminal and the summary for cron's mail subscribe to it. */
interface WorkerEventMap {
  'pass-skipped': [PassSkipped];
  'pass-started': [PassStarted];
  'run-started': [RunStarted];
  'run-finished': [RunFinished];
  /** What somebody has to see to, in one sentence: the log is lost, or was quarantined. */
  problem: [string];
  /** Why something is not run now, in one sentence: it still runs, or is left to the next pass. */
  deferred: [string];
  /** What does not keep the pass from going on, in one sentence. */
  warning: [string];
  'pass-finished': [PassFinished];
  /** Nothing is run any more, and no lock is held: what a listener adds is waited for before the log is closed. */
  closing: [Promise<unknown>[]];
  /** What is to be printed for cron's mail; decided only if somebody listens. */
  incidents: [readonly PrintedIncident[]];
  /** An alert that a mail channel could not send. */
  unsent: [UnsentMail];
}

export type WorkerEvents = EventEmitter<WorkerEventMap>;

export function createWorkerEvents(): WorkerEvents {
  return new EventEmitter<WorkerEventMap>();
}
