import { expect, test } from 'vitest';
import { inRoot, jsonOf, makeQueueSite } from '../../support/command.ts';
import { changeLog } from '../../support/log.ts';

/** Clears the screen, turns text round, begins a line. */
const EVIL = '\u001b[2J\u009b31m\u202e\r\nrunner: all is well\u0007';

/** Who adds by SQL can write anything into any column. */
async function makeEvilJob(state: 'queued' | 'failed'): Promise<string> {
  const root = makeQueueSite();
  await inRoot(root, 'add', 'export', '--at', '+1h');
  // With a time by its rule: without one the rule is looked at before the job is claimed.
  const insert = `insert into jobs (name, state, ready, data, reason, unique_key, concurrency_key, repeat,
      finished_at, scheduled_for) values (?, ?, ?, json_object('text', ?), ?, ?, ?, ?, ?, 1)`;
  const [ready, finishedAt] = state === 'failed' ? [null, Date.now()] : [0, null];
  changeLog(root, insert, EVIL, state, ready, EVIL, EVIL, EVIL, EVIL, EVIL, finishedAt);
  const told = `insert into events (at, job_id, event, detail) values (?, 2, 'job-updated', ?)`;
  changeLog(root, told, Date.now() + 1000, EVIL);
  return root;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
const unsafe = /[\0-\x08\x0b-\x1f\x7f-\x9f\u202e]/;

test.each([
  [['jobs']],
  [['jobs', '--json']],
  [['jobs', '--count']],
  [['jobs', '--upcoming', '3']],
  [['jobs', '--upcoming', '3', '--json']],
  [['job', '2']],
  [['job', '2', '--json']],
  [['job', '2', 'finish']],
  [['job', '2', 'bury', '--reason', EVIL]],
  [['job', '2', 'update', '--priority', '3']],
  [['job', '2', 'delete']],
  [['status']],
  [['claim']],
  [['pause', EVIL]],
  [['resume', EVIL]],
  [['add', EVIL]],
  [['add', 'x', '--unique', EVIL]],
  [['job', EVIL]],
  [['job', '2', EVIL]],
])('%j writes nothing that a terminal obeys', async (args) => {
  const { stdout, stderr } = await inRoot(await makeEvilJob('queued'), ...args);
  expect(stdout + stderr).not.toBe('');
  expect(stdout + stderr).not.toMatch(unsafe);
  expect(stdout + stderr).not.toMatch(/^runner: all is well/m);
});

test('JSON gives all of it back unchanged', async () => {
  const root = await makeEvilJob('failed');
  expect(jsonOf(await inRoot(root, 'job', '2', '--json'))).toMatchObject({
    name: EVIL,
    data: { text: EVIL },
    reason: EVIL,
    uniqueKey: EVIL,
    group: EVIL,
  });
});
