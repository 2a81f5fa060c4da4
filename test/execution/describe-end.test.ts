import { expect, test } from 'vitest';
import { decideOutcome, describeCrash, describeEnd, type EndFacts } from '../../src/execution/result/wording.ts';

const MB = 1024 * 1024;

const succeeded: EndFacts = {
  exitCode: 0,
  signal: null,
  termination: null,
  killedAfterGrace: false,
  timeoutMs: 30_000,
  graceMs: 10_000,
  durationMs: 1234.5,
  heapLimitBytes: null,
  memoryFailure: null,
  memoryExcess: null,
  startFailure: null,
  lastSeenRssBytes: 45 * MB,
  errorSentence: null,
  refutation: null,
  lingering: null,
  cause: null,
};

const bySignal = (signal: NodeJS.Signals) => ({ exitCode: null, signal }) as const;
const memoryExcess = { usedBytes: 412 * MB, forMs: 5012, limitBytes: 400 * MB };
const timedOut = { termination: 'timeout', durationMs: 30_012 } as const;

test.for<readonly [Partial<EndFacts>, string, string | null]>([
  [{}, 'succeeded', null],
  [
    { ...timedOut, ...bySignal('SIGTERM'), lingering: { isFunction: true, afterMs: 40, resources: [] } },
    'succeeded',
    null,
  ],
  [{ exitCode: 3 }, 'failed', 'exit code 3'],
  [
    { exitCode: 1, errorSentence: 'TypeError: x is not a function' },
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
    { ...bySignal('SIGABRT'), memoryFailure: 'heap-limit', heapLimitBytes: 256 * MB },
    'killed',
    'heap limit of 256 MB reached; raise it with @memory',
  ],
  [{ ...bySignal('SIGABRT'), memoryFailure: 'heap-limit' }, 'killed', "V8's heap limit reached; raise it with @memory"],
  [
    { ...bySignal('SIGABRT'), memoryFailure: 'refused' },
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
  const all = { ...succeeded, ...facts };
  expect([decideOutcome(all), describeEnd(all)]).toEqual([outcome, reason]);
});

test.for([
  [312 * MB, 'one\ntwo\n', '; last seen with 312 MB; its last output line: two'],
  [null, '', ''],
] as const)('a crash tells of the last that was seen: %s, %j', ([bytes, output, seen]) => {
  const sentence = describeCrash('pid 4711 on web3', output, bytes);
  expect(sentence).toBe(`the runner (pid 4711 on web3) died while it ran${seen}`);
});
