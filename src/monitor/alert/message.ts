import type { Outcome, Severity } from '../../store/schema.ts';

/** What is told of one incident. Unknown values are null. */
export interface IncidentDetail {
  readonly id: number;
  readonly subject: string;
  readonly severity: Severity;
  readonly code: string;
  /** UTC epoch milliseconds. */
  readonly openedAt: number;
  /** Null: it is not over. */
  readonly recoveredAt: number | null;
  readonly occurrences: number;
  readonly lastRun: LastRun | null;
  /** One sentence: why the last run failed, or what a check says. */
  readonly error: string | null;
  /** The last lines that the run has printed, masked. */
  readonly output: string | null;
  /** What usually happens: "succeeds in 41 s, 27 of the last 30 times". */
  readonly usual: string | null;
  /** What has changed since it last succeeded. */
  readonly changed: string | null;
  /** By which to look closer, or what cures it. */
  readonly command: string;
}

interface LastRun {
  readonly id: number;
  /** The job of the queue that it was for; null: it was a script's. */
  readonly jobId: number | null;
  readonly outcome: Outcome;
  readonly startedAt: number;
  readonly durationMs: number | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
}

/** `digest`: several incidents, of which some have opened, and others are over. */
export type AlertEvent = 'opened' | 'reminder' | 'recovered' | 'digest';

/** The body of a webhook; all other channels put it into words. */
export interface AlertMessage {
  readonly version: 1;
  readonly event: AlertEvent;
  readonly incidents: readonly IncidentDetail[];
  readonly host: string;
  readonly root: string;
}
