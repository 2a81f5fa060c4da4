import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { HOUR_MS, MINUTE_MS, openTestQueue, SECOND_MS, START } from '../../support/queue.ts';

const DAY_MS = 24 * HOUR_MS;
/** An hour after `START`. */
const daily = 'daily at 14:00';

test('a job leaves out the dates of a file in the root, and keeps its rule as it is written', async () => {
  const { queue, root, row } = await openTestQueue();
  writeFileSync(join(root, 'Holidays.txt'), '2026-03-10 to 2026-03-12 closed\n', { mode: 0o644 });
  const id = await queue.add('a', {}, { repeat: `${daily} except Holidays.txt in UTC` });
  expect(row(id)).toMatchObject({
    repeat: `${daily} except Holidays.txt in UTC`,
    run_at: START + HOUR_MS + 3 * DAY_MS,
    scheduled_for: START + HOUR_MS + 3 * DAY_MS,
  });
});

test('a rule whose file is missing or wrong is refused, for a new job and for one that waits', async () => {
  const { queue, root, dump } = await openTestQueue();
  const id = await queue.add('a');
  const before = dump();
  const refused = async (file: string, problem: string): Promise<void> => {
    const repeat = `${daily} except ${file}`;
    const message = `The repeat rule ${JSON.stringify(repeat)} is wrong: ${problem}.`;
    await expect(queue.add('b', {}, { repeat })).rejects.toMatchObject({ code: 'invalid', message });
    await expect(queue.update(id, { repeat })).rejects.toMatchObject({ code: 'invalid', message });
  };
  await refused('none.txt', `none.txt does not exist in ${root}: write it with a date such as 2026-12-25 in each line`);
  writeFileSync(join(root, 'wrong.txt'), '2026-12-25\nsoon\n', { mode: 0o644 });
  const expected = 'must begin with a date such as 2026-12-25, 12-25 or 25 december, or 2026-12-24 to 2026-12-31';
  await refused('wrong.txt', `wrong.txt:2: "soon" ${expected}`);
  await refused(
    '../dates.txt',
    `../dates.txt does not exist in ${root}: write it with a date such as 2026-12-25 in each line`,
  );
  expect(dump()).toBe(before);
});

test('a job whose file is gone runs on all days: it is not lost', async () => {
  const { queue, root, clock, row } = await openTestQueue();
  writeFileSync(join(root, 'holidays.txt'), '2026-03-11\n', { mode: 0o644 });
  const id = await queue.add('a', {}, { repeat: `${daily} except holidays.txt in UTC` });
  clock.at = START + HOUR_MS;
  rmSync(join(root, 'holidays.txt'));
  const job = await queue.claim('a');
  if (job === null) throw new Error('the job is not due');
  await queue.finish(job);
  expect(row(id)).toMatchObject({ state: 'queued', run_at: START + HOUR_MS + DAY_MS });
});

test('a job that counts from its end runs only in its window', async () => {
  const { queue, clock, row } = await openTestQueue();
  const id = await queue.add('a', {}, { repeat: 'every 90 min between 22:00 and 01:00 in UTC' });
  const opening = START + 9 * HOUR_MS;
  expect(row(id)).toMatchObject({ run_at: opening });
  const finishAt = async (at: number): Promise<number> => {
    clock.at = at;
    const job = await queue.claim('a');
    if (job === null) throw new Error('the job is not due');
    await queue.finish(job);
    return row(id).run_at;
  };
  expect(await finishAt(opening + SECOND_MS)).toBe(opening + SECOND_MS + 90 * MINUTE_MS);
  expect(await finishAt(opening + 2 * HOUR_MS)).toBe(opening + DAY_MS);
});
