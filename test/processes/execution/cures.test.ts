import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { discover } from '../../../src/discovery/discover.ts';
import { runScript } from '../../../src/execution/script/run-script.ts';
import { describeFailedStart, describeNotStarted } from '../../../src/execution/start/start-failure.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { findProgram } from '../../../src/system/process/programs.ts';
import { runPass } from '../../support/command.ts';
import { executable, type FileContent, makeTemporaryRoot } from '../../support/root.ts';
import { openPlace, requestRun, runOne } from '../../support/run.ts';

/*
 * The true cure of a script that is not run by what it is written for.
 */

const bash = findProgram('bash', '/usr/local/bin:/usr/bin:/bin') ?? '';
const saidOf = async (name: string, source: Parameters<typeof runOne>[1]): Promise<string> => {
  const { reason, warning } = await runOne(name, source);
  return `${reason ?? ''}${warning ?? ''}`;
};
const isBash = (what: string, line: number): string =>
  `this is bash (${what} in line ${line}), and jobs/hourly/a.sh is run by sh: give it the first line #!${bash}, or name it a.bash`;

test.for([
  ['source ./env', 'source'],
  ['[[ 1 == 1 ]]', '[['],
  ['pushd /tmp', 'pushd'],
  ['shopt -s nullglob', 'shopt'],
  ['declare -A x', 'declare'],
  ['let i=1', 'let'],
  ['i=0; ((i++))', '((i++))'],
  ['set -euo pipefail', 'set -euo pipefail'],
  ['x=a; echo ${x^^}', '${x^^}'],
  ['x=abc; echo "${x:0:2}"', '${x:0:2}'],
  ['cat <(echo 1)', '<(echo 1)'],
  ['function f() {', 'function f'],
  ['function f { true; }', 'function f'],
  ['function f {\n  true\n}', 'function'],
  ['a=(1 2)', 'a=(1 2)'],
  ['for ((i=0;i<3;i++)); do :; done', 'for (('],
  ['cat <<< x', '<<<'],
  ['export -f f', 'export -f'],
  ['mapfile -t x', 'mapfile'],
] as const)('bash that sh does not know is named: %s', async ([line, what]) => {
  expect(await saidOf('a.sh', `true\n${line}\n`)).toContain(isBash(what, 2));
});

test('the cure is that of its first line, or of its tag', async () => {
  const source = '[[ 1 == 1 ]]\n';
  expect(await saidOf('a.sh', `#!/bin/sh\n${source}`)).toContain(`run by sh: change its first line to #!${bash}`);
  expect(await saidOf('a.sh', `# @shell sh -eu\n${source}`)).toContain('run by sh: run it by `@shell bash`');
  expect(await saidOf('a.bash', source)).toBe('');
});

test.for([
  ['a program that is missing', 'sourcery --now', 'sourcery is not installed'],
  ['a word of bash that another program says', 'echo "/x/other.sh: 3: source: not found"; exit 1', 'exit code 1'],
  ['an error of the syntax of any shell', 'if true; then (', 'Syntax error'],
] as const)('%s is no bash', async ([, line, said]) => {
  const found = await saidOf('a.sh', `${line}\n`);
  expect(found).toContain(said);
  expect(found).not.toContain('bash');
  expect(found).not.toContain('source is not installed');
});

test('words behind env that the kernel hands over as one get -S', async () => {
  expect(await saidOf('a.sh', executable('#!/usr/bin/env sh -u\ntrue\n'))).toBe(
    'interpreter not found: sh -u; line 1 of jobs/hourly/a.sh hands "sh -u" to env as one word: write #!/usr/bin/env -S sh -u',
  );
  expect(await saidOf('a.sh', executable('#!/usr/bin/env no-such -u\ntrue\n'))).toContain('; no-such is not installed');
});

test('a byte-order mark in a shell script is named, with what removes it', async () => {
  const source = '\ufeffecho bom\n';
  const said = `jobs/hourly/a.sh:1: it begins with a byte-order mark, which a shell takes as part of the first command; remove it with: sed -i '1s/^\\xEF\\xBB\\xBF//' jobs/hourly/a.sh`;
  expect(await saidOf('a.sh', source)).toContain(said);
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': source });
  const { tiers } = await discover(root, defaultSettings, { tier: 'hourly' });
  expect(tiers[0]?.scripts[0]?.warnings).toEqual([said]);
});

/*
 * The cure of a module that Node does not find, or does not understand.
 */

const COMMON_JS = { 'package.json': '{ "type": "commonjs", "dependencies": { "listed": "1" } }' };

async function endOf(name: string, source: string, files: Readonly<Record<string, string>> = {}) {
  const request = await requestRun(name, source);
  for (const [file, content] of Object.entries(files)) writeFileSync(join(request.root, file), content);
  return { root: request.root, ...(await runScript(request)) };
}

test.for([
  ['a.mjs', `import 'dotenv/config';\n`, 'dotenv', 'npm install dotenv'],
  ['a.ts', `import x from '@scope/pkg';\nconsole.log(x);\n`, '@scope/pkg', 'npm install @scope/pkg'],
  ['a.cjs', `require('dotenv');\n`, 'dotenv', 'npm install dotenv'],
  ['a.mjs', `import 'listed';\n`, 'listed', 'npm install'],
] as const)(
  'a missing package is named with the command that installs it: %s %s',
  async ([name, source, pkg, command]) => {
    const { root, reason, output } = await endOf(name, source, COMMON_JS);
    expect(reason).toContain(`; the package ${pkg} is not installed: cd ${root} && ${command}`);
    expect(reason?.endsWith(command)).toBe(true);
    // Nothing of where Node and the runner have looked for it.
    expect(output.text).not.toMatch(/node:internal|probe-|^\[/m);
  },
);

test.for(['./_none.mjs', '#own', 'node:nothing'])('what is no package is not to be installed: %s', async (wanted) => {
  const { reason } = await endOf('a.mjs', `import '${wanted}';\n`);
  expect(reason).not.toContain('install');
});

test.for([
  ['import', `import 'node:fs';\n`],
  ['export default', `export default () => {};\n`],
  ['top-level await', `await Promise.resolve();\n`],
] as const)('a module in a package of "type": "commonjs" is told how to be one: %s', async ([, source]) => {
  const cure =
    'package.json says "type": "commonjs", so that Node takes jobs/hourly/a.js for CommonJS: name it a.mjs, or remove "type" from package.json';
  expect((await endOf('a.js', source, COMMON_JS)).reason).toContain(cure);
  expect((await endOf('a.js', source)).outcome).toBe('succeeded');
});

test('a module of it that a script imports is named itself', async () => {
  const files = { ...COMMON_JS, 'jobs/hourly/_helper.js': `export const one = 1;\n` };
  const { reason } = await endOf('a.ts', `import { one } from './_helper.js';\nconsole.log(one);\n`, files);
  expect(reason).toContain('Node takes jobs/hourly/_helper.js for CommonJS: name it _helper.mjs');
});

test.for([
  ['a.ts', `import x from './conf.json';\nconsole.log(x);\n`, "with { type: 'json' }"],
  ['a.ts', `import 'node:fs';\nconsole.log(__dirname);\n`, 'write import.meta.dirname in the place of __dirname'],
  ['a.ts', `import 'node:fs';\nrequire('node:os');\n`, "in the place of require('x')"],
  ['a.ts', `class A {\n  @log\n  run(): void {}\n}\nnew A();\n`, 'jobs/hourly/a.ts:2: decorators are not supported'],
] as const)('what else Node says shortly has its cure: %s %s', async ([name, source, cure]) => {
  const { reason } = await endOf(name, source, { 'jobs/hourly/conf.json': '{}' });
  expect(reason).toContain(cure);
});

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

describe('how a script ends is a value', () => {
  test('success', async () => {
    const end = await runOne('exit-0.sh', 'echo fine\n');
    expect(end).toMatchObject({
      outcome: 'succeeded',
      exitCode: 0,
      signal: null,
      reason: null,
      error: null,
      output: { text: 'fine\n' },
    });
    expect(end.durationMs).toBeGreaterThan(0);
    expect(Math.abs(Date.now() - end.finishedAt)).toBeLessThan(5000);
  });

  test('an exit code', async () => {
    const end = await runOne('exit-3.sh', 'echo broken >&2\nexit 3\n');
    expect(end).toMatchObject({ outcome: 'failed', exitCode: 3, reason: 'exit code 3' });
  });

  test('a signal that was not ours', async () => {
    const end = await runOne('segfault.sh', 'kill -SEGV $$\n');
    expect(end).toMatchObject({
      outcome: 'killed',
      exitCode: null,
      signal: 'SIGSEGV',
      reason: 'killed by SIGSEGV, not by the runner',
    });
  });

  test('the heap limit that @memory sets', async () => {
    const source = 'const all = [];\nfor (;;) all.push(new Array(1000).fill({}));\n';
    const limited = await runOne('leaks-memory.mjs', `// @memory 32mb\n${source}`);
    expect(limited).toMatchObject({
      outcome: 'killed',
      signal: 'SIGABRT',
      reason: 'heap limit of 32 MB reached; raise it with @memory',
      measuredBy: 'sampled',
    });
    expect(limited.output.text).toContain('JavaScript heap out of memory');
  });

  test('a script that vanishes before its turn', async () => {
    const request = await requestRun('gone.sh', 'echo never\n');
    const script = { ...request.script, launch: { kind: 'program', command: ['/no/such'] } } as const;
    const end = await runScript({ ...request, script });
    expect(end).toMatchObject({
      outcome: 'not-started',
      reason: expect.stringMatching(/^interpreter not found: such;/),
    });
  });
});

describe('a child left in the background', () => {
  test('does not delay the end, even with the output open', async () => {
    const request = await requestRun('leaves-a-child.sh', 'sleep 5 &\necho $! >"$RUNNER_ROOT/child"\necho done\n');
    const end = await runScript(request);
    const child = Number(readFileSync(join(request.root, 'child'), 'utf8'));
    expect(end).toMatchObject({ outcome: 'succeeded', output: { text: 'done\n' } });
    expect(end.durationMs).toBeLessThan(3000);
    // It is the script's own business: still there, and it fails here when it is not.
    process.kill(child, 'SIGKILL');
  });
});

describe('names that need care', () => {
  const names = [
    'a space.sh',
    'double"quote.sh',
    "single'quote.sh",
    'percent%20.sh',
    'Ünïcödé – 日本.sh',
    '-dash.sh',
    '$HOME.sh',
    'semi;colon.sh',
    '[glob]*?.sh',
    'back\\slash.sh',
    'hash#.mjs',
    'question?.mjs',
    'percent%.mjs',
    'Ünïcödé.ts',
    'b space.cts',
  ];
  const sourceOf = (name: string): FileContent =>
    name.endsWith('.sh') ? 'echo "$0"\n' : `console.log(process.argv[1]);\n`;

  test('go through a whole pass, each run once', () => {
    const { status, root, runs, stderr } = runPass(Object.fromEntries(names.map((name) => [name, sourceOf(name)])));
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(runs.map(({ output }) => output).toSorted()).toEqual(
      names.map((name) => `${join(root, 'jobs/hourly', name)}\n`).toSorted(),
    );
  });

  test('with a line feed in them are refused, and break neither log nor mail', () => {
    const { status, runs, stderr } = runPass({ 'two\nlines.sh': 'echo ran\n', 'b.sh': 'true\n' });
    expect(status).toBe(1);
    expect(runs.map(({ script, outcome }) => [script, outcome])).toEqual([
      ['hourly/b', 'succeeded'],
      ['hourly/two\\nlines', 'not-started'],
    ]);
    expect(stderr).toContain('hourly/two\\nlines not-started');
  });
});

test('a script with Windows line ends is refused with its cause, or runs where they do no harm', () => {
  const { run } = runPass({
    'shebang.sh': executable('#!/bin/sh\r\necho x\r\n'),
    'node.mjs': `#!/usr/bin/env node\r\nconsole.log('runs');\r\n`,
  });
  expect(run('shebang')).toMatchObject({ outcome: 'not-started' });
  expect(run('shebang').reason).toContain('Windows line end (CRLF)');
  expect(run('node')).toMatchObject({ outcome: 'succeeded', output: 'runs\n' });
});

test('the process is told as soon as there is one', async () => {
  let pid = 0;
  await runOne('pid.sh', 'echo $$\n', {
    onStarted: (started) => {
      pid = started;
    },
  }).then(({ output }) => expect(output.text).toBe(`${pid}\n`));
  expect(existsSync(`/proc/${pid}`)).toBe(false);
});

test('a failed run names the variables that it read and did not get, with the cure', () => {
  const { run } = runPass(
    {
      'a.sh': 'curl_to "$SHOP_URL" "${SHOP_TOKEN:?}"\n',
      'b.sh': '# @env SHOP_TOKEN\necho "$SHOP_TOKEN $SHOP_URL"; exit 3\n',
      'c.sh': 'echo "$SHOP_URL"\n',
      'd.mjs': 'if (!process.env.SHOP_TOKEN) throw new Error("no token");\n',
    },
    { env: { SHOP_TOKEN: 'tok-4711-0815' }, files: { '.env': { content: 'OTHER=1\n', mode: 0o600 } } },
  );
  const withheld = 'it reads SHOP_TOKEN, which the caller sets and scripts do not get';
  const cure = 'add the comment `# @env SHOP_TOKEN` to the script, or write the value into .env';
  const unset = 'it reads SHOP_URL, which nothing sets; write the value into .env';
  expect(run('a').reason).toContain(`${withheld}; ${cure}; ${unset}`);
  expect(run('b').reason).toBe(`exit code 3: ${unset}`);
  expect(run('c')).toMatchObject({ outcome: 'succeeded', reason: null, warning: null });
  expect(run('d').reason).toBe(`exit code 1: Error: no token; ${withheld}; ${cure}`);
});
