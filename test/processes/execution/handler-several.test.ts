import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { HandlerRequest } from '../../../src/execution/start/process.ts';
import { readLedgers } from '../../../src/execution/warm/files.ts';
import type { BegunEnd, ShortRuns } from '../../../src/execution/warm/run.ts';
import { type HandlerPlace, openOneHandler, runAlone } from '../../support/run.ts';
import { until } from '../../support/until.ts';

/** Each writes down that it was called, whatever becomes of it. */
const handler = (code: string): string => `import { appendFileSync, existsSync } from 'node:fs';
export default async ({ data, log, update, fail }) => {
  appendFileSync('called', data.name + '\\n');
  ${code}
  return data.name;
};\n`;

const handlers = {
  plain: handler(''),
  prints: handler("log('a line');"),
  fails: handler("fail('no luck');"),
  updates: handler('await update({ by: data.name });'),
  lasts: handler("while (!existsSync('go')) await new Promise((resolve) => setTimeout(resolve, 5));"),
  computes: handler('for (const end = performance.now() + data.ms; performance.now() < end;);'),
  leaves: handler("void Promise.reject(new Error('left behind'));"),
  dies: handler("process.kill(process.pid, 'SIGKILL'); await new Promise(() => {});"),
};
type Name = keyof typeof handlers;

/** The data of each job names what it does, with a number. */
async function openSeveral(names: readonly Name[], data: object = {}, request = {}) {
  const place = openOneHandler(handlers);
  // A child that has just been started serves one alone.
  await place.run('plain', { data: { name: 'first' } });
  const requests: HandlerRequest[] = [];
  for (const [index, name] of names.entries()) {
    const told = { data: { ...data, name: `${name} ${index}` }, ...request };
    requests.push(await place.request(name, told));
  }
  return { place, requests: requests as [HandlerRequest, ...HandlerRequest[]] };
}

/** So many of them, however often a busy machine has them look as if they lasted. */
async function runMany(
  { runner }: HandlerPlace,
  requests: readonly HandlerRequest[],
  count: number,
): Promise<readonly BegunEnd[]> {
  const ends: BegunEnd[] = [];
  while (ends.length < count) {
    const left = requests.slice(ends.length) as unknown as ShortRuns['requests'];
    ends.push(...(await runner.run({ requests: left, unsettled: keysOf(requests.slice(0, ends.length)) })));
  }
  return ends;
}

const keysOf = (requests: readonly HandlerRequest[]) => new Set(requests.map(({ key }) => key));

/** What is thrown away and begun anew: on a busy machine the first of them can look as if it lasted. */
async function untilSecondLasts(attempt: () => Promise<'the first one lasted' | undefined>): Promise<void> {
  while ((await attempt()) === 'the first one lasted');
}

const listCalled = ({ root }: HandlerPlace): readonly string[] =>
  readFileSync(join(root, 'called'), 'utf8').trim().split('\n').slice(1);

describe('several that are run one after the other', () => {
  test('have their ends in their order', async () => {
    const { place, requests } = await openSeveral(['plain', 'plain', 'plain']);
    const ends = await runMany(place, requests, 3);
    expect(ends.map(({ end }) => end.result)).toEqual(['"plain 0"', '"plain 1"', '"plain 2"']);
    expect(ends.every(({ end }) => end.outcome === 'succeeded' && end.output.bytes === 0)).toBe(true);
  });

  test.each([
    ['has printed something', 'prints', { outcome: 'succeeded', output: { text: 'a line\n' } }],
    ['has failed', 'fails', { outcome: 'failed', reason: 'no luck' }],
  ] as const)('end with the first one that %s', async (_, name, expected) => {
    const { place, requests } = await openSeveral(['plain', name, 'plain']);
    const ends = await runMany(place, requests, 2);
    expect(ends.map(({ end }) => end)).toMatchObject([{ output: { bytes: 0 } }, expected]);
    expect(listCalled(place)).toEqual(['plain 0', `${name} 1`]);
    const [, , left] = requests;
    expect((await runAlone(place.runner, left as HandlerRequest)).result).toBe('"plain 2"');
  });

  test('tell of updates each for its own job', async () => {
    const told: string[] = [];
    const onUpdate = (data: string): void => void told.push(data);
    const { place, requests } = await openSeveral(['updates', 'updates'], {}, { onUpdate });
    const ends = await runMany(place, requests, 2);
    expect(ends).toHaveLength(2);
    expect(told).toEqual(['{"by":"updates 0"}', '{"by":"updates 1"}']);
  });

  test('do not go on in a process that one of them has spoilt', async () => {
    const { place, requests } = await openSeveral(['leaves', 'plain']);
    const ends = await runMany(place, requests, 1);
    expect(ends.map(({ end }) => end.outcome)).toEqual(['succeeded']);
    expect(listCalled(place)).toEqual(['leaves 0']);
    const [, left] = requests;
    const end = await runAlone(place.runner, left as HandlerRequest);
    expect(end).toMatchObject({ outcome: 'succeeded', warning: expect.stringMatching(/left behind/) });
  });

  test('die one at a time: those before it have ended, those behind it have not begun', async () => {
    const { place, requests } = await openSeveral(['plain', 'plain', 'dies', 'plain']);
    const ends = await runMany(place, requests, 3);
    expect(ends.map(({ end }) => end)).toMatchObject([
      { outcome: 'succeeded', result: '"plain 0"' },
      { outcome: 'succeeded', result: '"plain 1"' },
      { outcome: 'killed', signal: 'SIGKILL' },
    ]);
    expect(listCalled(place)).toEqual(['plain 0', 'plain 1', 'dies 2']);
  });
});

describe('one of them that lasts', () => {
  test('is seen as what runs, and none behind it begins any more', async () => {
    await untilSecondLasts(async () => {
      const started: string[] = [];
      const { place, requests } = await openSeveral(['plain', 'lasts', 'plain', 'plain']);
      const watched = requests.map((each) => ({
        ...each,
        onStarted: () => void started.push(each.key),
      })) as unknown as typeof requests;
      const begun: number[] = [];
      const running = place.runner.run({
        requests: watched,
        unsettled: new Set(),
        onLasting: (count) => void begun.push(count),
      });
      await until('it lasts', () => begun.length > 0);
      if (begun[0] === 1) {
        await running;
        return 'the first one lasted';
      }
      expect(begun).toEqual([2]);
      expect(started).toEqual([requests[1]?.key]);
      expect(existsSync(join(place.state.output, `${requests[1]?.key}.log`))).toBe(true);
      // Both have begun as far as anybody knows who finds nothing but this: no end of theirs is in the log.
      expect([...readLedgers(place.state).keys()].toSorted()).toEqual(requests.slice(0, 2).map(({ key }) => key));
      writeFileSync(join(place.root, 'go'), '');
      expect((await running).map(({ end }) => end.outcome)).toEqual(['succeeded', 'succeeded']);
      expect(listCalled(place)).toEqual(['plain 0', 'lasts 1']);
      return undefined;
    });
  });

  test('reaches its time limit counted from its own beginning', async () => {
    await untilSecondLasts(async () => {
      const { place, requests } = await openSeveral(['plain', 'lasts', 'plain'], {}, { timeoutMs: 300 });
      const ends = await place.runner.run({ requests, unsettled: new Set() });
      if (ends.length === 1 && ends[0]?.end.outcome === 'succeeded') return 'the first one lasted';
      expect(ends.map(({ end }) => end.outcome)).toEqual(['succeeded', 'timed-out']);
      expect(ends[1]?.end.durationMs).toBeGreaterThan(290);
      return undefined;
    });
  });

  test('leaves each of the others either begun and told of, or never begun, whenever that is', async () => {
    for (let round = 0; round < 25; round += 1) {
      const ms = 2 + (round % 9);
      const { place, requests } = await openSeveral(Array<Name>(8).fill('computes'), { ms });
      let revokedFrom = requests.length;
      const ends = await place.runner.run({
        requests,
        unsettled: new Set(),
        onLasting: (begun) => {
          revokedFrom = begun;
        },
      });
      const names = requests.map(({ job }) => JSON.parse(job.data).name as string);
      expect(listCalled(place)).toEqual(names.slice(0, ends.length));
      expect(ends.length).toBeLessThanOrEqual(revokedFrom);
      await place.runner.close();
    }
  });
});
