import { median } from '../measure.ts';
import { ask } from './contender.ts';
import { makeRoot, ours, timeWork } from './root.ts';
import type { Scale } from './scale.ts';

/** Milliseconds for one job, by how many are due. */
export type Crowding = ReadonlyMap<number, number>;

/** The same jobs worked off while few wait, and while very many do. */
export async function measureCrowding(
  { disk, rounds, jobs }: Scale,
  waiting: readonly number[],
): Promise<Crowding> {
  const taken = jobs(3_000);
  const roots = new Map<number, string>();
  for (const count of waiting) {
    const root = makeRoot(disk);
    await ask(ours, 'fill-due', root, count);
    roots.set(count, root);
  }
  const figures = new Map(waiting.map((count) => [count, [] as number[]]));
  for (let round = 0; round < rounds; round += 1) {
    for (const [count, root] of roots) {
      const ms = await timeWork(root, ['--max-jobs', String(taken)]);
      figures.get(count)?.push(ms / taken);
      await ask(ours, 'fill-due', root, taken);
    }
  }
  return new Map([...figures].map(([count, each]) => [count, median(each)]));
}
