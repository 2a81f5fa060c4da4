import type { Outcome } from './schema.ts';

/** What was given back, to be taken again, is neither a success nor a failure. */
const areFailures: Readonly<Record<Outcome, boolean>> = {
  succeeded: false,
  failed: true,
  'timed-out': true,
  killed: true,
  crashed: true,
  'not-started': true,
  released: false,
  running: false,
};

/** All there are. */
export const outcomes = Object.keys(areFailures) as readonly Outcome[];

/** Whether somebody should know that a run ended like this. */
export function isFailure(outcome: Outcome): boolean {
  return areFailures[outcome];
}
