import { fstatSync } from 'node:fs';
import { type PassSummary, runTier, type TierRequest } from '../worker/run-tier.ts';
import type { Runner } from '../worker/runner.ts';
import { createStopRequest } from '../worker/stop-request.ts';
import { createWorkerEvents } from '../worker/worker-events.ts';
import type { CommandContext } from './command-context.ts';
import { summarizeFailures } from './failure-summary.ts';
import { stopOnSignals } from './stop-on-signals.ts';

/** Runs scripts with live progress on a terminal, silently elsewhere; failures go to stderr. */
export async function runAndShow(
  context: CommandContext,
  runner: Runner,
  request: TierRequest,
): Promise<PassSummary> {
  const events = createWorkerEvents();
  const stop = createStopRequest();
  const stopCode = stopOnSignals(stop);
  const failures = summarizeFailures(context, runner, events);
  if (mayBeTerminal() && context.stdout.isTTY) {
    const { showProgress } = await import('./live-progress.ts');
    showProgress(context, request, events);
  } else if (request.kind === 'script') {
    // A pass that is skipped is nothing to mail; who started one script by hand waits for it.
    events.on('pass-skipped', ({ reason }) => context.stderr.write(`runner: skipped: ${reason}\n`));
  }
  const summary = await runTier(runner, request, stop, events);
  await failures.print();
  context.setExitCode(stopCode() ?? exitCodeOf(summary, runner));
  return summary;
}

/** Cheaper than setting up the stream to ask it: under cron it is a pipe or a file. */
function mayBeTerminal(): boolean {
  return fstatSync(1).isCharacterDevice();
}

function exitCodeOf({ ends }: PassSummary, runner: Runner): number {
  const failed = ends?.some(({ outcome }) => outcome !== 'succeeded') ?? false;
  return failed && !runner.settings.exitZeroOnFailure ? 1 : 0;
}
