import { describe, expect, test } from 'vitest';
import { describeFailedStart, describeNotStarted } from '../../../src/execution/start/start-failure.ts';
import { openPlace, runOne } from '../../support/run.ts';

test.for([
  ['ENOENT', 'interpreter not found: php'],
  ['EACCES', 'not allowed to execute php'],
  [
    'EAGAIN',
    "no process could be started for php: the host's limit of processes is reached; run fewer scripts at the same time, or set limits.maxProcesses to wait",
  ],
  [
    'ENOMEM',
    'no process could be started for php: the host has no memory left for it; run fewer scripts at the same time, or set limits.minFreeMemory to wait',
  ],
  ['EMFILE', "could not start php: too many files are open for the host's limit (ulimit -n)"],
  ['E2BIG', 'could not start php: its environment is larger than the host allows; shorten `env` in the settings'],
  ['ENOEXEC', 'could not start php: spawn ENOEXEC'],
] as const)('%s: %s', ([code, sentence]) => {
  const error = Object.assign(new Error(`spawn ${code}`), { code });
  expect(describeNotStarted(error, 'php')).toEqual({ failure: sentence });
});

test('a program of 5,000 characters is not told of in full', () => {
  const program = `/${'x'.repeat(5_000)}`;
  const shown = `${program.slice(0, 200)}…`;
  const error = Object.assign(new Error(`spawn ${program} ENAMETOOLONG`), { code: 'ENAMETOOLONG' });
  expect(describeNotStarted(error, program).failure).toBe(`could not start ${shown}: spawn ${shown} ENAMETOOLONG`);
  expect(describeNotStarted(Object.assign(error, { code: 'ENOENT' }), program).failure).toBe(
    `interpreter not found: ${shown}`,
  );
});

const fatal = '\n\n#\n# Fatal process out of memory: Failed to reserve virtual memory\n#\n';
const thread = 'Assertion failed: (0) == (uv_thread_create(t.get(), start_thread, this))\n';

test.for([
  [`${fatal}----- Native stack trace -----\n`, /^Node could not start: .*\(ulimit -v\)/],
  [`\n  #  node[4711]: Start() at ../src/node_platform.cc:1\n  #  ${thread}`, /limit of processes/],
  [
    `node[4711]: ../src/node_platform.cc:1: Start(): Assertion \`(0) == (uv_thread_create(t.get(), start_thread, this))' failed.\n`,
    /limit of processes/,
  ],
  [
    `node:fs:483\n    return binding.readFileUtf8(path, stringToFlags(options.flag));\n                   ^\n\nError: ENOENT: no such file or directory, open '/home/me/node_modules/folder-runner/dist/probe-0.1.0.cjs'\n    at Object.readFileSync (node:fs:483:20)\n    at loadPreloadModules (node:internal/process/pre_execution:732:5)\n`,
    /the package changed during this pass/,
  ],
] as const)('Node ended itself at its start, saying %j', ([output, sentence]) => {
  expect(describeFailedStart(output)?.failure).toMatch(sentence);
});

test.for([
  `working\n${fatal}`,
  `${fatal}----- JavaScript stack trace -----\n`,
  `${fatal}10: 0xab93da node::worker::WorkerThreadData::WorkerThreadData()\n`,
  'Aborted\n',
  '',
])('Node ended later, saying %j', (output) => {
  expect(describeFailedStart(output)).toBeNull();
});

describe('what is loaded before a script or handler is gone by then: it has not begun, and that was no try', () => {
  const gone = { probePath: '/nowhere/probe-0.0.1.cjs' };
  const givenBack = { outcome: 'released', reason: 'the package changed during this pass; the next pass continues' };

  test('a script', async () => {
    expect(await runOne('a.mjs', 'process.exit(0);\n', gone)).toMatchObject(givenBack);
  });

  test.for(['', '/** @isolate */'])('a handler with the tag "%s"', async (tag) => {
    const { run } = openPlace({ 'a.mjs': `${tag}\nexport default () => {};\n` });
    expect(await run('a', gone)).toMatchObject(givenBack);
  });

  test('not a script that says the same, or that itself finds a module missing', async () => {
    const words = "Cannot find module '/nowhere/probe-0.0.1.cjs'\\nRequire stack:\\n- internal/preload\\n";
    for (const script of [`throw new Error("${words}");\n`, "require('/nowhere/probe-0.0.1.cjs');\n"]) {
      expect(await runOne('a.cjs', script)).toMatchObject({ outcome: 'failed' });
    }
  });
});
