import { engine } from './engines.ts';

/**
 * How often a property is tried: in CI as often as asked for, where somebody waits a tenth of that. A server is asked
 * over a socket, by each step and by each look: there it is a fifth.
 */
export function tries(all: number): number {
  const here = process.env.CI ? all : all / 10;
  return Math.ceil(engine.name === 'sqlite' ? here : here / 5);
}
