import fc from 'fast-check';
import { engine } from './engines/engines.ts';

// What is tried goes by the seed as all that is left to chance: fixed in CI, another one each day elsewhere.
if (process.env.FAULT_SEED) fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env.FAULT_SEED) });

/**
 * How often a property is tried: in CI as often as asked for, where somebody waits a tenth of that. A server is asked
 * over a socket, by each step and by each look: there it is a fifth.
 */
export function tries(all: number): number {
  const here = process.env.CI ? all : all / 10;
  return Math.ceil(engine.name === 'sqlite' ? here : here / 5);
}
