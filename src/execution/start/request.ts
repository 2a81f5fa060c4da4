import type { HandlerJob } from '../../child/contract.ts';
import type { Script } from '../../discovery/script.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import type { OutputScan } from '../result/demands.ts';
import type { Masker } from '../secrets.ts';

/** Everything that one run needs to know. */
export interface RunRequest {
  /** Its number in the log, else a name that no other run has. */
  readonly key: string;
  readonly script: Script;
  /** Left out: none. */
  readonly args?: readonly string[];
  readonly root: string;
  readonly state: StateFolder;
  /** The file that is loaded into Node scripts before they start. */
  readonly probePath: string;
  readonly attempt: number;
  /** Start of the period this run stands for; epoch milliseconds. */
  readonly scheduledFor: number;
  /** Epoch milliseconds. */
  readonly startedAt: number;
  readonly lastSuccess: number | null;
  readonly previouslyCrashed: boolean;
  readonly timeoutMs: number;
  /** Time between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  /** How much of a run's output stays on the disk. */
  readonly maxOutputBytes: number;
  /** Fixed variables from the settings. */
  readonly variables: Readonly<Record<string, string>>;
  /** The runner's own environment, of which a script gets what is allowed. */
  readonly environment: NodeJS.ProcessEnv;
  /** For all that is kept of what the script says. */
  readonly masker: Masker;
  /** Aborted when the runner is told to stop. */
  readonly stop: AbortSignal;
  /** Aborted when it is to end at once. */
  readonly kill?: AbortSignal;
  /** Called once the child has its process; again where it had to be started a second time. */
  readonly onStarted: (pid: number) => void;
  /** Called with the most memory that was seen so far, at every sample. */
  readonly onSample?: (peakRssBytes: number) => void;
  /** How long a Node script may stand still before its first line. Default: 30 s. */
  readonly hangAfterMs?: number;
  /** Of a handler. */
  readonly job?: HandlerJob;
  /** Looks through its output for what its script demands of it; null or absent: it demands nothing. */
  readonly scan?: OutputScan | null;
}

/** What is needed to start its process. */
export type StartRequest = Omit<RunRequest, 'onStarted' | 'onSample'>;

/** What a job says of its run, in the place of what a tier's period does. */
type SaidByJob = 'attempt' | 'scheduledFor' | 'startedAt' | 'lastSuccess' | 'previouslyCrashed';

/** Everything that one try at a job of the queue needs to know. */
export interface HandlerRequest extends Omit<RunRequest, SaidByJob> {
  readonly job: HandlerJob;
  /**
   * Replaces the job's data (JSON) in the log. A rejection is told to the handler; the run has not
   * ended before the last one is settled.
   */
  readonly onUpdate: (data: string) => void | Promise<void>;
}

/** The same with what looks through its output, where its script demands something of that. */
export async function withScan<Request extends Pick<RunRequest, 'script' | 'scan'>>(
  request: Request,
): Promise<Request> {
  const { options } = request.script;
  if (options.failOn === undefined && options.expect === undefined) return request;
  const { createScan } = await import('../result/demands.ts');
  return { ...request, scan: await createScan(options) };
}

/** The same for a process of its own. */
export function toRunRequest(request: HandlerRequest): RunRequest {
  return { ...request, ...factsOf(request.job) };
}

function factsOf(job: HandlerJob): Pick<RunRequest, SaidByJob> {
  const { attempt, startedAt, lastSuccess, previouslyCrashed } = job;
  const scheduledFor = job.scheduledFor ?? startedAt - job.latenessMs;
  return { attempt, scheduledFor, startedAt, lastSuccess, previouslyCrashed };
}
