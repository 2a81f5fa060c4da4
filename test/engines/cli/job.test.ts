import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { inRoot, jsonOf, makeQueueSite, withInput } from '../../support/command.ts';

const keys = [
  ...['id', 'name', 'state', 'data', 'result', 'priority', 'runAt', 'scheduledFor', 'createdAt'],
  ...['startedAt', 'finishedAt', 'attempts', 'maxAttempts', 'repeat', 'missed', 'uniqueKey', 'group'],
  ...['parent', 'leaseMs', 'leasedUntil', 'reason', 'counters'],
];

/** A root with job 1, claimed unless said otherwise, and the token of that claim. */
async function makeJob({ isClaimed = true } = {}) {
  const root = makeQueueSite();
  await inRoot(root, 'add', 'export', '{"a":1}');
  const token: string = isClaimed ? jsonOf(await inRoot(root, 'claim')).token : '';
  const job = (...args: string[]) => inRoot(root, 'job', '1', ...args);
  return { root, token, job, read: async () => jsonOf(await job('--json')) };
}

describe('runner job', () => {
  test('shows a job with its data, runs and activity', async () => {
    const { job } = await makeJob();
    const { status, stdout, stderr } = await job();
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const shown = stdout.replaceAll(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, '#');
    expect(shown).toMatch(/^export · job 1 · running\n\nadded {9}# \(UTC\)\nwas due {7}#\n/);
    expect(shown).toContain('claimed until #\ntries         1\npriority      500\nso far        1 claim\n');
    expect(shown).toContain('\ndata\n{\n  "a": 1\n}\n');
    expect(shown).toMatch(/\nruns\nrun {2}started +outcome .*\n {2}1 {2}# +running/);
    expect(shown).toContain('\nactivity\n#  queued\n#  started · run 1\n');
  });

  test('as JSON has every key of docs/json.md', async () => {
    const { read } = await makeJob();
    const job = await read();
    expect(Object.keys(job)).toEqual([...keys, 'pause', 'children', 'runs', 'activity', 'next']);
    expect(job).toMatchObject({ id: 1, state: 'running', data: { a: 1 }, result: null, attempts: 1, pause: null });
    expect(job.runs).toMatchObject([{ id: 1, outcome: 'running', script: 'queue/export', tier: 'queue', job: 1 }]);
    expect(job.activity).toMatchObject([
      { event: 'job-queued', detail: null, run: null },
      { event: 'run-started', run: 1 },
    ]);
  });

  test('shows what keeps it from being run', async () => {
    const { root, job, read } = await makeJob({ isClaimed: false });
    await inRoot(root, 'pause', 'queue', '--for', '2h');
    expect((await job()).stdout).toMatch(
      /\npaused {8}the queue · until \d+ [A-Z][a-z]{2} \d\d:\d\d · by \S+ · `npx folder-runner resume queue` ends it\n/,
    );
    expect(await read()).toMatchObject({ pause: { name: 'queue', kind: 'pause' } });
    await inRoot(root, 'resume');
    expect((await job()).stdout).not.toContain('paused');
  });

  test('shows children, a long text cut, and nothing that could write to the terminal', async () => {
    const { root, job } = await makeJob();
    await inRoot(root, 'add', 'mail/welcome', '--parent', '1');
    const long = JSON.stringify({ text: 'x'.repeat(5_000), evil: '\u009b31m', list: Array(90).fill(1) });
    withInput(root, long, 'job', '1', 'update', '--data', '-');
    const { stdout } = await job();
    expect(stdout).toContain('\nchildren\njob 2 · mail/welcome · paused\n');
    expect(stdout).toContain('\ndata, without its last 56 lines; --json shows all of it\n');
    expect(stdout).toContain('xxx…\n');
    expect(stdout).toContain('"evil": ""');
    expect(stdout.length).toBeLessThan(5_000);
    expect((await inRoot(root, 'job', '2')).stdout).toContain('parent        job 1\n');
  });

  test.each([
    [['x'], 2, 'runner job needs the number of a job, found "x"; `npx folder-runner jobs` lists them.'],
    [['0'], 2, 'runner job needs the number of a job'],
    [['bury', '1'], 2, 'found "bury"; did you mean `npx folder-runner job 1 bury`?'],
    [['x', '1'], 2, 'found "x"; `npx folder-runner jobs` lists them.'],
    [['9'], 1, 'There is no job 9 in the queue; `npx folder-runner jobs` lists all jobs.'],
    [['9', 'kick'], 1, 'There is no job 9 in the queue'],
    [['9', 'requeue'], 1, 'There is no job 9 in the queue'],
    [['1', '2'], 2, 'runner job shows one job; for several, say what to do: `npx folder-runner job 1 2 kick`.'],
    [['1', 'finish', '2'], 2, 'needs numbers, then one verb; found "finish 2" behind 1.'],
    [['1', '2', 'finish', '--token', 'x'], 2, 'A --token is that of one claim: give one number with it.'],
    [['1', 'explode'], 2, 'runner job <id> needs one of finish, retry'],
    [['1', 'cancel', '--reason', 'x'], 2, '`npx folder-runner job <id> cancel` takes no --reason'],
    [['1', '--result', '{}'], 2, '--result goes with a verb: `npx folder-runner job <id> finish --result …`.'],
    [['1', 'finish', '--result', '{a'], 2, '--result is not valid JSON'],
    [['1', 'finish', '--result', '-', '--data', '-'], 2, 'Only one of --data and --result'],
    [['1', 'update'], 2, '`npx folder-runner job <id> update` needs --data, --priority'],
    [['1', 'finish', '--token', 'wrong'], 1, 'The claim of job 1 (export) has expired'],
    [['1', 'retry', '--delay', '5m', '--at', '+1h'], 2, 'cannot be combined'],
    [['1', 'retry', '--delay', '5'], 2, 'must be a duration such as'],
    [['1', 'retry', '--delay', '99999999d'], 2, 'at most 100000d, found "99999999d"'],
    [['1', 'touch', '--lease', '99999999d'], 2, 'at most 100000d, found "99999999d"'],
    [['1', 'delete'], 1, 'Job 1 (export) is running, and only a job that does not run'],
  ])('%j exits %i and changes nothing', async (args, status, message) => {
    const { root, read } = await makeJob();
    const ended = await inRoot(root, 'job', ...args);
    expect(ended).toMatchObject({ status, stdout: '' });
    expect(ended.stderr).toContain(message);
    expect(ended.stderr).toMatch(/^runner: .*\n$/);
    expect(await read()).toMatchObject({ state: 'running', data: { a: 1 } });
  });
});

describe('runner job <id>', () => {
  test('finish ends it with its result', async () => {
    const { token, job, read } = await makeJob();
    expect(await job('finish', '--token', token, '--result', '{"sent":true}')).toEqual({
      status: 0,
      stdout: 'Job 1 (export) is finished.\n',
      stderr: '',
    });
    expect(await read()).toMatchObject({ state: 'finished', result: { sent: true } });
    expect(await job('finish', '--token', token)).toMatchObject({ status: 1, stdout: '' });
    expect((await job()).stdout).toContain('\nresult\n{\n  "sent": true\n}\n');
  });

  test('finish without a token ends whatever claim holds', async () => {
    const { job, read } = await makeJob();
    expect((await job('finish')).stdout).toBe('Job 1 (export) is finished.\n');
    expect(await read()).toMatchObject({ state: 'finished', result: null });
  });

  test('finish prints the job as it is then with --json', async () => {
    const { job } = await makeJob();
    const told = jsonOf(await job('finish', '--data', '[1]', '--json'));
    expect(Object.keys(told)).toEqual(keys);
    expect(told).toMatchObject({ state: 'finished', data: [1] });
  });

  test('retry gives it back, for later and under another name', async () => {
    const { token, job, read } = await makeJob();
    const options = ['--delay', '2h', '--priority', '7', '--name', 'mail/welcome', '--data', '{}'];
    const { stdout } = await job('retry', ...options, '--reason', 'too busy', '--token', token);
    expect(stdout).toMatch(/^Job 1 \(mail\/welcome\) is retrying, due \d{4}-.* \(UTC\)\.\n$/);
    expect(await read()).toMatchObject({
      priority: 7,
      data: {},
      reason: 'too busy',
      counters: { releases: 1 },
      runs: [{ outcome: 'released', reason: 'too busy' }],
    });
  });

  test('fail, kick, bury and cancel', async () => {
    const { job, read } = await makeJob();
    expect((await job('fail', '--reason', 'no\u001b[2Jpe')).stdout).toBe('Job 1 (export) is failed: nope.\n');
    expect((await job('kick')).stdout).toBe('Job 1 (export) is queued, due now.\n');
    expect((await job('bury', '--priority', '3', '--reason', 'later')).stdout).toBe(
      'Job 1 (export) is failed: later.\n',
    );
    expect(await read()).toMatchObject({ priority: 3, counters: { buries: 1, kicks: 1 } });
    expect((await job('cancel')).stdout).toBe('Job 1 (export) is cancelled.\n');
  });

  test('touch renews its claim', async () => {
    const { token, job, read } = await makeJob();
    const before = Date.now();
    expect((await job('touch', '--lease', '2h', '--token', token)).stdout).toMatch(
      /^Job 1 \(export\) is running; its claim expires \d{4}-.* \(UTC\)\.\n$/,
    );
    expect(Date.parse((await read()).leasedUntil)).toBeGreaterThanOrEqual(before + 7_200_000);
  });

  test('update changes data, priority, time and rule, and no state', async () => {
    const { root, job, read } = await makeJob();
    expect(withInput(root, '{"b":2}', 'job', '1', 'update', '--data', '-').status).toBe(0);
    const options = ['--priority', '1', '--repeat', 'HOURLY', '--at', '2036-01-01 00:00'];
    expect(await job('update', ...options)).toMatchObject({ status: 0 });
    expect(await read()).toMatchObject({ state: 'running', data: { b: 2 }, priority: 1, repeat: 'HOURLY' });
    expect(await job('update', '--no-repeat')).toMatchObject({ status: 0 });
    expect(await read()).toMatchObject({ repeat: null });
  });

  test('requeue and delete', async () => {
    const { root, token, job } = await makeJob();
    expect((await job('requeue', '--name', 'mail/bye', '--forget-try')).stdout).toBe(
      'Job 1 (mail/bye) is queued, due now.\n',
    );
    expect(await job('finish', '--token', token)).toMatchObject({ status: 1 });
    expect((await job('delete')).stdout).toBe('Job 1 is deleted.\n');
    expect(await job('delete')).toMatchObject({ status: 1, stdout: '' });
    await inRoot(root, 'add', 'export');
    expect((await inRoot(root, 'job', '2', 'delete', '--json')).stdout).toBe('{\n  "id": 2\n}\n');
  });

  test('finish says so when the settings keep nothing of it', async () => {
    const { root, job } = await makeJob({ isClaimed: false });
    const settings = JSON.stringify({ queue: { archive: { export: 'remove' } } });
    writeFileSync(join(root, 'runner.config.json'), settings);
    await inRoot(root, 'claim');
    expect((await job('finish')).stdout).toBe('Job 1 has ended and was removed, as the settings say.\n');
  });
});

describe('runner job <id…> <verb>', () => {
  /** Jobs 1 to 4: running, failed, queued and due, queued for later. */
  async function makeJobs() {
    const { root } = await makeJob();
    await inRoot(root, 'add', 'mail/welcome');
    await inRoot(root, 'add', 'mail/welcome');
    await inRoot(root, 'add', 'export', '--at', '2036-12-24 18:00');
    await inRoot(root, 'job', '2', 'bury');
    const states = async () =>
      jsonOf(await inRoot(root, 'jobs', '--json')).jobs.map((job: { id: number; state: string }) => job.state);
    return { root, states, job: (...args: string[]) => inRoot(root, 'job', ...args) };
  }

  test('changes each by itself, and says of those that are refused why', async () => {
    const { job, states } = await makeJobs();
    const ended = await job('2', '9', '1', '3', '4', '2', 'kick');
    expect(ended).toEqual({
      status: 1,
      stdout: 'Job 2 (mail/welcome) is queued, due now.\nJob 4 (export) is queued, due now.\n',
      stderr:
        'runner: There is no job 9 in the queue; `npx folder-runner jobs` lists all jobs.\n' +
        'runner: Job 1 (export) is running, and only a failed or delayed job can be kicked; ' +
        'bury it first, or wait for its end.\n' +
        'runner: Job 3 (mail/welcome) is queued, and only a failed or delayed job can be kicked; ' +
        'it is due, and will run in its turn.\n',
    });
    expect(await states()).toEqual(['queued', 'queued', 'queued', 'running']);
  });

  test.each([
    ['requeue', 'queued'],
    ['bury', 'failed'],
    ['cancel', 'cancelled'],
  ])('%s of all of them exits 0', async (verb, state) => {
    const { job, states } = await makeJobs();
    await job('1', 'retry');
    await job('2', 'kick');
    expect(await job('1', '2', '3', '4', verb)).toMatchObject({ status: 0, stderr: '' });
    expect(await states()).toEqual(Array(4).fill(state));
  });

  test('as JSON names the jobs as they are then, and those that were refused', async () => {
    const { job } = await makeJobs();
    const { status, stdout } = await job('3', '1', 'delete', '--json');
    const reason = expect.stringContaining('Job 1 (export) is running');
    expect({ status, told: JSON.parse(stdout) }).toEqual({
      status: 1,
      told: { jobs: [{ id: 3 }], refused: [{ id: 1, reason }] },
    });
    const told = jsonOf(await job('2', '4', 'update', '--priority', '9', '--json'));
    expect(told).toMatchObject({
      jobs: [
        { id: 2, priority: 9 },
        { id: 4, priority: 9 },
      ],
      refused: [],
    });
  });

  test('says once what is wrong with an option, and changes nothing', async () => {
    const { job, states } = await makeJobs();
    expect(await job('1', '2', '3', 'update', '--priority', 'x')).toEqual({
      status: 2,
      stdout: '',
      stderr: 'runner: A priority must be a whole number such as 500, found "x".\n',
    });
    expect(await states()).toEqual(['queued', 'queued', 'failed', 'running']);
  });
});
