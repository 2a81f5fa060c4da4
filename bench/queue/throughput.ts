import { join } from 'node:path';
import { median } from '../measure.ts';
import { ask, askOnce, type Contender } from './contender.ts';
import { assertFinished, makeRoot, ours, timeWork } from './root.ts';
import type { Scale } from './scale.ts';

const program = (name: string) => join(import.meta.dirname, `${name}.child.ts`);

/** How many jobs each verb is measured with. */
export const counts: Readonly<Record<string, number>> = { add: 3_000, bulk: 20_000, work: 10_000 };

export function listContenders(peers: string | null): readonly Contender[] {
  const raw = { name: 'raw SQLite', program: program('raw'), verbs: ['add', 'bulk', 'work'] };
  if (peers === null) return [ours, raw];
  const env = { BENCH_PEERS: peers };
  return [
    ours,
    { name: 'plainjob', program: program('plainjob'), verbs: ['add', 'bulk', 'work'], env },
    { name: 'liteque', program: program('liteque'), verbs: ['add', 'work'], env },
    raw,
  ];
}

/** Jobs per second, by contender and verb. */
export type Throughput = ReadonlyMap<string, ReadonlyMap<string, readonly number[]>>;

/** Each contender once per round, in turn, so that a drift of the machine hits all of them. */
export async function measureThroughput(
  contenders: readonly Contender[],
  { disk, rounds, jobs }: Scale,
  tellSettings: (name: string, settings: string) => void,
): Promise<Throughput> {
  const figures = new Map(
    contenders.map(({ name, verbs }) => [
      name,
      new Map(verbs.map((verb) => [verb, [] as number[]])),
    ]),
  );
  for (let round = 0; round < rounds; round += 1) {
    for (const contender of contenders) {
      for (const verb of contender.verbs) {
        const count = jobs(counts[verb] as number);
        const ms = await measure(contender, verb, count, disk, (settings) => {
          if (round === 0 && verb === 'add') tellSettings(contender.name, settings);
        });
        figures
          .get(contender.name)
          ?.get(verb)
          ?.push((count / ms) * 1000);
      }
    }
  }
  return figures;
}

async function measure(
  contender: Contender,
  verb: string,
  count: number,
  disk: string,
  onSettings: (settings: string) => void,
): Promise<number> {
  if (contender !== ours) {
    const { ms, settings = '' } = await askOnce(contender, verb, count, disk);
    onSettings(settings);
    return ms;
  }
  const root = makeRoot(disk);
  if (verb === 'work') return await workOff(root, count);
  const { ms, settings = '' } = await ask(ours, verb, root, count);
  onSettings(settings);
  return ms;
}

/** Through a real child process, with the start of the command, of the child, and the end of both. */
async function workOff(root: string, count: number): Promise<number> {
  await ask(ours, 'bulk', root, count);
  const ms = await timeWork(root);
  await assertFinished(root, count);
  return ms;
}

/** A process for each job, beside the same without a queue: milliseconds for one. */
export async function measureIsolated({ disk, rounds, jobs }: Scale) {
  const bare: Contender = { name: 'node alone.mjs', program: program('spawn'), verbs: [] };
  const count = jobs(200);
  const figures = { bare: [] as number[], isolated: [] as number[] };
  for (let round = 0; round < rounds; round += 1) {
    const root = makeRoot(disk);
    figures.bare.push((await ask(bare, '', root, count)).ms / count);
    await ask(ours, 'bulk-alone', root, count);
    figures.isolated.push((await timeWork(root)) / count);
    await assertFinished(root, count);
  }
  return { bareMs: median(figures.bare), isolatedMs: median(figures.isolated) };
}
