import { expect, onTestFinished, test } from 'vitest';
import { buildQueue } from '../../../src/queue/queue.ts';
import { countMatching } from '../../../src/queue/read/list.ts';
import { type JobSelection, planChange } from '../../../src/queue/settle/many.ts';
import { engine } from '../../support/engines/engines.ts';
import { changeLog } from '../../support/log.ts';
import { HOUR_MS, openTestQueue, START } from '../../support/queue.ts';
import { explainQueries, insertRows } from '../../support/store.ts';

/** Failed mails with two causes, one mail that waits, one that is delayed, and one that has finished. */
async function fill() {
  const log = await openTestQueue();
  const { queue, take, clock, root } = log;
  for (const index of [1, 2, 3]) {
    const { id, token } = await take('mail/welcome', {}, { to: `nowhere${index}x` });
    await queue.fail({ id, token }, { reason: `nowhere${index}x is no address` });
  }
  clock.at += HOUR_MS;
  await queue.fail(await take('mail/bye', {}, { to: 'b@example.org' }), { reason: 'SMTP 421' });
  await queue.finish(await take('mail/done'));
  await queue.add('mail/waiting');
  await queue.add('mail/later', {}, { runAt: '+2h' });
  const many = await buildQueue({ root, now: () => clock.at });
  onTestFinished(() => many.close());
  return { ...log, many };
}

test('a plan counts the jobs that a verb takes by the causes of their state, whatever values the reasons name', async () => {
  const { many } = await fill();
  expect(await many.planChange('kick', { pattern: 'mail/*' })).toEqual({
    jobs: 5,
    refused: 2,
    last: 7,
    causes: [
      { reason: expect.stringMatching(/^nowhere\dx is no address$/), jobs: 3 },
      expect.objectContaining({ jobs: 1 }),
      expect.objectContaining({ jobs: 1 }),
    ],
    next: null,
  });
  const plans: readonly (readonly [JobSelection, jobs: number, refused: number])[] = [
    [{ state: 'failed' }, 4, 0],
    [{ state: 'failed', since: new Date(START + HOUR_MS) }, 1, 0],
    [{ state: 'failed', search: 'NO ADDRESS' }, 3, 0],
    [{ search: 'example.org' }, 1, 0],
    [{ search: 'nothing like it' }, 0, 0],
    [{ due: 'delayed' }, 1, 0],
    [{ before: 3 }, 2, 0],
    [{ pattern: 'none' }, 0, 0],
  ];
  for (const [selection, jobs, refused] of plans) {
    expect([selection, await many.planChange('kick', selection)]).toMatchObject([selection, { jobs, refused }]);
  }
  await expect(many.planChange('kick', { search: '' })).rejects.toThrow('The text to search for must be some text');
});

test('a plan changes nothing, and what is done to a selection is what was planned', async () => {
  const { many, dump, row } = await fill();
  const before = dump();
  const selection = { state: 'failed', search: 'no address' } as const;
  const plan = await many.planChange('kick', selection);
  expect(dump()).toBe(before);
  const step = await many.selectStep({ ...selection, before: (plan.last ?? 0) + 1 });
  expect(step).toEqual({ ids: [1, 2, 3], next: null });
  expect(await many.applyToMany('kick', step.ids)).toEqual([1, 2, 3].map((id) => ({ id, ok: true, reason: null })));
  expect([1, 2, 3, 4].map((id) => row(id).state)).toEqual(['queued', 'queued', 'queued', 'failed']);
});

test('jobs that a verb refuses stop none of the others, and a wrong option changes none', async () => {
  const { many, row, dump } = await fill();
  const before = dump();
  await expect(many.applyToMany('bury', [6], { reson: 'x' })).rejects.toThrow('did you mean reason?');
  expect(dump()).toBe(before);
  const changed = await many.applyToMany('kick', [1, 5, 6, 99, 4]);
  expect(changed.map(({ id, ok }) => [id, ok])).toEqual([
    [1, true],
    [5, false],
    [6, false],
    [99, false],
    [4, true],
  ]);
  expect(changed[1]?.reason).toContain('only a failed or delayed job can be kicked');
  expect([row(1).state, row(4).state]).toEqual(['queued', 'queued']);
});

test('among sixty thousand jobs, failed ones are counted and planned for by their index, unsorted', async () => {
  const { root, store } = await openTestQueue();
  const total = 60_000;
  insertRows(
    (text) => changeLog(root, text),
    'jobs',
    Array.from({ length: total }, (_, index) => ({
      ...{ name: `mail/${index % 7}`, data: `{"to":"customer${index}@example.org"}`, ready: null },
      ...{ run_at: START, created_at: START + index, finished_at: START + index },
      ...(index % 10 === 0
        ? { state: 'failed', reason: `customer${index} is no address` }
        : { state: 'finished', reason: null }),
    })),
  );
  const at = START + HOUR_MS;
  expect(await countMatching(store, { state: 'failed' }, at)).toBe(total / 10);
  const plan = await planChange(store, 'kick', { state: 'failed' }, at);
  expect(plan).toMatchObject({ jobs: total / 10, causes: [{ jobs: total / 10 }], last: total - 9 });
  if (engine.name !== 'sqlite') return;
  const plans = await explainQueries(root, async (log) => {
    await countMatching(log, { state: 'failed' }, at);
    await planChange(log, 'kick', { state: 'failed' }, at);
  });
  const byIndex = expect.stringMatching(/^SEARCH jobs USING INDEX jobs_ended \(state=\?/);
  expect(plans).toEqual([byIndex, byIndex]);
  expect(plans.join()).not.toContain('ORDER BY');
});
