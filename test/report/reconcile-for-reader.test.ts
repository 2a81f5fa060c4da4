import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { CommandContext } from '../../src/commands/shared/context.ts';
import { reconcileForReader } from '../../src/commands/shared/reconcile.ts';
import { stateFolderOf } from '../../src/place/state-folder.ts';

import { killGroup } from '../support/end-orphans.ts';
import { inRoot } from '../support/in-root.ts';
import { killRunner } from '../support/killed-runner.ts';
import { queryLog } from '../support/open-log.ts';
import { openStoreOf } from '../support/state-of.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { until } from '../support/until.ts';

const readers: readonly string[] = ['status', 'report', 'why waits', 'show 1', 'tail waits'];

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function endGroup(pid: number): Promise<void> {
  killGroup(pid);
  await until('the script is gone', () => !isAlive(pid));
}

const stateOf = (root: string) => ({
  runs: queryLog(root, 'select outcome, output from runs'),
  workers: queryLog(root, 'select state from workers'),
});

describe('somebody who looks', () => {
  test.each(readers)(
    'with %s finds a run that died with its runner, and records it',
    async (line) => {
      const { root, pid } = await killRunner();
      await endGroup(pid);
      expect(await inRoot(root, ...line.split(' '))).toMatchObject({ status: 0 });
      expect(stateOf(root)).toEqual({
        runs: [{ outcome: 'crashed', output: 'begun\n' }],
        workers: [{ state: 'crashed' }],
      });
    },
  );

  test('finds the true end of a run that outlived its runner and then ended', async () => {
    const { root, pid } = await killRunner();
    writeFileSync(join(root, 'go'), '');
    const results = join(root, '.runner/results');
    await until('it wrote down its end', () => readdirSync(results).includes('1.json'));
    await until('it is gone', () => !isAlive(pid));
    expect((await inRoot(root, 'report')).stdout).toContain('100%');
    expect(stateOf(root).runs).toEqual([{ outcome: 'succeeded', output: 'begun\n' }]);
  });

  test('leaves alone what still runs, and calls it by its name', async () => {
    const { root, pid } = await killRunner({
      'runner.config.json': '{"defaults":{"timeout":"1s"}}',
    });
    await until('its time is over', () => Date.now() > startOf(root) + 1200);
    expect((await inRoot(root, 'status')).stdout).toMatch(
      /hourly\/waits · for .* · still running, although its runner is gone · /,
    );
    expect((await inRoot(root, 'report')).stdout).toContain(
      'still running, although its runner is gone',
    );
    expect((await inRoot(root, 'why', 'waits')).stdout).toContain(
      'It has been running without its runner since ',
    );
    expect(isAlive(pid)).toBe(true);
    expect(stateOf(root)).toMatchObject({
      runs: [{ outcome: 'running' }],
      workers: [{ state: 'crashed' }],
    });
    const { running } = JSON.parse((await inRoot(root, 'status', '--json')).stdout);
    expect(running).toMatchObject([
      { script: 'hourly/waits', pid, isOrphan: true, liveness: 'alive' },
    ]);
  });

  test('is not kept from it by wrong settings', async () => {
    const { root, pid } = await killRunner();
    await endGroup(pid);
    writeFileSync(join(root, 'runner.config.json'), '{"concurrency": "many"}');
    const { status, stderr } = await inRoot(root, 'status');
    expect([status, stderr]).toEqual([0, expect.stringMatching(/^Note: .*concurrency.*\n$/)]);
    expect(stateOf(root).runs).toMatchObject([{ outcome: 'crashed' }]);
  });

  test('changes nothing in a log that is opened for reading only, and is told so', async () => {
    const { root, pid } = await killRunner();
    await endGroup(pid);
    const store = { ...(await openStoreOf(root)), isReadOnly: true };
    const notes: string[] = [];
    const stderr = { write: (text: string) => notes.push(text) } as unknown as NodeJS.WriteStream;
    const context = { stderr, now: Date.now } as CommandContext;
    await reconcileForReader(context, { root, state: stateFolderOf(root) }, store);
    expect(notes).toEqual([expect.stringContaining('the log cannot be written\n')]);
    expect(stateOf(root)).toMatchObject({ runs: [{ outcome: 'running' }] });
  });

  test('reads a log that another holds, after a moment, and is told that it may be behind', async () => {
    const { root, pid } = await killRunner();
    await endGroup(pid);
    const other = new Database(join(root, '.runner/activity.db'));
    onTestFinished(() => void other.close());
    other.exec('begin immediate');
    const before = performance.now();
    const { status, stdout, stderr } = await inRoot(root, 'status');
    expect(performance.now() - before).toBeLessThan(10_000);
    expect(status).toBe(0);
    expect(stdout).toContain('hourly/waits · for ');
    expect(stdout).toContain('cut off: its process is gone');
    expect(stderr).toMatch(/^Note: dead runs could not be recorded, .*locked\n$/);
    const why = (await inRoot(root, 'why', 'waits')).stdout;
    expect(why).toContain('and was cut off: its process is gone');
    expect(why).toMatch(/\n\nIt was cut off some time after .*: its process is gone\.\n/);
    expect(why).not.toMatch(/still runs|goes on/);
    other.exec('rollback');
    expect(await inRoot(root, 'status')).toMatchObject({ status: 0, stderr: '' });
    expect(stateOf(root).runs).toMatchObject([{ outcome: 'crashed' }]);
  });
});

test('where nothing ever ran, nothing is made by looking', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/waits.mjs': '' });
  for (const line of readers.filter((each) => !each.startsWith('show'))) {
    expect(await inRoot(root, ...line.split(' '))).toMatchObject({ status: 0 });
  }
  expect(existsSync(join(root, '.runner'))).toBe(false);
});

function startOf(root: string): number {
  const [run] = queryLog<{ started_at: number }>(root, 'select started_at from runs');
  if (run === undefined) throw new Error('There is no run.');
  return run.started_at;
}
