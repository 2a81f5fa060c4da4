import type { HandlerJob } from '../../child/contract.ts';
import type { Script } from '../../discovery/script.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import type { OutputScan } from '../result/demands.ts';
import type { Masker } from '../secrets.ts';

/** All that one run needs. */
export interface RunRequest {
  /** Its number in the log, or a name that no other run has. */
  readonly key: string;
  readonly script: Script;
  /** Default: none. */
  readonly args?: readonly string[];
  readonly root: string;
  readonly state: StateFolder;
  /** The file that Node scripts load before they start. */
  readonly probePath: string;
  readonly attempt: number;
  /** Start of the period that this run stands for; epoch milliseconds. */
  readonly scheduledFor: number;
  /** Epoch milliseconds. */
  readonly startedAt: number;
  readonly lastSuccess: number | null;
  readonly previouslyCrashed: boolean;
  readonly timeoutMs: number;
  /** Time between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  /** How many bytes of a run's output stay on the disk. */
  readonly maxOutputBytes: number;
  /** Fixed variables from the settings. */
  readonly variables: Readonly<Record<string, string>>;
  /** The runner's own environment; a script gets the allowed part of it. */
  readonly environment: NodeJS.ProcessEnv;
  /** Masks all that is kept of the script's words. */
  readonly masker: Masker;
  /** Aborted when the runner is stopped. */
  readonly stop: AbortSignal;
  /** Aborted when the run must end at once. */
  readonly kill?: AbortSignal;
  /** Called when the child has its process, and again if it had to be started a second time. */
  readonly onStarted: (pid: number) => void;
  /** Called at every sample with the highest memory seen so far. */
  readonly onSample?: (peakRssBytes: number) => void;
  /** How long a Node script may make no progress before its first line. Default: 30 s. */
  readonly hangAfterMs?: number;
  /** The job of a handler. */
  readonly job?: HandlerJob;
  /** Searches its output for the script's demands; null or absent: none. */
  readonly scan?: OutputScan | null;
}

/** All that the start of its process needs. */
export type StartRequest = Omit<RunRequest, 'onStarted' | 'onSample'>;

/** Fields that a handler's job determines; for a script the tier's period does. */
type SaidByJob = 'attempt' | 'scheduledFor' | 'startedAt' | 'lastSuccess' | 'previouslyCrashed';

/** All that one try of a queued job needs. */
export interface HandlerRequest extends Omit<RunRequest, SaidByJob> {
  readonly job: HandlerJob;
  /**
   * Replaces the job's data (JSON) in the log. The handler is informed of a rejection. The run does not end before the
   * last update is settled.
   */
  readonly onUpdate: (data: string) => void | Promise<void>;
}

/** Adds the search of the output, if the script has demands. */
export async function withScan<Request extends Pick<RunRequest, 'script' | 'scan'>>(
  request: Request,
): Promise<Request> {
  const { options } = request.script;
  if (options.failOn === undefined && options.expect === undefined) return request;
  const { createScan } = await import('../result/demands.ts');
  return { ...request, scan: await createScan(options) };
}

/** Converts the request to that of a separate process. */
export function toRunRequest(request: HandlerRequest): RunRequest {
  return { ...request, ...factsOf(request.job) };
}

function factsOf(job: HandlerJob): Pick<RunRequest, SaidByJob> {
  const { attempt, startedAt, lastSuccess, previouslyCrashed } = job;
  const scheduledFor = job.scheduledFor ?? startedAt - job.latenessMs;
  return { attempt, scheduledFor, startedAt, lastSuccess, previouslyCrashed };
}
