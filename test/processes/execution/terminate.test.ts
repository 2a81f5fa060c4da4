import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { runScript } from '../../../src/execution/script/run-script.ts';
import { signalGroup } from '../../../src/system/process/tree.ts';
import { requestRun, runOne } from '../../support/run.ts';
import { standStill, until } from '../../support/until.ts';

/** Long enough for a shell to start on a busy machine. */
const GRACE = { timeoutMs: 1_000, graceMs: 300 } as const;

/** Neither it nor a zombie of it. */
function isGone(pid: number): boolean {
  try {
    // Its first thread may have ended before the others, which nobody can wait for until they have ended, too.
    const hasOneThread = readdirSync(`/proc/${pid}/task`).length === 1;
    return hasOneThread && readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') Z ');
  } catch {
    return true;
  }
}

describe('at the time limit', () => {
  test('a script and its children are ended', async () => {
    const request = await requestRun(
      'family.sh',
      'sleep 60 &\necho $! >"$RUNNER_ROOT/child"\nsh -c "sleep 60 & wait" &\nsleep 60\n',
      GRACE,
    );
    const end = await runScript(request);
    expect(end).toMatchObject({
      outcome: 'timed-out',
      exitCode: null,
      signal: 'SIGTERM',
      reason: expect.stringMatching(/^timed out after 1(\.\d)?s \(limit 1s\), ended with SIGTERM$/),
    });
    const child = Number(readFileSync(join(request.root, 'child'), 'utf8'));
    await until('the child is gone', () => isGone(child));
    expect(end.durationMs).toBeGreaterThanOrEqual(1_000);
    expect(end.durationMs).toBeLessThan(30_000);
  });

  test('a script that ignores SIGTERM is killed after the grace, with children that do too', async () => {
    const request = await requestRun(
      'ignores-sigterm.sh',
      'trap "" TERM\nsh -c \'trap "" TERM; while :; do sleep 1; done\' &\necho $! >"$RUNNER_ROOT/child"\nwhile :; do sleep 1; done\n',
      GRACE,
    );
    const end = await runScript(request);
    expect(end).toMatchObject({
      outcome: 'timed-out',
      signal: 'SIGKILL',
      reason: expect.stringMatching(/ \(limit 1s\), ended with SIGKILL after 300ms of grace$/),
    });
    expect(end.durationMs).toBeGreaterThanOrEqual(1_300);
    const child = Number(readFileSync(join(request.root, 'child'), 'utf8'));
    await until('the child is gone', () => isGone(child));
  });

  test('a child that outlives a script that ends at SIGTERM is killed', async () => {
    const request = await requestRun(
      'leaves-a-child.sh',
      'sh -c \'trap "" TERM; while :; do sleep 1; done\' &\necho $! >"$RUNNER_ROOT/child"\nexec sleep 60\n',
      GRACE,
    );
    const end = await runScript(request);
    expect(end).toMatchObject({ outcome: 'timed-out', signal: 'SIGTERM' });
    const child = Number(readFileSync(join(request.root, 'child'), 'utf8'));
    await until('the child is gone', () => isGone(child));
  });

  test('a script may end itself and is timed out all the same', async () => {
    const end = await runOne(
      'tidies-up.sh',
      'trap "echo tidied up; exit 0" TERM\nwhile :; do sleep 0.05; done\n',
      GRACE,
    );
    expect(end).toMatchObject({
      outcome: 'timed-out',
      exitCode: 0,
      output: { text: expect.stringContaining('tidied up\n') },
      reason: expect.stringMatching(/, exited with code 0 after SIGTERM$/),
    });
  });

  test('a stopped script is ended too', async () => {
    const end = await runOne('stops-itself.sh', 'kill -STOP $$\n', GRACE);
    expect(end).toMatchObject({ outcome: 'timed-out', signal: 'SIGKILL' });
  });
});

describe('a runner that stands still beyond the time limit', () => {
  const limits = { timeoutMs: 300, graceMs: 300 };
  const isLate = (begun: number): boolean => performance.now() - begun > limits.timeoutMs + 100;

  test.for([
    ['ends.sh', false, 'sleep 0.1\n'],
    ['ends.sh', true, 'sleep 0.1\n'],
    ['ends.mjs', false, 'setTimeout(() => {}, 50);\n'],
  ] as const)(
    'takes %s for what it is, which ended alone meanwhile (told to stop: %s)',
    async ([name, isStopped, content]) => {
      const stop = new AbortController();
      const onStarted = (pid: number): void => {
        const begun = performance.now();
        setImmediate(() => {
          standStill(() => isGone(pid) && isLate(begun));
          if (isStopped) stop.abort();
        });
      };
      const end = await runOne(name, content, { ...limits, stop: stop.signal, onStarted });
      expect(end).toMatchObject({ outcome: 'succeeded', exitCode: 0, reason: null });
    },
  );

  test('ends what is still there', async () => {
    const onStarted = (): void => {
      const begun = performance.now();
      setImmediate(() => standStill(() => isLate(begun)));
    };
    const end = await runOne('lasts.sh', 'sleep 60\n', { ...limits, onStarted });
    expect(end).toMatchObject({ outcome: 'timed-out', signal: 'SIGTERM' });
  });
});

test('a script is stopped with the runner', async () => {
  const stop = new AbortController();
  const end = await runOne('forever.sh', 'sleep 60\n', { stop: stop.signal, onStarted: () => stop.abort() });
  expect(end).toMatchObject({
    outcome: 'failed',
    signal: 'SIGTERM',
    reason: 'stopped because the runner was stopped (Ctrl-C or kill), ended with SIGTERM',
  });
});

describe('a signal to a group', () => {
  test.for(['ESRCH', 'EPERM'])('that cannot be given (%s) is nothing to fail for', (code) => {
    const kill = vi.spyOn(process, 'kill').mockImplementation(() => {
      throw Object.assign(new Error(code), { code });
    });
    expect(() => signalGroup(4711, 'SIGTERM')).not.toThrow();
    expect(kill).toHaveBeenCalledExactlyOnceWith(-4711, 'SIGTERM');
    kill.mockRestore();
  });
});
