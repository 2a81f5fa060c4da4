import { openQueue } from '../../src/index.ts';

/** Logs that differ only in how many jobs of a full group wait in front. */
export interface GroupsTask {
  readonly root: string;
  /** Of a server; null: the file of the root. */
  readonly url: string | null;
  readonly verb: 'fill' | 'claim';
  /** Blocked jobs to add, or claims to measure. */
  readonly count: number;
}

export interface GroupsResult {
  readonly claimMs: readonly number[];
}

const { root, url, verb, count } = JSON.parse(process.argv[2] ?? '{}') as GroupsTask;
const queue = await openQueue({ root, env: url === null ? {} : { RUNNER_DATABASE_URL: url } });

/** One runs, the others wait for its end. */
async function fill(): Promise<void> {
  await queue.add('work', {}, { group: 'full' });
  await queue.claim('*', { lease: '1h' });
  for (let left = count; left > 0; left -= 10_000) {
    const some = Math.min(left, 10_000);
    await queue.addMany(Array.from({ length: some }, () => ({ name: 'work', group: 'full' })));
  }
}

/** Each of a job of another group, behind all of them. */
async function claim(): Promise<number[]> {
  const claimMs: number[] = [];
  for (let turn = 0; turn < count; turn += 1) {
    const id = await queue.add('work', {}, { group: `other-${turn}` });
    const startMs = performance.now();
    const claimed = await queue.claim('*');
    claimMs.push(performance.now() - startMs);
    if (claimed?.id !== id) throw new Error(`job ${claimed?.id} was claimed instead of ${id}`);
    await queue.finish(claimed);
  }
  return claimMs;
}

const result: GroupsResult = { claimMs: verb === 'claim' ? await claim() : [] };
if (verb === 'fill') await fill();
await queue.close();
process.stdout.write(`${JSON.stringify(result)}\n`);
