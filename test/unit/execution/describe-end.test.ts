import { expect, test } from 'vitest';
import type { Script } from '../../../src/discovery/script.ts';
import { noWords } from '../../../src/execution/result/handler-reply.ts';
import { noOutput, unmeasured } from '../../../src/execution/result/result.ts';
import { concludeEnd, describeCrash, type EndFacts } from '../../../src/execution/result/wording.ts';
import type { Cause } from '../../../src/execution/watch/watch.ts';

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
    termination: { cause: termination, killed: killedAfterGrace, terminate: () => {}, settle: () => {} },
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
