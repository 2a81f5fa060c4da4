import { closeSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { describeError } from '../../../src/child/record-end.ts';
import type { Script } from '../../../src/discovery/script.ts';
import { noWords } from '../../../src/execution/result/handler-reply.ts';
import { readProbeResult, tellsEnd } from '../../../src/execution/result/report.ts';
import { noOutput, unmeasured } from '../../../src/execution/result/result.ts';
import { concludeEnd, describeCrash, type EndFacts } from '../../../src/execution/result/wording.ts';
import { createRunFiles, removeRunFiles, runFilesOf } from '../../../src/execution/run-files.ts';
import { WarmFiles } from '../../../src/execution/warm/files.ts';
import type { Cause } from '../../../src/execution/watch/watch.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { createStateFolder, stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { createMasker } from '../../support/run.ts';

const MB = 1024 * 1024;

/** What differs from a script that ended by itself with 0. */
interface Said extends Partial<Pick<EndFacts, 'durationMs' | 'startFailure' | 'lingering'>> {
  readonly exitCode?: number | null;
  readonly signal?: NodeJS.Signals;
  readonly termination?: Cause;
  readonly killedAfterGrace?: boolean;
  readonly memoryExcess?: { readonly usedBytes: number; readonly forMs: number; readonly limitBytes: number };
  readonly lastSeenRssBytes?: number | null;
  readonly heapLimitBytes?: number;
  readonly error?: { readonly name: string; readonly message: string; readonly stack: null };
  /** The last words of the process. */
  readonly text?: string;
}

function factsOf(said: Said): EndFacts {
  const { exitCode = 0, signal = null, termination = null, killedAfterGrace = false, error = null, text = '' } = said;
  const { memoryExcess = null, lastSeenRssBytes = 45 * MB, heapLimitBytes } = said;
  const options = heapLimitBytes === undefined ? {} : { memoryBytes: heapLimitBytes };
  const limits = { warnBytes: null, maxBytes: null, sustainMs: 0 };
  return {
    request: {
      script: { options } as Script,
      timeoutMs: 30_000,
      graceMs: 10_000,
      root: '/',
      environment: {},
      variables: {},
    },
    exit: { code: exitCode, signal, cpu: null },
    termination: {
      cause: termination,
      stoppedBy: null,
      killed: killedAfterGrace,
      terminate: () => {},
      settle: () => {},
    },
    memory: { limits, look: () => {}, peakBytes: () => null, excess: () => memoryExcess },
    sampled: { ...unmeasured, maxRssBytes: lastSeenRssBytes },
    durationMs: said.durationMs ?? 1234.5,
    result: error && { exitCode: 1, error, userCpuMs: 0, systemCpuMs: 0, maxRssBytes: null },
    output: { ...noOutput, text },
    words: noWords,
    left: [],
    isDiskFull: false,
    startFailure: said.startFailure ?? null,
    firstFailure: null,
    lingering: said.lingering ?? null,
  };
}

const bySignal = (signal: NodeJS.Signals) => ({ exitCode: null, signal }) as const;
const memoryExcess = { usedBytes: 412 * MB, forMs: 5012, limitBytes: 400 * MB };
const timedOut = { termination: 'timeout', durationMs: 30_012 } as const;

test.for<readonly [Said, string, string | null]>([
  [{}, 'succeeded', null],
  [
    { ...timedOut, ...bySignal('SIGTERM'), lingering: { isFunction: true, afterMs: 40, resources: [] } },
    'succeeded',
    null,
  ],
  [{ exitCode: 3 }, 'failed', 'exit code 3'],
  [
    { exitCode: 1, error: { name: 'TypeError', message: 'x is not a function\nmore', stack: null } },
    'failed',
    'exit code 1: TypeError: x is not a function',
  ],
  [bySignal('SIGSEGV'), 'killed', 'killed by SIGSEGV, not by the runner'],
  [
    { ...bySignal('SIGKILL'), lastSeenRssBytes: 980 * MB },
    'killed',
    "killed by SIGKILL, not by the runner: probably the host's memory limit (last seen 980 MB)",
  ],
  [
    { ...bySignal('SIGKILL'), lastSeenRssBytes: null },
    'killed',
    "killed by SIGKILL, not by the runner: probably the host's memory limit",
  ],
  [
    { ...bySignal('SIGABRT'), text: 'FATAL ERROR: JavaScript heap out of memory', heapLimitBytes: 256 * MB },
    'killed',
    'heap limit of 256 MB reached; raise it with @memory',
  ],
  [
    { ...bySignal('SIGABRT'), text: 'FATAL ERROR: JavaScript heap out of memory' },
    'killed',
    "V8's heap limit reached; raise it with @memory",
  ],
  [
    { ...bySignal('SIGABRT'), text: 'Fatal process out of memory' },
    'killed',
    'the host gave it no more memory: its limit of address space (ulimit -v) is reached',
  ],
  [bySignal('SIGXFSZ'), 'killed', "killed by SIGXFSZ: a file grew beyond the host's limit of file size (ulimit -f)"],
  [bySignal('SIGXCPU'), 'killed', 'killed by SIGXCPU: it used all the CPU time that the host allows (ulimit -t)'],
  [
    { ...bySignal('SIGTERM'), termination: 'memory', memoryExcess },
    'failed',
    'used 412 MB of resident memory for 5s (limit 400 MB), ended with SIGTERM',
  ],
  [
    {
      ...bySignal('SIGKILL'),
      termination: 'memory',
      memoryExcess: { ...memoryExcess, forMs: 0 },
      killedAfterGrace: true,
    },
    'failed',
    'used 412 MB of resident memory (limit 400 MB), ended with SIGKILL after 10s of grace',
  ],
  [
    { ...bySignal('SIGKILL'), termination: 'hung', startFailure: 'hung before its first line' },
    'not-started',
    'hung before its first line',
  ],
  [bySignal('SIGABRT'), 'killed', 'killed by SIGABRT, not by the runner'],
  [{ ...timedOut, ...bySignal('SIGTERM') }, 'timed-out', 'timed out after 30s (limit 30s), ended with SIGTERM'],
  [
    { ...timedOut, ...bySignal('SIGKILL'), durationMs: 40_100, killedAfterGrace: true },
    'timed-out',
    'timed out after 40.1s (limit 30s), ended with SIGKILL after 10s of grace',
  ],
  [{ ...timedOut, exitCode: 0 }, 'timed-out', 'timed out after 30s (limit 30s), exited with code 0 after SIGTERM'],
  [
    { termination: 'stop', ...bySignal('SIGTERM') },
    'failed',
    'stopped because the runner was stopped (Ctrl-C or kill), ended with SIGTERM',
  ],
  [
    { termination: 'stop', ...bySignal('SIGKILL'), killedAfterGrace: true },
    'failed',
    'stopped because the runner was stopped (Ctrl-C or kill), ended with SIGKILL after 10s of grace',
  ],
])('the end %j is called %s: %s', ([facts, outcome, reason]) => {
  expect(concludeEnd(factsOf(facts), null)).toEqual({ outcome, reason });
});

test.for([
  [312 * MB, 'one\ntwo\n', '; last seen with 312 MB; its last output line: two'],
  [null, '', ''],
] as const)('a crash tells of the last that was seen: %s, %j', ([bytes, output, seen]) => {
  const sentence = describeCrash('pid 4711 on web3', output, bytes);
  expect(sentence).toBe(`the runner (pid 4711 on web3) died while it ran${seen}`);
});

test('an error is described by its name, its message and its stack with its causes', () => {
  const error = new TypeError('outer', { cause: new RangeError('inner') });
  const { name, message, stack } = describeError(error);
  expect({ name, message }).toEqual({ name: 'TypeError', message: 'outer' });
  expect(stack).toMatch(/^TypeError: outer\n +at [\s\S]*\[cause\]: RangeError: inner/);
});

test('a value that is no error has no stack', () => {
  expect(describeError('a text')).toEqual({ name: 'thrown string', message: 'a text', stack: null });
  expect(describeError(undefined)).toMatchObject({ name: 'thrown undefined', message: 'undefined' });
  expect(describeError(Object.create(null))).toMatchObject({ name: 'thrown object' });
});

test('a value that cannot be inspected is described all the same', () => {
  const hostile = new Proxy(new Error('x'), {
    get() {
      throw new Error('of a getter');
    },
  });
  expect(() => describeError(hostile)).not.toThrow();
  const nameless = Object.assign(new Error('x'), { name: Symbol('sign') });
  expect(describeError(nameless)).toMatchObject({ message: expect.any(String) });
});

test('a description stays short, whatever is thrown', () => {
  const { message, stack } = describeError(new Error('long '.repeat(1_000_000)));
  expect(message.length).toBe(8 * 1024);
  expect(stack?.length).toBe(32 * 1024);
});

const result = {
  exitCode: 1,
  userCpuMs: 12.5,
  systemCpuMs: 3,
  maxRssBytes: 40_000_000,
  error: { name: 'Error', message: 'x', stack: 'Error: x' },
};

function readBack(content: string): unknown {
  const path = join(makeTemporaryRoot(), '1.json');
  writeFileSync(path, content);
  return readProbeResult(path, createMasker(defaultSettings, {}));
}

test('a record of what keeps a script running tells no end', () => {
  const path = join(makeTemporaryRoot(), '1.json');
  writeFileSync(path, JSON.stringify({ lingering: { isFunction: true, afterMs: 1, resources: [] } }));
  expect(tellsEnd(path)).toBe(false);
  writeFileSync(path, JSON.stringify(result));
  expect(tellsEnd(path)).toBe(true);
});

test('the result of the probe is read', () => {
  expect(readBack(JSON.stringify(result))).toEqual(result);
  expect(readBack(JSON.stringify({ ...result, error: null }))).toEqual({ ...result, error: null });
});

test.for<readonly [string, string]>([
  ['nothing', ''],
  ['half of it', JSON.stringify(result).slice(0, 40)],
  ['null', 'null'],
  ['a text for a figure', JSON.stringify({ ...result, userCpuMs: '12' })],
  ['an infinite figure', JSON.stringify(result).replace('12.5', '1e999')],
  ['an error without a message', JSON.stringify({ ...result, error: { name: 'Error' } })],
  ['an object for a stack', JSON.stringify({ ...result, error: { ...result.error, stack: {} } })],
  ['no error at all', JSON.stringify({ ...result, error: undefined })],
])('%s counts as no result', ([, content]) => {
  expect(readBack(content)).toBeNull();
});

test('a missing file counts as no result', () => {
  expect(readProbeResult(join(makeTemporaryRoot(), 'none.json'), createMasker(defaultSettings, {}))).toBeNull();
});

function makeState() {
  const state = stateFolderOf(makeTemporaryRoot());
  createStateFolder(state);
  return state;
}

test('only their owner can read the files of a run', () => {
  const files = runFilesOf(makeState(), '1.7');
  const before = process.umask(0);
  const { appendFd, fd } = createRunFiles(files);
  process.umask(before);
  for (const open of [appendFd, fd]) closeSync(open);
  expect(statSync(files.output).mode & 0o777).toBe(0o600);
  expect(statSync(files.temporary).mode & 0o777).toBe(0o700);
});

test('files of an older run with the same key are not taken over', () => {
  const files = runFilesOf(makeState(), '1.7');
  mkdirSync(files.temporary);
  writeFileSync(`${files.temporary}/old`, '');
  writeFileSync(files.output, 'old');
  writeFileSync(files.result, 'old');
  const { appendFd, fd } = createRunFiles(files);
  for (const open of [appendFd, fd]) closeSync(open);
  expect(statSync(files.output).size).toBe(0);
  expect(existsSync(files.result)).toBe(false);
  expect(readdirSync(files.temporary)).toEqual([]);
});

test('a file that cannot be removed, or is gone already, causes no failure', () => {
  const state = makeState();
  // A file where a folder should be: nothing below it can be removed, whoever tries.
  const files = runFilesOf({ ...state, output: '/dev/null', results: '/dev/null', temporary: '/dev/null' }, '1.7');
  expect(() => removeRunFiles(files)).not.toThrow();
  expect(() => removeRunFiles(runFilesOf(state, '1.8'))).not.toThrow();
});

describe('of files that cannot all be opened', () => {
  const descriptors = () => readdirSync('/proc/self/fd').length;

  test('none stays open', () => {
    const state = makeState();
    let long = state.temporary;
    while (long.length < 4091 - 255) long += `/${'d'.repeat(200)}`;
    mkdirSync(long, { recursive: true });
    // Just short enough for itself, and too long for what is to be in it.
    const temporary = `${long}/${'t'.repeat(4091 - long.length)}`;
    const before = descriptors();
    expect(() => createRunFiles({ ...runFilesOf(state, '1.7'), temporary }, 'data')).toThrow('ENAMETOOLONG');
    expect(descriptors()).toBe(before);
  });

  test('a child leaves nothing', () => {
    const state = { ...makeState(), output: '/dev/null' };
    const before = descriptors();
    expect(() => new WarmFiles(state)).toThrow('ENOTDIR');
    expect(descriptors()).toBe(before);
    expect([state.results, state.temporary].flatMap((folder) => readdirSync(folder))).toEqual([]);
  });
});

test.each(['..', '../x', '1.1/../..', '/etc/passwd', '1.1\0', '1.1\n', '1.1.1', '.'])(
  '%j is the key of no run',
  (key) => {
    expect(() => runFilesOf(makeState(), key)).toThrow('is not the key of a run');
  },
);
