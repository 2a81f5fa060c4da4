import type { EndFacts } from './describe-end.ts';
import type { RunEnd } from './run-end.ts';

/** `killed` means by a signal that was not ours; one of ours is a time-out or a stop. */
export function decideOutcome(facts: EndFacts): RunEnd['outcome'] {
  if (facts.termination === 'timeout') return 'timed-out';
  if (facts.termination === 'stop' || facts.termination === 'memory') return 'failed';
  if (facts.startFailure !== null) return 'not-started';
  if (facts.signal !== null) return 'killed';
  return facts.exitCode === 0 ? 'succeeded' : 'failed';
}
