import { describe, expect, test } from 'vitest';
import { cronEnv, runCommand } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { runSite, siteLanguages } from '../../support/site.ts';

const handler = `export default ({ data, fail }) => (data.to ? { sent: data.to } : fail('nobody'));`;

function makeSite(): string {
  const root = makeTemporaryRoot({ 'jobs/queue/mail/welcome.mjs': handler });
  expect(call(root, 'init').status).toBe(0);
  return root;
}

function call(root: string, ...args: readonly string[]) {
  return runCommand(args, { cwd: root, env: cronEnv(root) });
}

describe.each(siteLanguages())('the file for $language', ({ command, delay, noTime }) => {
  test('adds jobs to a root that init has just made, one for each unique key, and reads what became of them', () => {
    const root = makeSite();
    const added = runSite(root, command, 'add');
    expect({ ...added, answers: added.answers.length }).toEqual({ status: 0, stderr: '', answers: 4 });
    const [first, again, urgent, later] = added.answers.map(Number);
    expect(again).toBe(first);
    expect(
      queryLog(root, 'select id, retry, unique_key, priority, concurrency_key, repeat from jobs order by id'),
    ).toEqual([
      { id: first, retry: '2 5m', unique_key: 'welcome:7', priority: 500, concurrency_key: null, repeat: null },
      { id: urgent, retry: null, unique_key: null, priority: 700, concurrency_key: null, repeat: null },
      { id: later, retry: null, unique_key: null, priority: 500, concurrency_key: 'g', repeat: 'daily at 10:00' },
    ]);
    expect(call(root, 'work').status).toBe(1);
    const { answers } = runSite(root, command, 'get', ...([first, urgent, later] as number[]), 99);
    const [done, failed, waiting, missing] = answers.map((answer) => JSON.parse(answer));
    const name = 'mail/welcome';
    expect(done).toMatchObject({ id: first, name, state: 'finished', data: { to: 'Zoë' }, result: { sent: 'Zoë' } });
    expect(done).toMatchObject({ attempts: 1, reason: null, finished_at: expect.stringMatching(/^\d{4}-.*\+00:00$/) });
    expect(failed).toMatchObject({ id: urgent, state: 'failed', data: {}, result: null, reason: 'nobody' });
    expect(waiting).toMatchObject({
      id: later,
      state: 'queued',
      run_at: '2030-01-02T03:04:05.678+00:00',
      finished_at: null,
    });
    expect(missing).toBeNull();
  });

  test('says in a sentence what no job can have, and goes on', () => {
    const root = makeSite();
    const { status, stderr, answers } = runSite(root, command, 'refuse');
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(answers.map((answer) => JSON.parse(answer))).toEqual([
      "mail/welcome was not added: a job's priority is a whole number from -9007199254740991 to 9007199254740991.",
      `${delay} needs retries beside it.`,
      noTime,
      expect.any(Number),
    ]);
  });

  test('says in a sentence that there is no log', () => {
    const { status, stderr } = runSite(makeTemporaryRoot(), command, 'add');
    expect(status).not.toBe(0);
    expect(stderr).toMatch(/There is no activity log at .*activity\.db: call `npx folder-runner init` in \. first\./);
  });
});
