import type { HandlerAsk } from '../child/handler-contract.ts';
import type { EndFacts } from './describe-end.ts';
import type { RunEnd } from './run-end.ts';

/** `killed` means by a signal that was not ours; one of ours is a time-out or a stop. */
export function decideOutcome(facts: EndFacts, ask?: HandlerAsk): RunEnd['outcome'] {
  if (facts.termination === 'timeout') return 'timed-out';
  if (facts.termination === 'stop' || facts.termination === 'memory') return 'failed';
  if (facts.startFailure !== null) return 'not-started';
  if (facts.isGarbled) return 'failed';
  if (facts.signal !== null) return 'killed';
  return judgeExit(facts.exitCode, ask);
}

/** Of what came to its end alone: a handler that asked for another try has not failed. */
export function judgeExit(
  exitCode: number | null,
  ask: HandlerAsk | undefined,
): 'succeeded' | 'released' | 'failed' {
  if (exitCode === 0) return 'succeeded';
  return ask?.kind === 'retry' ? 'released' : 'failed';
}
