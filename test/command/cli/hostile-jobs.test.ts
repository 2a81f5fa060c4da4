import { expect, test } from 'vitest';
import { inRoot, jsonOf, makeQueueSite } from '../../support/command.ts';
import { changeLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { running, writeLog } from '../../support/written-log.ts';

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

/** A root whose files, runs and passes have such names, and say such things. */
async function makeEvilSite(): Promise<string> {
  const root = makeTemporaryRoot({
    [`jobs/hourly/a${EVIL}.sh`]: `# @description x${EVIL}\n`,
    [`jobs/hourly/b${EVIL}.txt`]: '',
    'jobs/hourly/c.sh': '# @description x\u0007\n# @host \u001bc\n',
  });
  const log = await writeLog(root);
  const said = { reason: `why ${EVIL}`, error_message: EVIL, output: `said ${EVIL}`, signal: `SIG${EVIL}` };
  await log.addRun('hourly/c', Date.now() - 60_000, { outcome: 'failed', ...said });
  await log.addPass(`tier${EVIL}`, Date.now() - 60_000, { state: 'skipped', reason: `held ${EVIL}` });
  const pass = await log.addPass('daily', Date.now(), { state: 'running', pid: process.pid });
  await log.addRun(`daily/${EVIL}`, Date.now(), { ...running, worker_id: pass });
  return root;
}

test.each([
  ...[[['list']], [['report']], [['report', 'hourly/c']], [['report', 'hourly/c', '--csv']], [['show', '1']]],
  ...[[['show', '2']], [['status']], [['why', 'hourly/c']], [['activity']], [['tail', 'hourly/c']]],
])('%j shows of runs, passes and files nothing that a terminal obeys', async (args) => {
  const { status, stdout, stderr } = await inRoot(await makeEvilSite(), ...args);
  expect(status).toBe(0);
  expect(stdout).not.toBe('');
  expect(stdout + stderr).not.toMatch(unsafe);
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
