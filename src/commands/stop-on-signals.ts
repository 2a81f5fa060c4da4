import { constants } from 'node:os';
import type { StopRequest } from '../worker/stop-request.ts';

const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/**
 * The first signal ends what runs, records it and lets the lock go; a second one ends at once.
 *
 * @returns the exit code by convention once a signal came, else null
 */
export function stopOnSignals(stop: StopRequest): () => number | null {
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
export function finishOnSignals(stop: StopRequest): () => number | null {
  const exitCode = countSignals(stop, [
    (signal) => stop.finish(told(signal)),
    (signal) => stop.endAll(told(signal), 'defer'),
  ]);
  return () => (stop.signal.aborted ? exitCode() : null);
}

type Signal = (typeof signals)[number];

const told = (signal: Signal): string => `the runner was told to stop by ${signal}`;

/** After the last step, a further signal ends everything at once. */
function countSignals(
  stop: StopRequest,
  steps: readonly ((signal: Signal) => void)[],
): () => number | null {
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
      // What would outlive the runner would keep its script from being started again.
      stop.killAll();
      process.exit(exitCode);
    });
  }
  return () => exitCode;
}
