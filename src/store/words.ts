/** The states of a job, in the order in which people read them; the diagram is in docs/architecture.md. */
export const jobStates = [
  'queued',
  /** A worker has claimed it: it begins in a moment, or has for less than 0.1 s. */
  'claimed',
  'running',
  'retrying',
  'paused',
  'failed',
  'finished',
  'cancelled',
] as const;
export type JobState = (typeof jobStates)[number];

/** Jobs that can be claimed, now or once they are due. */
export const waitingStates = ['queued', 'retrying'] as const satisfies readonly JobState[];

export const isWaiting = (state: JobState): boolean => state === 'queued' || state === 'retrying';

/** Whether a job will not run again by itself. */
export const isEnded = (state: JobState): boolean =>
  state === 'finished' || state === 'failed' || state === 'cancelled';

/** The rule for a repeating job's times that have passed meanwhile. */
export const missedPolicies = ['all', 'once', 'skip'] as const;
export type MissedPolicy = (typeof missedPolicies)[number];

/** The rule for a parent one of whose children has failed. */
export const childFailurePolicies = ['resume', 'fail'] as const;
export type ChildFailurePolicy = (typeof childFailurePolicies)[number];

export const pauseKinds = ['pause', 'fail-fast'] as const;
export type PauseKind = (typeof pauseKinds)[number];

/** How one attempt ended; `released`: its job was given back; `stopped`: somebody has stopped it. */
export const endings = [
  ...(['succeeded', 'failed', 'timed-out', 'killed', 'crashed', 'not-started', 'released', 'stopped'] as const),
] as const;

/** How one attempt ended; `running` until it has. */
export const outcomes = [...endings, 'running'] as const;
export type Outcome = (typeof outcomes)[number];

/** A run that somebody has stopped, or whose job was given back, is neither a success nor a failure. */
const areFailures: Readonly<Record<Outcome, boolean>> = {
  succeeded: false,
  failed: true,
  'timed-out': true,
  killed: true,
  crashed: true,
  'not-started': true,
  released: false,
  stopped: false,
  running: false,
};

/** Whether somebody should know that a run ended like this. */
export function isFailure(outcome: Outcome): boolean {
  return areFailures[outcome];
}

/** `self`: the script's own `process.resourceUsage()`. `sampled`: the process tree in `/proc`. */
export const measuringWays = ['self', 'sampled'] as const;
export type MeasuredBy = (typeof measuringWays)[number];

/** The figure of a run that is compared. `creep`: its memory, which has been growing for weeks. */
export const measures = ['duration', 'memory', 'creep', 'output', 'count'] as const;
export type Measure = (typeof measures)[number];

/** The state of a worker: at work, or ended in one of three ways. */
export const workerStates = ['running', 'finished', 'skipped', 'crashed'] as const;
export type WorkerState = (typeof workerStates)[number];

/**
 * `tier`: a pass over a whole folder. `script`: one script, started by hand. `backlog`: what was due
 * of a tier besides its passes: retries, and what an earlier pass deferred or died before. `queue`:
 * jobs of the queue.
 */
export const workerKinds = ['tier', 'script', 'backlog', 'queue'] as const;
export type WorkerKind = (typeof workerKinds)[number];

/**
 * The caller. `cron`: its own line of the crontab, or another caller without a terminal. `due`: the one line for all
 * tiers, which calls none of them at a time of its own. `manual`: a person at a terminal or on the dashboard.
 */
export const triggers = ['cron', 'due', 'manual'] as const;
export type Trigger = (typeof triggers)[number];

/** Why a call did not get to run its tier. */
export const skipCodes = ['paused', 'held', 'missed', 'moved'] as const;
export type SkipCode = (typeof skipCodes)[number];

/** Transitions that no other row records. */
export type StoredEvent =
  | 'lock-taken-over'
  | 'lock-lost'
  /** Queued again, though not by a run: its children have ended, its parent waits for it. */
  | 'job-queued'
  /** It waits for its children. */
  | 'job-paused'
  /** Ended without a run. */
  | 'job-failed'
  | 'job-cancelled'
  | 'job-buried'
  | 'job-deferred'
  | 'job-kicked'
  | 'job-updated'
  /** By a caller of the API, whom no other row names. */
  | 'job-added'
  | 'job-claimed'
  | 'job-ended'
  | 'job-requeued'
  | 'job-deleted'
  | 'job-imported'
  | 'job-lease-expired'
  /** A pass found it running, left by a runner that died. */
  | 'run-orphaned'
  /** Somebody wants its end. The worker that has the run looks for it. */
  | 'run-stop-requested'
  | 'paused'
  | 'resumed'
  | 'muted'
  | 'unmuted'
  | 'incident-acknowledged'
  | 'incident-closed'
  /** Somebody has started a script from the dashboard. */
  | 'run-requested'
  | 'log-quarantined'
  | 'log-pruned'
  /** A message that was given up. */
  | 'alert-undelivered'
  | 'spool-replayed';

/** The events of the view `activity`. */
export type ActivityEvent =
  | StoredEvent
  | 'worker-started'
  | 'worker-skipped'
  | 'worker-finished'
  | 'worker-crashed'
  | 'run-started'
  | 'job-finished'
  | 'job-retrying'
  | 'job-released';

/** How bad what is wrong is. */
export const severities = ['warning', 'critical'] as const;
export type Severity = (typeof severities)[number];

/** Codes of the incidents that runs open: they fail; they are suspect. */
export const FAILING = 'script-failing';
export const SUSPECT = 'script-suspect';

/** All other incidents are opened and closed by checks. */
export function isOfRuns(code: string): boolean {
  return code === FAILING || code === SUSPECT;
}

/** How an incident ends otherwise than by getting well. `gone`: its script, handler or tier is; its hint says why. */
export const incidentEndings = ['gone', 'closed'] as const;
export type IncidentEnding = (typeof incidentEndings)[number];

/** `gone: jobs/lab does not exist any more`, `closed by hand`; null: it is not over, or it got well. */
export function describeEnding({ ending, hint }: EndedIncident): string | null {
  if (ending === null) return null;
  return ending === 'closed' ? 'closed by hand' : `gone: ${hint}`;
}

interface EndedIncident {
  readonly ending: IncidentEnding | null;
  readonly hint?: string | null;
}

/** Words before the line that makes a run suspect; the column `suspect` says that it is. */
export const DOUBT = 'exit code 0, but its output tells of a failure: ';

export const deliveryKinds = ['alert', 'ping', 'report'] as const;
export type DeliveryKind = (typeof deliveryKinds)[number];

/**
 * The permissions of a token, each with all that those before it allow: to see states, names and figures; also data,
 * errors and output; also to start, stop and retry what is there; also to change everything.
 */
export const tokenPermissions = ['wall', 'read', 'run', 'manage'] as const;
export type TokenPermission = (typeof tokenPermissions)[number];

/** A permission with all that it includes, the weakest first. */
export function permissionsWithin(permission: TokenPermission): readonly TokenPermission[] {
  return tokenPermissions.slice(0, tokenPermissions.indexOf(permission) + 1);
}

/** The form of a unique key or a group. */
export const KEY = 'text of 1 to 255 whole characters';

/** Half a character is stored as another one: a later search for the key would not find it. */
export function isKey(text: unknown): text is string {
  return typeof text === 'string' && text !== '' && text.length <= 255 && !/\p{Cs}/u.test(text);
}

/** As seconds the year 5138, as milliseconds 1973: what is less, and not zero, was meant as seconds. */
export const LEAST_MS = 1e11;
