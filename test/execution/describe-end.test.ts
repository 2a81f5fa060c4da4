import { describe, expect, test } from 'vitest';
import {
  describeEnd,
  describeNotStarted,
  type EndFacts,
} from '../../src/execution/describe-end.ts';
import { decideOutcome } from '../../src/execution/outcome.ts';

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
  reachedHeapLimit: false,
  lastSeenRssBytes: 45 * MB,
  errorSentence: null,
};

const bySignal = (signal: NodeJS.Signals) => ({ exitCode: null, signal }) as const;
const timedOut = { termination: 'timeout', durationMs: 30_012 } as const;

test.for<readonly [Partial<EndFacts>, string, string | null]>([
  [{}, 'succeeded', null],
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
    { ...bySignal('SIGABRT'), reachedHeapLimit: true, heapLimitBytes: 256 * MB },
    'killed',
    'heap limit of 256 MB reached',
  ],
  [
    { ...bySignal('SIGABRT'), reachedHeapLimit: true },
    'killed',
    "V8's heap limit reached; raise it with @memory",
  ],
  [bySignal('SIGABRT'), 'killed', 'killed by SIGABRT, not by the runner'],
  [
    { ...timedOut, ...bySignal('SIGTERM') },
    'timed-out',
    'timed out after 30s (limit 30s), ended with SIGTERM',
  ],
  [
    { ...timedOut, ...bySignal('SIGKILL'), durationMs: 40_100, killedAfterGrace: true },
    'timed-out',
    'timed out after 40.1s (limit 30s), ended with SIGKILL after 10s of grace',
  ],
  [
    { ...timedOut, exitCode: 0 },
    'timed-out',
    'timed out after 30s (limit 30s), ended itself with exit code 0 after SIGTERM',
  ],
  [
    { termination: 'stop', ...bySignal('SIGTERM') },
    'failed',
    'stopped with the runner, ended with SIGTERM',
  ],
  [
    { termination: 'stop', ...bySignal('SIGKILL'), killedAfterGrace: true },
    'failed',
    'stopped with the runner, ended with SIGKILL after 10s of grace',
  ],
])('the end %j is called %s: %s', ([facts, outcome, reason]) => {
  const all = { ...succeeded, ...facts };
  expect([decideOutcome(all), describeEnd(all)]).toEqual([outcome, reason]);
});

describe('a script that could not be started', () => {
  test.for([
    ['ENOENT', 'interpreter not found: php'],
    ['EACCES', 'not allowed to execute php'],
    ['EAGAIN', 'no process could be started for php: the limit of processes is reached'],
    ['E2BIG', 'could not start php: spawn E2BIG'],
  ] as const)('%s: %s', ([code, sentence]) => {
    const error = Object.assign(new Error(`spawn ${code}`), { code });
    expect(describeNotStarted(error, 'php')).toBe(sentence);
  });
});
