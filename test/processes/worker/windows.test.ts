import { join } from 'node:path';
import { expect, test } from 'vitest';
import { callAt, noted, notesTime, runAt, runWithFault } from '../../support/faults/faults.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

/* Windows of the day, `@between`, over hours of a moved clock. */

const windowed = (name: string, ...tags: readonly string[]): string =>
  `${['#!/bin/sh', ...tags.map((tag) => `# ${tag}`)].join('\n')}\n${notesTime(name)}`;

test('by its schedule, a script runs once when its window opens, for the last of the times that came', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': windowed('a', '@schedule every 2 hours', '@between 22:00 and 05:00'),
    'jobs/15min/other.sh': '#!/bin/sh\n',
  });
  await callAt(root, ['2026-11-23 05:57', '2026-11-23 06:57', '2026-11-23 08:57', '2026-11-23 20:57'], 'hourly');
  expect(noted(root)).toEqual([]);
  // Ten o'clock has come, too, so that its own pass does not run it again.
  await callAt(root, ['2026-11-23 21:59', '2026-11-23 22:01', '2026-11-23 22:15'], '15min');
  expect(noted(root)).toEqual(['a 2026-11-23T22:00:00.000Z']);
  await callAt(root, ['2026-11-23 22:57', '2026-11-24 00:57', '2026-11-24 04:57', '2026-11-24 06:57'], 'hourly');
  expect(noted(root).slice(1)).toEqual(['a 2026-11-24T00:00:00.000Z', 'a 2026-11-24T04:00:00.000Z']);
  // It was late by its opening, not by its time.
  const [late] = queryLog<{ late: number }>(root, 'select max(late_max_ms) as late from metrics where late_max_ms > 0');
  expect(late?.late).toBeLessThan(3_600_000);
});

test('a window follows the zone of the script, also when its clocks change', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': windowed('a', '@between 02:10 and 02:50', '@timezone Europe/Berlin'),
    'jobs/hourly/b.sh': windowed('b', '@schedule daily at 12:00 in Europe/Berlin', '@between 02:10 and 02:50'),
  });
  const scripts = async (...times: readonly string[]) => {
    const before = noted(root).length;
    await callAt(root, times, 'hourly');
    return noted(root)
      .slice(before)
      .map((line) => line.slice(0, 1));
  };
  expect(await scripts('2026-03-27 11:20')).toEqual([]);
  expect(await scripts('2026-03-28 00:20', '2026-03-28 01:20')).toEqual(['a', 'b']);
  // In spring the clocks skip all of it: then it opens on the next day.
  expect(await scripts('2026-03-28 11:20', '2026-03-29 00:55')).toEqual([]);
  expect(await scripts('2026-03-29 01:05', '2026-03-29 02:05')).toEqual([]);
  expect(await scripts('2026-03-30 00:05', '2026-03-30 00:20')).toEqual(['a', 'b']);
});

test('a window that shuts during the pass keeps what has not begun; what runs goes on', async () => {
  const hour = (ahead: number) => new Date(Date.now() + ahead * 3_600_000).toISOString().slice(11, 16);
  const window = [`@between ${hour(-2)} and ${hour(2)}`, '@timezone UTC'];
  const root = makeTemporaryRoot({
    'jobs/hourly/1-long.sh': `${windowed('long', ...window)}touch "$RUNNER_ROOT/late"\n`,
    'jobs/hourly/2-next.sh': windowed('next', ...window),
    'jobs/hourly/3-other.sh': notesTime('other'),
  });
  await runWithFault(root, ['hourly'], { clockMs: 6 * 3_600_000, clockWhen: join(root, 'late') });
  expect(noted(root).map((line) => line.split(' ')[0])).toEqual(['long', 'other']);
  expect(queryLog(root, `select name, state from jobs order by name`)).toEqual([
    { name: 'hourly/1-long', state: 'finished' },
    { name: 'hourly/2-next', state: 'queued' },
    { name: 'hourly/3-other', state: 'finished' },
  ]);
  expect(queryLog(root, 'select state from workers')).toEqual([{ state: 'finished' }]);
});

test('after a boot, a script waits for its window, too', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': windowed('a', '@reboot', '@between 22:00 and 05:00') });
  expect(await runAt(root, '2026-11-23 20:57', 'hourly')).toMatchObject({ status: 0 });
  expect(noted(root)).toEqual([]);
});

test('with a schedule, a script has no time on excepted dates: the next time is that of the next day', async () => {
  const root = makeTemporaryRoot({
    'holidays.txt': '2026-12-25 to 2026-12-26\n',
    'jobs/hourly/a.sh': windowed('a', '@schedule daily at 02:30', '@except holidays.txt'),
  });
  const call = (day: number) => callAt(root, [`2026-12-${day} 02:13`, `2026-12-${day} 03:13`], 'hourly');
  await call(24);
  const { stdout } = await runAt(root, '2026-12-24 03:20', 'next', '--for', '4d', '--json');
  const { items } = JSON.parse(stdout) as { items: readonly { name: string; due: string | null }[] };
  const due = items.flatMap((item) => (item.name === 'hourly/a' ? item.due : []));
  expect(due).toEqual(['2026-12-27T02:30:00.000Z', '2026-12-28T02:30:00.000Z']);
  for (const day of [25, 26, 27]) await call(day);
  expect(noted(root)).toEqual(['a 2026-12-24T02:30:00.000Z', 'a 2026-12-27T02:30:00.000Z']);
});
