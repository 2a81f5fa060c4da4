import { describe, expect, test } from 'vitest';
import { inRoot } from '../../support/command.ts';
import { changeLog, queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { NO_SUCH_PID, running, writeLog } from '../../support/written-log.ts';

/** A root with a run that began on another host, whose runner gives no sign of life any more. */
async function leaveRunElsewhere(pid: number | null): Promise<string> {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': executable('#!/bin/sh\n') });
  const { addPass, addRun } = await writeLog(root);
  const at = Date.now() - 60_000;
  const pass = await addPass('hourly', at, { state: 'crashed' });
  changeLog(root, "update hosts set host = 'web9'");
  await addRun('hourly/a', at, { ...running, worker_id: pass, pid });
  return root;
}

describe.each([
  ['its process was written down', 439],
  ['its runner died before it wrote the process down', null],
])('a run that another host has left, where %s,', (_, pid) => {
  test('may still run, says status, and no more', async () => {
    const root = await leaveRunElsewhere(pid);
    const { stdout } = await inRoot(root, 'status');
    expect(stdout).toMatch(/\n {2}hourly\/a · for .* · may still be running, on web9 · since /);
    expect(stdout).not.toContain('runs on');
    expect((await inRoot(root, 'report')).stdout).toContain(' · may still be running, on web9 · ');
    expect(JSON.parse((await inRoot(root, 'status', '--json')).stdout).running).toMatchObject([
      { isOrphan: true, liveness: 'on-another-host', pid },
    ]);
  });

  test('may still run, says why, and who will know', async () => {
    const { stdout } = await inRoot(await leaveRunElsewhere(pid), 'why', 'a');
    const text = stdout.replaceAll(/\s+/g, ' ');
    const who = pid === null ? '' : ` \\(pid ${pid}\\)`;
    expect(text).toMatch(
      new RegExp(
        `! job run 1 began .{11,12}${who} on web9; its runner gives no sign of life, and this host ` +
          'cannot see whether it is still running → A call on that host can check it',
      ),
    );
    expect(text).toMatch(/✔ last run run 1 of .{11,12} has no end in the log yet/);
    expect(text).toMatch(
      /It may still be running on web9, since .{11,12}; hourly starts it again once it is known to have ended\./,
    );
    expect(text).not.toMatch(/still runs|goes on/);
  });

  test('may still run, says the log, and it is not started here', async () => {
    const root = await leaveRunElsewhere(pid);
    expect((await inRoot(root, 'hourly')).status).toBe(0);
    expect(queryLog(root, 'select outcome from runs')).toEqual([{ outcome: 'running' }]);
    const told = "select detail from activity where event = 'run-orphaned'";
    expect(queryLog(root, told)).toEqual([
      {
        detail: `hourly/a may still be running, left by a runner that gives no sign of life (pid ${NO_SUCH_PID} on web9)`,
      },
    ]);
  });
});
