import { fstatSync, statSync } from 'node:fs';
import { constants } from 'node:os';
import { findTier } from '../../discovery/discover.ts';
import type { UnsentMail } from '../../monitor/alert/deliver.ts';
import type { PrintedIncident } from '../../monitor/alert/tell.ts';
import type { Runner } from '../../settings/settings.ts';
import { isFailure } from '../../store/words.ts';
import { isCalledByHand } from '../../system/process/identity.ts';
import {
  type CallSummary,
  createStopRequest,
  createWorkerEvents,
  type Invocation,
  type RunFinished,
  type StopRequest,
  type WorkerEvents,
} from '../../worker/invocation/invocation.ts';
import { runTier } from '../../worker/pass/run-tier.ts';
import { type CommandContext, crontabOf, openRunner } from '../shared/context.ts';

interface RunTierOptions {
  readonly root?: string;
  /** Milliseconds. */
  readonly budget?: number;
}

/** `runner <tier>`: what cron calls. */
export async function runTierCommand(
  context: CommandContext,
  tierName: string,
  options: RunTierOptions,
): Promise<void> {
  const { budget: budgetMs = null } = options;
  const runner = await openRunner(context, options.root);
  const tier = await findTier(runner, tierName);
  if (tier.scripts.length === 0) context.asksLittle();
  await runAndShow(context, runner, { budgetMs }, (call) =>
    runTier(call, { kind: 'tier', tier, scripts: tier.scripts }),
  );
}

interface ShowOptions {
  /** Null: as long as it takes. */
  readonly budgetMs?: number | null;
  /** Whether it is `runner due`, which calls tiers that are due, not one at its time. */
  readonly isDue?: boolean;
  /** Whether it works off the queue: told to stop, it finishes what it has in hand. */
  readonly isQueue?: boolean;
  /** Whether somebody waits for the call. Skipped passes and failures are then reported even without a terminal. */
  readonly isAwaited?: boolean;
  /** Whether nothing is to be on stdout, on a terminal neither: what is to be there comes in the end. */
  readonly isSilent?: boolean;
  /** Whether the caller shows the runs and how they end. Default: no. */
  readonly isShownByCaller?: boolean;
  /** The environment of the runs. Default: the runner's own. */
  readonly environment?: NodeJS.ProcessEnv;
  /** Default: 1 if a run has failed. */
  readonly exitCodeOf?: (summary: CallSummary) => number;
  /** Whether alerts report failures. Default: yes, unless somebody watches the runs on a terminal. */
  readonly isTold?: boolean | undefined;
  /** Whether a terminal is to show what a script prints, as it comes. */
  readonly isLive?: boolean;
  /** Arguments for the script. */
  readonly args?: readonly string[];
}

/** Runs scripts with live progress on a terminal, silently elsewhere; failures go to stderr. */
export async function runAndShow(
  context: CommandContext,
  runner: Runner,
  options: ShowOptions,
  run: (call: Invocation) => Promise<CallSummary>,
): Promise<CallSummary> {
  const { budgetMs = null, isDue = false, isQueue = false, isAwaited = false } = options;
  const events = createWorkerEvents();
  const stop = createStopRequest();
  const stopCode = isQueue ? finishOnSignals(stop) : stopOnSignals(stop);
  const isTerminal = mayBeTerminal() && context.stdout.isTTY;
  const isMailed = !isTerminal && !isAwaited;
  const { isShownByCaller = false, exitCodeOf = (summary) => exitCodeByRuns(summary, runner) } = options;
  const isShown = isTerminal && options.isSilent !== true && !isShownByCaller;
  // A viewer who sees each run end gets no summary of the failures.
  const isSeen = isTerminal && options.isSilent !== true && context.stderr.isTTY;
  const tell = isSeen || isShownByCaller ? null : summarizeFailures(context, runner, events, isMailed);
  const tellingTrouble = tellTrouble(context, runner, events, isMailed);
  if (isShown) {
    letTerminalGo(context);
    const { showPassProgress, showWorkProgress } = await import('./progress.ts');
    if (isQueue) showWorkProgress(context, events, countRuns(events));
    else showPassProgress(context, events, { isLive: options.isLive === true, settings: runner.settings });
  } else if (isAwaited) {
    const { createClock } = await import('../../report/text/clock.ts');
    const { withInstants } = await import('../../system/base/text.ts');
    const clock = createClock(runner.now());
    const tell = (reason: string) => context.stderr.write(`runner: skipped: ${withInstants(reason, clock.short)}\n`);
    events.on('pass-skipped', ({ reason }) => tell(reason));
    events.on('deferred', tell);
  }
  const isByHand = isTerminal || isCalledByHand(context.env);
  const trigger = isByHand ? 'manual' : isDue ? 'due' : 'cron';
  // Measured only for a budget: loading the clock takes 2 ms.
  const budget = budgetMs === null ? null : { budgetMs, startedAt: performance.now(), isBegun: false };
  // Failures are reported even if an error breaks the pass off.
  const { args, environment = runner.environment, isTold = !isSeen || isQueue } = options;
  const summary = await run({
    runner: { ...runner, environment },
    trigger,
    stop,
    events,
    budget,
    isWatched: !isTold,
    crontab: crontabOf(context, runner.root),
    ...(args && { args }),
  }).finally(async () => {
    await tellingTrouble();
    await tell?.();
  });
  if (runner.settings.report.html !== null) {
    const { writeReportOfPass } = await import('../../dashboard/static/write.ts');
    const hasRun = (summary.ends?.length ?? 0) > 0;
    for (const problem of await writeReportOfPass(context.distFolder, runner, hasRun)) events.emit('problem', problem);
    await tellingTrouble();
  }
  if (isTerminal && !isQueue && !isAwaited) {
    const { tellMisnamed, tellNeverRun } = await import('./progress.ts');
    tellMisnamed(context, runner);
    await tellNeverRun(context, runner);
  }
  context.setExitCode(stopCode() ?? exitCodeOf(summary));
  return summary;
}

/**
 * Reports that the log is lost or was quarantined. Each problem is reported once, and in cron's mail once a day: a full
 * disk would otherwise fill the mailbox, too.
 *
 * @returns a function that waits until all problems are reported
 */
function tellTrouble(
  context: CommandContext,
  runner: Runner,
  events: WorkerEvents,
  isMailed: boolean,
): () => Promise<void> {
  const told = new Set<string>();
  let telling = Promise.resolve();
  const tell = async (sentence: string): Promise<void> => {
    // If the package is gone, the problem is reported each time.
    const mailed = isMailed ? await import('./failures.ts').catch(() => null) : null;
    if (mailed?.isNewTrouble(runner, sentence) !== false) context.stderr.write(`runner: ${sentence}\n`);
  };
  events.on('problem', (sentence) => {
    if (told.has(sentence)) return;
    told.add(sentence);
    if (isMailed) telling = telling.then(() => tell(sentence));
    else context.stderr.write(`runner: ${sentence}\n`);
  });
  return () => telling;
}

/**
 * `log-update` hides and shows the cursor by stderr, past us: without this, the EIO of a terminal that was
 * closed would end the runner before what it has in hand.
 */
function letTerminalGo(context: CommandContext): void {
  void context.stderr;
}

/** Cheaper than setting up the stream to ask it: under cron it is a pipe, a file or `/dev/null`. */
function mayBeTerminal(): boolean {
  const stdout = fstatSync(1);
  return stdout.isCharacterDevice() && stdout.rdev !== statSync('/dev/null').rdev;
}

function exitCodeByRuns({ ends, isBroken = false }: CallSummary, runner: Runner): number {
  if (isBroken) return 1;
  const failed = ends?.some(({ outcome }) => isFailure(outcome)) ?? false;
  return failed && !runner.settings.exitZeroOnFailure ? 1 : 0;
}

const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/**
 * The first signal ends what runs, records it and lets the lock go; a second one ends at once.
 *
 * @returns the exit code by convention once a signal came, else null
 */
function stopOnSignals(stop: StopRequest): () => number | null {
  return countSignals(stop, [
    // Ctrl-C is meant; a host that shuts down or a closed terminal says nothing about the work.
    (signal) => stop.endAll(told(signal), signal === 'SIGINT' ? 'cancel' : 'defer'),
  ]);
}

/**
 * The first signal lets what runs come to its end, as a deploy wants it; a second one ends that, a third
 * one at once.
 *
 * @returns the exit code by convention once a second signal came, else null: it was an end as any other
 */
function finishOnSignals(stop: StopRequest): () => number | null {
  const exitCode = countSignals(stop, [
    (signal) => stop.finish(told(signal)),
    (signal) => stop.endAll(told(signal), 'defer'),
  ]);
  return () => (stop.signal.aborted ? exitCode() : null);
}

type Signal = (typeof signals)[number];

const told = (signal: Signal): string => `the runner was told to stop by ${signal}`;

/** After the last step, a further signal ends everything at once. */
function countSignals(stop: StopRequest, steps: readonly ((signal: Signal) => void)[]): () => number | null {
  let exitCode: number | null = null;
  let count = 0;
  // Beyond `ulimit -f` a write is to fail, as on a full disk, instead of ending the runner.
  process.on('SIGXFSZ', () => {});
  for (const signal of signals) {
    process.on(signal, () => {
      const step = steps[count];
      count += 1;
      exitCode ??= 128 + constants.signals[signal];
      if (step !== undefined) return step(signal);
      // A process that outlives the runner would block the next start of its script.
      stop.killAll();
      process.exit(exitCode);
    });
  }
  return () => exitCode;
}

/** A worker of the queue may meet thousands. */
const MOST_TOLD = 100;

/**
 * Collects the failed runs for one message per pass. Without a terminal, the log's incidents decide what is reported,
 * so that a script that always fails is not reported each minute.
 *
 * @returns a function that writes the message to stderr, if there is one
 */
function summarizeFailures(
  context: CommandContext,
  runner: Runner,
  events: WorkerEvents,
  isByIncidents: boolean,
): () => Promise<void> {
  const failed: RunFinished[] = [];
  const scripts = new Set<string>();
  const awaiting = new Map<number | string, RunFinished>();
  const incidents: PrintedIncident[] = [];
  const unsent: UnsentMail[] = [];
  let runs = 0;
  let failures = 0;
  let warned = 0;
  let isLogTroubled = false;
  if (isByIncidents) {
    events.on('incidents', (printed) => void incidents.push(...printed));
    events.on('unsent', (mail) => void unsent.push(mail));
  }
  events.on('problem', () => {
    isLogTroubled = true;
  });
  events.on('run-finished', (run) => {
    runs += 1;
    scripts.add(run.script);
    const whose = run.jobId ?? run.script;
    awaiting.delete(whose);
    if (isFailure(run.end.outcome)) {
      failures += 1;
      // Kept for runs that the log lacks: they have no incident.
      if (failed.length < MOST_TOLD) {
        failed.push(run);
        awaiting.set(whose, run);
      }
    } else if (run.end.warning) warned += 1;
  });
  return async () => {
    if (failures + incidents.length + unsent.length === 0) return;
    const { tellFailures } = await import('./failures.ts');
    const told = { runs, failures, warned, failed, scripts, awaiting, unsent };
    await tellFailures(context, runner, { ...told, isLogTroubled, incidents: isByIncidents ? incidents : null });
  };
}

/** How the runs of a worker have ended so far. */
export interface RunCounts {
  readonly succeeded: number;
  readonly failed: number;
  readonly released: number;
  readonly stopped: number;
}

/** Counts them as they end. */
export function countRuns(events: WorkerEvents): RunCounts {
  const counts = { succeeded: 0, failed: 0, released: 0, stopped: 0 };
  events.on('run-finished', ({ end: { outcome } }) => {
    if (outcome === 'succeeded') counts.succeeded += 1;
    else if (isFailure(outcome)) counts.failed += 1;
    else if (outcome === 'stopped') counts.stopped += 1;
    else counts.released += 1;
  });
  return counts;
}
