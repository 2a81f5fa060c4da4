import type { HandlerAsk } from '../child/handler-contract.ts';
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

export const unmeasured: Measurement = {
  userCpuMs: null,
  systemCpuMs: null,
  maxRssBytes: null,
  measuredBy: null,
};

/** What is kept of a run's output. */
export interface KeptOutput {
  /** All of it, or its head and tail with a line between them that says what is left out. */
  readonly text: string;
  /** Bytes written in all; null where the runner that counted them died. */
  readonly bytes: number | null;
  /** Bytes that are kept nowhere; null likewise. */
  readonly droppedBytes: number | null;
  /** File name in the output folder, where the text is not all that is kept. */
  readonly file: string | null;
  /** Size of that file, compressed. */
  readonly fileBytes: number | null;
}

/** What the runner counted itself. */
export interface CountedOutput extends KeptOutput {
  readonly bytes: number;
  readonly droppedBytes: number;
}

/** How one run ended. Success and failure are the same record. */
export interface RunEnd extends Measurement {
  readonly outcome: Exclude<Outcome, 'running'>;
  readonly finishedAt: number;
  /** Null where nobody saw it end. */
  readonly durationMs: number | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** One sentence; null when it succeeded. */
  readonly reason: string | null;
  /** What was noted though it did not end the run; null: nothing. */
  readonly warning: string | null;
  readonly error: ScriptError | null;
  readonly output: KeptOutput;
  /** By how much a child that serves many jobs has grown with this one. */
  readonly rssChangeBytes?: number;
  /** What a handler gave back, as JSON. */
  readonly result?: string;
  /** Set where a handler asked for it, whatever else has ended the run besides. */
  readonly ask?: HandlerAsk;
}
