import { abortOnTermination } from './abort-on-termination.ts';
import type { JobContext } from './job-context.ts';
import type { ProbeContext } from './probe-contract.ts';

export function createContext(facts: ProbeContext): JobContext {
  let signal: AbortSignal | undefined;
  return {
    script: facts.script,
    scheduledFor: new Date(facts.scheduledFor),
    latenessMs: facts.latenessMs,
    attempt: facts.attempt,
    lastSuccess: facts.lastSuccess === null ? null : new Date(facts.lastSuccess),
    previouslyCrashed: facts.previouslyCrashed,
    // Only who asks for the signal takes over the duty to end: others die of SIGTERM as usual.
    get signal() {
      signal ??= abortOnTermination().signal;
      return signal;
    },
    log: (...values) => console.log(...values),
  };
}
