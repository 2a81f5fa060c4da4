import { spawn } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { RunEnd } from '../../../src/execution/result/result.ts';
import { runFilesOf } from '../../../src/execution/run-files.ts';
import { runScript } from '../../../src/execution/script/run-script.ts';
import { checkLiveness, identifyProcess, type ProcessIdentity } from '../../../src/system/process/identity.ts';
import { signalGroup } from '../../../src/system/process/tree.ts';
import { endLostRun, type LostRunRequest } from '../../../src/worker/recovery/dead-workers.ts';
import { type Pass, runPass } from '../../support/command.ts';
import { identifyDeadProcess } from '../../support/faults/faults.ts';
import { requestRun, runOne } from '../../support/run.ts';
import { standStill, until } from '../../support/until.ts';

function endOf({ run }: Pass, label: string) {
  const { outcome, exit_code, error_name, error_message, reason, measured_by } = run(label);
  return { outcome, exit_code, error_name, error_message, reason, measured_by };
}

test('errors that end a script are recorded as they are', () => {
  const pass = runPass({
    'throws.mjs': `throw new TypeError('a text\\nof two lines');\n`,
    'throws-in-a-timer.cjs': `setTimeout(() => { throw new RangeError('late'); }, 5);\n`,
    'rejects.mjs': `Promise.reject(new Error('nobody waits'));\nsetTimeout(() => {}, 60_000);\n`,
    'function-rejects.mjs': `export default async () => { throw new Error('in the function'); };\n`,
    'module-is-missing.mjs': `import 'no-such-package';\n`,
  });
  const failure = { outcome: 'failed', exit_code: 1, measured_by: 'self' };
  expect(endOf(pass, 'throws')).toEqual({
    ...failure,
    error_name: 'TypeError',
    error_message: 'a text\nof two lines',
    reason: 'exit code 1: TypeError: a text',
  });
  expect(endOf(pass, 'throws-in-a-timer')).toMatchObject({ ...failure, error_message: 'late' });
  expect(endOf(pass, 'rejects')).toMatchObject({ ...failure, error_message: 'nobody waits' });
  expect(endOf(pass, 'function-rejects')).toMatchObject({ ...failure, error_message: 'in the function' });
  expect(endOf(pass, 'module-is-missing').error_message).toContain('no-such-package');
  expect(pass.run('throws').error_stack).toContain('/jobs/hourly/throws.mjs:1:7');
  expect(pass.run('function-rejects').error_stack).toContain('function-rejects.mjs:1:');
});

test('a cause and the errors of an AggregateError stand in the stack', () => {
  const { run } = runPass({
    'nested.mjs': `const all = new AggregateError([new Error('first leg'), new Error('second leg')], 'both');
throw new Error('outermost', { cause: new Error('in between', { cause: all }) });\n`,
  });
  expect(run('nested').error_message).toBe('outermost');
  for (const text of ['outermost', 'in between', 'both', 'first leg', 'second leg']) {
    expect(run('nested').error_stack).toContain(text);
  }
});

test('anything can be thrown', () => {
  const pass = runPass({
    'hostile.mjs': `throw new Proxy(new Error('x'), { get() { throw new Error('of a getter'); } });\n`,
    'hostile-message.mjs': `const error = new Error('x');
Object.defineProperty(error, 'message', { get() { throw new Error('of a getter'); } });
throw error;\n`,
    'null.mjs': `throw null;\n`,
    'default-null.mjs': `export default async () => { throw null; };\n`,
    'default-object.mjs': `export default () => { throw { code: 5, message: 'x '.repeat(100), at: { a: { b: { c: 1 } } } }; };\n`,
    'default-rejects.mjs': `export default () => Promise.reject(undefined);\n`,
    'number.mjs': `throw 42;\n`,
    'object.mjs': `throw { code: 7 };\n`,
    'rejected-text.mjs': `Promise.reject('a rejected text');\n`,
    'symbol.mjs': `throw Symbol('sign');\n`,
    'text.mjs': `throw 'only a text';\n`,
    'undefined.mjs': `throw undefined;\n`,
    'very-long.mjs': `throw new Error('long '.repeat(1_000_000));\n`,
  });
  expect(pass.runs).toHaveLength(13);
  for (const { script, outcome, error_message } of pass.runs) {
    expect({ script, outcome }).toEqual({ script, outcome: 'failed' });
    expect(error_message).toBeTypeOf('string');
  }
  expect(endOf(pass, 'text')).toMatchObject({
    error_name: 'thrown string',
    error_message: 'only a text',
    reason: 'exit code 1: thrown string: only a text',
  });
  expect(endOf(pass, 'object').error_message).toBe('{ code: 7 }');
  expect(endOf(pass, 'null').error_message).toBe('null');
  expect(endOf(pass, 'default-null').reason).toBe('exit code 1: thrown object: null');
  const long = 'x '.repeat(100);
  expect(endOf(pass, 'default-object').reason).toBe(
    `exit code 1: thrown object: { code: 5, message: '${long}', at: { a: { b: [Object] } } }`,
  );
  expect(endOf(pass, 'default-rejects').reason).toBe('exit code 1: thrown undefined: undefined');
  expect(endOf(pass, 'rejected-text').error_message).toContain('a rejected text');
  expect(pass.run('very-long').error_message?.length).toBeLessThanOrEqual(8 * 1024);
  expect(pass.run('very-long').error_stack?.length).toBeLessThanOrEqual(32 * 1024);
});

test('a script that ends itself is taken at its word', () => {
  const pass = runPass({
    'exits.mjs': `console.log('enough');\nprocess.exit(7);\n`,
    'exits-after-an-error.cjs': `process.on('uncaughtException', () => process.exit(9));\nthrow new Error('the cause');\n`,
    'exits-at-exit.mjs': `process.on('exit', () => { process.exitCode = 4; });\n`,
    'exits-with-zero-after-an-error.cjs': `process.on('uncaughtException', () => process.exit(0));\nthrow new Error('no matter');\n`,
    'sets-exit-code.mjs': `export default () => { process.exitCode = 5; };\n`,
  });
  const withoutError = { error_name: null, error_message: null, measured_by: 'self' };
  expect(endOf(pass, 'exits')).toEqual({ ...withoutError, outcome: 'failed', exit_code: 7, reason: 'exit code 7' });
  expect(endOf(pass, 'exits-after-an-error')).toMatchObject({
    exit_code: 9,
    error_message: 'the cause',
    reason: 'exit code 9: Error: the cause',
  });
  expect(endOf(pass, 'exits-at-exit')).toMatchObject({ ...withoutError, exit_code: 4 });
  expect(endOf(pass, 'exits-with-zero-after-an-error')).toMatchObject({ ...withoutError, outcome: 'succeeded' });
  expect(endOf(pass, 'sets-exit-code')).toMatchObject({ ...withoutError, exit_code: 5 });
});

test('a promise that never settles is a failure, not an early success', () => {
  const pass = runPass({
    'function.mjs': `export default () => new Promise(() => {});\n`,
    'common.cts': `module.exports = (): Promise<void> => new Promise(() => {});\n`,
    'module.mjs': `await new Promise(() => {});\n`,
  });
  const functionNever = "the promise of the script's default function never settled";
  expect(endOf(pass, 'function')).toMatchObject({
    outcome: 'failed',
    exit_code: 13,
    reason: `exit code 13: Error: ${functionNever}`,
  });
  expect(pass.run('function').output).toBe(`Error: ${functionNever}\n`);
  expect(endOf(pass, 'common')).toMatchObject({ exit_code: 13, error_message: functionNever });
  expect(endOf(pass, 'module')).toMatchObject({
    outcome: 'failed',
    exit_code: 13,
    error_message:
      'a top-level await never settled. Did the script wait for input? Scripts have no keyboard (stdin is empty).',
  });
});

test('a Node script’s figures are its own, also when it fails', () => {
  const busy = `const bytes = Buffer.alloc(150 * 1024 * 1024, 1);
const end = Date.now() + 200;
while (Date.now() < end);
console.log(JSON.stringify({ ...process.resourceUsage(), bytes: bytes.length }));\n`;
  const { run } = runPass({
    'exits.mjs': `${busy}process.exit(3);\n`,
    'succeeds.mjs': busy,
    'throws.mjs': `${busy}throw new Error('after all');\n`,
  });
  for (const label of ['exits', 'succeeds', 'throws']) {
    const { output, measured_by, user_cpu_us, max_rss_bytes } = run(label);
    const own = JSON.parse(output?.split('\n')[0] ?? '');
    expect(measured_by).toBe('self');
    expect(max_rss_bytes).toBeGreaterThanOrEqual(own.maxRSS * 1024);
    expect(max_rss_bytes).toBeLessThan(own.maxRSS * 1024 * 1.1);
    expect(user_cpu_us).toBeGreaterThanOrEqual(own.userCPUTime);
    expect(user_cpu_us).toBeLessThan(own.userCPUTime + 100_000);
  }
});

const MB = 1024 * 1024;

async function requestLost(overrides: Partial<LostRunRequest> = {}): Promise<LostRunRequest> {
  const { root, state, masker } = await requestRun('lost.sh', 'true\n');
  writeFileSync(runFilesOf(state, '1.1').output, 'first\nlast\n');
  return {
    key: '1.1',
    root,
    state,
    masker,
    startedAt: 0,
    process: identifyDeadProcess(),
    runner: 'pid 4711 on web3',
    timeoutMs: 1000,
    graceMs: 1000,
    maxOutputBytes: MB,
    lastSeenRssBytes: null,
    now: 5000,
    ...overrides,
  };
}

test('a crash tells of the memory that its runner last wrote down', async () => {
  const end = await endLostRun(await requestLost({ lastSeenRssBytes: 312 * MB }));
  expect(end).toMatchObject({
    outcome: 'crashed',
    maxRssBytes: 312 * MB,
    measuredBy: 'sampled',
    reason: 'the runner (pid 4711 on web3) died while it ran; last seen with 312 MB; its last output line: last',
  });
});

test('without a word of it the memory stays unknown', async () => {
  const end = await endLostRun(await requestLost());
  expect(end).toMatchObject({ outcome: 'crashed', maxRssBytes: null, measuredBy: null });
  expect(end?.reason).not.toContain('last seen');
});

test('who ran into its time limit has it, too', async () => {
  const request = await requestLost({ lastSeenRssBytes: 7 * MB });
  const child = spawn('/bin/sleep', ['30'], {
    ...{ detached: true, stdio: 'ignore' },
    env: { RUNNER_ROOT: request.root, RUNNER_RUN: request.key },
  });
  const process = identifyProcess(child.pid as number);
  let end: RunEnd | null = null;
  await until('it is old enough', async () => {
    end = await endLostRun({ ...request, process, timeoutMs: 0 });
    return end !== null;
  });
  expect(end).toMatchObject({ outcome: 'timed-out', maxRssBytes: 7 * MB, measuredBy: 'sampled' });
});

describe('a process that only the log calls the run’s is not ended', () => {
  test.each<[string, (pid: number) => Partial<ProcessIdentity>]>([
    ['by its number', (pid) => ({ pid })],
    ['by its number, without its start', (pid) => ({ pid, startTicks: null, bootId: null })],
    ['by the number of all processes', () => ({ pid: 1, startTicks: null, bootId: null })],
    ['by the number of this process group', () => ({ pid: 0, startTicks: null, bootId: null })],
    ['by a number that is none', () => ({ pid: -1, startTicks: null, bootId: null })],
  ])('%s', async (_, lie) => {
    const request = await requestLost();
    const child = spawn('/bin/sleep', ['30'], { detached: true, stdio: 'ignore' });
    onTestFinished(() => void child.kill('SIGKILL'));
    const own = identifyProcess(child.pid as number);
    const process = { ...own, ...lie(own.pid) };
    let end: RunEnd | null = null;
    await until('it is old enough', async () => {
      end = await endLostRun({ ...request, process, timeoutMs: 0, now: Date.now() });
      return end !== null;
    });
    expect(end).toMatchObject({ outcome: 'crashed' });
    expect(checkLiveness(own)).toBe('alive');
  });
});

test('a process that was started without variables is the run’s by the file that it writes to', async () => {
  const request = await requestLost();
  const output = openSync(runFilesOf(request.state, request.key).output, 'a');
  const child = spawn('/bin/sleep', ['30'], { detached: true, stdio: ['ignore', output, output], env: {} });
  closeSync(output);
  const process = identifyProcess(child.pid as number);
  let end: RunEnd | null = null;
  await until('it is old enough', async () => {
    end = await endLostRun({ ...request, process, timeoutMs: 0 });
    return end !== null;
  });
  expect(end).toMatchObject({ outcome: 'timed-out' });
});

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
