import type { Told } from './contender.ts';

/** What a contender's program is asked to do. */
export interface Task {
  readonly verb: string;
  readonly folder: string;
  readonly count: number;
}

export function readTask(): Task {
  const [verb = '', folder = '', count = ''] = process.argv.slice(2);
  return { verb, folder, count: Number(count) };
}

export function tell(told: Told): void {
  process.stdout.write(`${JSON.stringify(told)}\n`);
}

export const dataOf = (index: number) => ({ to: `user-${index}@example.org`, template: 'welcome' });

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
}

/** The same in every process, finer than a millisecond. */
export function instantMs(): number {
  return performance.timeOrigin + performance.now();
}

/** So that a wait is really a wait, and no rhythm is met. */
export function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 15 + Math.random() * 30));
}
