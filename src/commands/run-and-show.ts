import { fstatSync } from 'node:fs';
import { isFailure } from '../store/outcomes.ts';
import type { Call } from '../worker/pass.ts';
import type { CallSummary } from '../worker/run-tier.ts';
import type { Runner } from '../worker/runner.ts';
import { createStopRequest } from '../worker/stop-request.ts';
import { createWorkerEvents, type WorkerEvents } from '../worker/worker-events.ts';
import type { CommandContext } from './command-context.ts';
import { summarizeFailures } from './failure-summary.ts';
import { finishOnSignals, stopOnSignals } from './stop-on-signals.ts';

export interface ShowOptions {
  /** Null: as long as it takes. */
  readonly budgetMs?: number | null;
  /** Whether it is `runner due`, which calls tiers that are due, not one at its time. */
  readonly isDue?: boolean;
  /** Whether it works off the queue: told to stop, it finishes what it has in hand. */
  readonly isQueue?: boolean;
  /** Says so, elsewhere than on a terminal too, when a pass is skipped: somebody waits for it. */
  readonly tellsSkips?: boolean;
  /** Whether nothing is to be on stdout, on a terminal neither: what is to be there comes in the end. */
  readonly isSilent?: boolean;
}

/** Runs scripts with live progress on a terminal, silently elsewhere; failures go to stderr. */
export async function runAndShow(
  context: CommandContext,
  runner: Runner,
  options: ShowOptions,
  run: (call: Call) => Promise<CallSummary>,
): Promise<CallSummary> {
  const { budgetMs = null, isDue = false, isQueue = false, tellsSkips = false } = options;
  const events = createWorkerEvents();
  const stop = createStopRequest();
  const stopCode = isQueue ? finishOnSignals(stop) : stopOnSignals(stop);
  const failures = summarizeFailures(context, runner, events);
  tellTrouble(context, events);
  const isTerminal = mayBeTerminal() && context.stdout.isTTY;
  if (isTerminal && options.isSilent !== true) {
    letTerminalGo(context);
    const { showProgress } = isQueue
      ? await import('./work-progress.ts')
      : await import('./live-progress.ts');
    showProgress(context, events);
  } else if (tellsSkips) {
    const tell = (reason: string) => context.stderr.write(`runner: skipped: ${reason}\n`);
    events.on('pass-skipped', ({ reason }) => tell(reason));
    events.on('left', tell);
  }
  const calledBy = isTerminal ? 'hand' : isDue ? 'due' : 'schedule';
  const startedAt = performance.now();
  const budget = budgetMs === null ? null : { budgetMs, startedAt, isBegun: false };
  const summary = await run({ runner, calledBy, stop, events, budget });
  await failures.print();
  context.setExitCode(stopCode() ?? exitCodeOf(summary, runner));
  return summary;
}

/** To whoever reads cron's mail: the log is lost, or was set aside. Each trouble once. */
function tellTrouble(context: CommandContext, events: WorkerEvents): void {
  const told = new Set<string>();
  events.on('trouble', (sentence) => {
    if (!told.has(sentence)) context.stderr.write(`runner: ${sentence}\n`);
    told.add(sentence);
  });
}

/**
 * `log-update` hides and shows the cursor by stderr, past us: without this, the EIO of a terminal that was
 * closed would end the runner before what it has in hand.
 */
function letTerminalGo(context: CommandContext): void {
  void context.stderr;
}

/** Cheaper than setting up the stream to ask it: under cron it is a pipe or a file. */
function mayBeTerminal(): boolean {
  return fstatSync(1).isCharacterDevice();
}

function exitCodeOf({ ends, isBroken = false }: CallSummary, runner: Runner): number {
  if (isBroken) return 1;
  const failed = ends?.some(({ outcome }) => isFailure(outcome)) ?? false;
  return failed && !runner.settings.exitZeroOnFailure ? 1 : 0;
}
