import type { MeasuredBy, Outcome } from '../store/schema.ts';

/** What went wrong inside a Node script, as it reported it itself. */
export interface ScriptError {
  readonly name: string;
  readonly message: string;
  readonly stack: string | null;
}

/** CPU time and peak memory of a run, and how they were found out. Unknown is null. */
export interface Measurement {
  readonly userCpuMs: number | null;
  readonly systemCpuMs: number | null;
  readonly maxRssBytes: number | null;
  readonly measuredBy: MeasuredBy | null;
}

/** What is kept of a run's output. */
export interface KeptOutput {
  /** All of it, or its head and tail with a line between them that says what is left out. */
  readonly text: string;
  /** Bytes written in all. */
  readonly bytes: number;
  /** Bytes that are kept nowhere. */
  readonly droppedBytes: number;
  /** File name in the output folder, where the text is not all that is kept. */
  readonly file: string | null;
  /** Size of that file, compressed. */
  readonly fileBytes: number | null;
}

/** How one run ended. Success and failure are the same record. */
export interface RunEnd extends Measurement {
  readonly outcome: Exclude<Outcome, 'running' | 'crashed'>;
  readonly finishedAt: number;
  readonly durationMs: number;
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** One sentence; null when it succeeded. */
  readonly reason: string | null;
  readonly error: ScriptError | null;
  readonly output: KeptOutput;
}
