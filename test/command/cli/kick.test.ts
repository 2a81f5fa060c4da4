import { expect, test } from 'vitest';
import { inRoot, jsonOf, makeQueueSite, withInput } from '../../support/command.ts';

/** Jobs 1 to 3 have failed, 4 waits for its time. */
async function makeFailed(): Promise<string> {
  const root = makeQueueSite();
  withInput(root, '{"name":"mail/welcome"}\n'.repeat(3), 'add', '--many');
  for (const id of ['1', '2', '3']) await inRoot(root, 'job', id, 'bury');
  await inRoot(root, 'add', 'mail/welcome', '--at', '+1h');
  return root;
}

const statesOf = async (root: string): Promise<string[]> =>
  jsonOf(await inRoot(root, 'jobs', '--json')).jobs.map(({ state }: { state: string }) => state);

test('runner kick queues what has failed, and only then what waits for its time', async () => {
  const root = await makeFailed();
  expect(await inRoot(root, 'kick', 'mail/*', '--count', '2')).toEqual({
    status: 0,
    stdout: 'Kicked 2 jobs.\n',
    stderr: '',
  });
  expect(await statesOf(root)).toEqual(['queued', 'failed', 'queued', 'queued']);
  expect((await inRoot(root, 'kick', 'mail/*')).stdout).toBe('Kicked 1 job.\n');
  expect(jsonOf(await inRoot(root, 'jobs', '--state', 'delayed', '--json')).jobs).toHaveLength(1);
  expect((await inRoot(root, 'kick', 'mail/*', '--json')).stdout).toBe('{"kicked":1}\n');
  expect(jsonOf(await inRoot(root, 'jobs', '--state', 'delayed', '--json')).jobs).toEqual([]);
});

test('other names are left alone', async () => {
  const root = await makeFailed();
  expect((await inRoot(root, 'kick', 'export', 'mail/bye')).stdout).toBe('Kicked 0 jobs.\n');
  expect((await inRoot(root, 'kick', 'export', 'mail/w*')).stdout).toBe('Kicked 3 jobs.\n');
});

test('a number that is no name is told to be one of a job', async () => {
  expect((await inRoot(await makeFailed(), 'kick', '3')).stdout).toBe(
    'Kicked 0 jobs; `npx folder-runner job 3 kick` kicks the job of that number.\n',
  );
});

test.each([
  [[], 'Missing <pattern>'],
  [['*', '--count', 'all'], '--count must be a whole number from 1'],
])('%j is wrong use', async (args, message) => {
  const { status, stderr } = await inRoot(makeQueueSite(), 'kick', ...args);
  expect(status).toBe(2);
  expect(stderr).toContain(message);
});
