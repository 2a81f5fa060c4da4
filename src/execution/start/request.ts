import type { HandlerJob, RunFacts } from '../../child/contract.ts';
import type { Script } from '../../discovery/script.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import type { OutputScan } from '../result/demands.ts';
import type { Masker } from '../secrets.ts';

/** All that one run needs. */
export interface RunRequest extends RunFacts {
  /** Its number in the log, or a name that no other run has. */
  readonly key: string;
  readonly script: Script;
  /** Default: none. */
  readonly args?: readonly string[];
  readonly root: string;
  readonly state: StateFolder;
  /** The file that Node scripts load before they start. */
  readonly probePath: string;
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
  readonly onStarted?: (pid: number) => void;
  /** Called at every sample with the highest memory seen so far. */
  readonly onSample?: (peakRssBytes: number) => void;
  /** How long a Node script may make no progress before its first line. Default: 30 s. */
  readonly hangAfterMs?: number;
  /** The job of a handler. */
  readonly job?: HandlerJob;
  /** Searches its output for the script's demands; null or absent: none. */
  readonly scan?: OutputScan | null;
}

/** The request for one try of a queued job, whose facts are those of the run. */
export interface HandlerRequest extends RunRequest {
  readonly job: HandlerJob;
  /**
   * Replaces the job's data (JSON) in the log. The handler is informed of a rejection. The run does not end before the
   * last update is settled.
   */
  readonly onUpdate: (data: string) => void | Promise<void>;
}

/** Adds the search of the output, if the script has demands. */
export async function withScan<Request extends RunRequest>(request: Request): Promise<Request> {
  const { options } = request.script;
  if (options.failOn === undefined && options.expect === undefined) return request;
  const { createScan } = await import('../result/demands.ts');
  return { ...request, scan: await createScan(options) };
}
