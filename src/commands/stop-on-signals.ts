import { constants } from 'node:os';
import type { StopRequest } from '../worker/stop-request.ts';

const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/**
 * The first signal ends what runs, records it and lets the lock go; a second one ends at once.
 *
 * @returns the exit code by convention once a signal came, else null
 */
export function stopOnSignals(stop: StopRequest): () => number | null {
  let exitCode: number | null = null;
  // Beyond `ulimit -f` a write is to fail, as on a full disk, instead of ending the runner.
  process.on('SIGXFSZ', () => {});
  for (const signal of signals) {
    process.on(signal, () => {
      const code = 128 + constants.signals[signal];
      if (exitCode !== null) {
        // What would outlive the runner would keep its script from being started again.
        stop.killAll();
        process.exit(code);
      }
      exitCode = code;
      // Ctrl-C is meant; a host that shuts down or a closed terminal says nothing about the work.
      stop.endAll(
        `the runner was told to stop by ${signal}`,
        signal === 'SIGINT' ? 'cancel' : 'defer',
      );
    });
  }
  return () => exitCode;
}
