import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cronEnv, runNode, runPass, runPassAgain } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { runOne } from '../../support/run.ts';

test('a default function is called once, after the script, however it is exported', () => {
  const called = `({ script }) => console.log('called', script);\nconsole.log('loaded');\n`;
  const { runs } = runPass({
    'export-default.mjs': `export default ${called}`,
    'export-default-in-js.js': `export default ${called}`,
    'export-default-after-await.mjs': `await new Promise((resolve) => setTimeout(resolve, 20));\nexport default ${called}`,
    'exports-default.cjs': `exports.default = ${called}`,
    'exports-default-in-js.js': `exports.default = ${called}`,
    'module-exports.cjs': `module.exports = ${called}`,
    'compiled-by-others.cjs': `module.exports = { __esModule: true, default: ${called.replace(';', ' };')}`,
  });
  expect(runs).toHaveLength(7);
  for (const { script, output } of runs) expect(output).toBe(`loaded\ncalled ${script}\n`);
});

test('what is exported for others is not called', () => {
  const { status, runs } = runPass({
    'class.cjs': `module.exports = class Shared {};\nconsole.log('loaded');\n`,
    'named.mjs': `export const run = () => console.log('called');\nconsole.log('loaded');\n`,
    'object.mjs': `export default { run: () => console.log('called') };\nconsole.log('loaded');\n`,
    'itself.cjs': `exports.default = module.exports;\nconsole.log('loaded');\n`,
  });
  expect(status).toBe(0);
  expect(runs.map(({ output }) => output)).toEqual(runs.map(() => 'loaded\n'));
});

const CURE = 'export default a function, and the runner calls that';

test('what is exported for somebody to call, and nothing calls, is a warning', () => {
  const { runs } = runPass({
    'bun.mjs': `export default { name: 'x', async run() {} };\n`,
    'class.ts': `export default class Job { handle(): void {} }\n`,
    'common-class.cjs': `module.exports = class Job { handle() {} };\n`,
    'common-object.cjs': `module.exports = { async run() { console.log('run'); } };\n`,
    'instance.cjs': `class Job { handle() {} }\nmodule.exports = new Job();\n`,
    'lambda.cjs': `exports.handler = async () => { return 'handler'; };\n`,
    'named.mjs': `// run() is what somebody calls\nexport async function run() { console.log('run'); }\n`,
    'named-class.ts': `export class Sync { static run(): void {} }\n`,
    'renamed.mjs': `const job = async () => {};\nexport { job as run };\n`,
    'strapi.mjs': `export const task = { cron: '* * * * *', handler() {} };\n`,
  });
  expect(Object.fromEntries(runs.map(({ script, warning }) => [script.slice(7), warning]))).toEqual({
    bun: `its default export is an object with run(), which nothing calls: ${CURE}`,
    class: `its default export is a class, which nothing calls: ${CURE}`,
    'common-class': `its default export is a class, which nothing calls: ${CURE}`,
    'common-object': `it exports run(), which nothing calls: ${CURE}`,
    instance: `it exports handle(), which nothing calls: ${CURE}`,
    lambda: `it exports handler(), which nothing calls: ${CURE}`,
    named: `it exports run(), which nothing calls: ${CURE}`,
    'named-class': `it exports the class Sync, which nothing calls: ${CURE}`,
    renamed: `it exports run(), which nothing calls: ${CURE}`,
    strapi: `it exports task, an object with handler(), which nothing calls: ${CURE}`,
  });
});

test('what its own file calls, data, and what comes with a default function are none', () => {
  const { runs } = runPass({
    'beside-default.mjs': `export function help() {}\nexport default () => {};\n`,
    'called.mjs': `export async function run() {}\nawait run();\n`,
    'called-object.mjs': `const job = { run() {} };\njob.run();\nexport default job;\n`,
    'common.cjs': `function run() {}\nmodule.exports = { run };\nrun();\n`,
    'data.mjs': `export const limit = 3;\nexport default { limit, at: new Date(), list: [1] };\n`,
    'main.mjs': `export function run() {}\nif (import.meta.main ?? true) run();\n`,
    'promise.mjs': `export default (async () => {})();\n`,
    'renamed.mjs': `const job = async () => {};\nexport { job as run };\nawait job();\n`,
    'types.ts': `export type Job = { run(): void };\nexport interface Other { run(): void }\n`,
  });
  expect(runs.map(({ script, outcome, warning }) => [script, outcome, warning])).toEqual(
    runs.map(({ script }) => [script, 'succeeded', null]),
  );
});

const SERVER = `import { createServer } from 'node:net';\nconst server = createServer().listen(0);\n`;
const ended = (name: string, source: string) => runOne(name, source, { timeoutMs: 8_000 });
const returned = (what: string) =>
  new RegExp(`^its function returned after \\d+ms; ${what} kept the process running until its time limit of`);

test('a function that returned while something stays open has succeeded', async () => {
  const worker = `new (require('node:worker_threads').Worker)('setInterval(() => {}, 1000)', { eval: true })`;
  const [server, interval, ofWorker, refuted, failed, unsettled] = await Promise.all([
    ended('server.mjs', `${SERVER}export default async () => {};\n`),
    ended('interval.ts', `setInterval(() => {}, 1000);\nexport default (): void => {};\n`),
    ended('worker.cjs', `exports.default = () => void ${worker};\n`),
    ended('refuted.mjs', `// @fail-on no rows\n${SERVER}export default () => console.log('no rows');\n`),
    ended('failed.mjs', `${SERVER}export default () => {};\nprocess.on('SIGTERM', () => process.exit(3));\n`),
    ended('unsettled.mjs', `${SERVER}export default () => new Promise(() => {});\n`),
  ]);
  expect(server).toMatchObject({ outcome: 'succeeded', reason: null, signal: 'SIGTERM' });
  expect(server.warning).toMatch(returned('an open server'));
  expect(interval).toMatchObject({ outcome: 'succeeded' });
  expect(interval.warning).toMatch(returned('a timer \\(.*\\)'));
  expect(ofWorker).toMatchObject({ outcome: 'succeeded' });
  expect(ofWorker.warning).toMatch(returned('something open, such as a worker thread,'));
  expect(refuted).toMatchObject({ outcome: 'failed', reason: expect.stringContaining('@fail-on no rows') });
  expect(failed.outcome).toBe('timed-out');
  expect(failed.reason).toMatch(/exited with code 3 after SIGTERM; its function returned after \d+ms; an open server/);
  expect(unsettled).toMatchObject({ outcome: 'timed-out', warning: null });
  expect(unsettled.reason).not.toContain('returned');
});

test('a function that returned is not tried again because something stays open', () => {
  const { root, run } = runPass({
    'server.mjs': `// @timeout 3s\n// @retries 2\nimport { appendFileSync } from 'node:fs';\n${SERVER}
export default async () => appendFileSync('sent', 'invoice\\n');\n`,
  });
  expect(run('server').warning).toMatch(returned('an open server'));
  expect(readFileSync(join(root, 'sent'), 'utf8')).toBe('invoice\n');
  expect(queryLog(root, 'select state, attempts from jobs')).toEqual([{ state: 'finished', attempts: 1 }]);
});

test('the reason of a time-out names what kept a file without a function running', async () => {
  const [interval, common, awaits] = await Promise.all([
    ended('interval.mjs', `setInterval(() => {}, 1000);\n`),
    ended('common.cjs', `require('node:net').createServer().listen(0);\n`),
    ended('awaits.mjs', `${SERVER}await new Promise(() => {});\n`),
  ]);
  const kept = (what: string) => `; its file's own code had run to its end; ${what} kept the process running`;
  expect(interval).toMatchObject({ outcome: 'timed-out' });
  expect(interval.reason).toContain(kept('a timer (setInterval or setTimeout)'));
  expect(common.reason).toContain(kept('an open server'));
  expect(awaits.outcome).toBe('timed-out');
  expect(awaits.reason).not.toContain('run to its end');
});

test('a script that starts itself is not started a second time', () => {
  const { status, runs } = runPass({
    'common.cjs': `const main = () => console.log('once');
module.exports = main;
if (require.main === module) main();\n`,
    'module.mjs': `export default function main() { console.log('once'); }
if (import.meta.main ?? true) main();\n`,
  });
  expect(status).toBe(0);
  expect(runs.map(({ output }) => output)).toEqual(['once\n', 'once\n']);
});

test('a script that survives its own error is not evaluated a second time', () => {
  const { run } = runPass({
    'survivor.cjs': `process.on('uncaughtException', ({ message }) => console.log('caught', message));
exports.default = () => console.log('called');
console.log('once');
throw new Error('of mine');\n`,
  });
  expect(run('survivor')).toMatchObject({ outcome: 'succeeded', output: 'once\ncaught of mine\n', error_name: null });
});

test('a script sees itself as it does in plain Node', () => {
  const commonJs = `console.log(require.main === module, module.filename, process.argv, process.execArgv);\n`;
  const module = `console.log(import.meta.main, import.meta.filename, process.argv, process.execArgv);\n`;
  const scripts = { 'common.cjs': commonJs, 'module.mjs': module, 'typescript.mts': module };
  const { root, run } = runPass(scripts);
  for (const [name, label] of [
    ['common.cjs', 'common'],
    ['module.mjs', 'module'],
    ['typescript.mts', 'typescript'],
  ] as const) {
    const args = ['--no-warnings', join(root, 'jobs/hourly', name)];
    const plain = runNode(args, { cwd: root, env: cronEnv(root) });
    expect(run(label).output).toBe(plain.stdout.replace("[ '--no-warnings' ]", '[]'));
  }
});

test('neither a script nor what it starts can see the probe, or is disturbed by it', () => {
  const { run } = runPass({
    'starts-others.mjs': `import { execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
const mine = Object.keys(process.env).includes('RUNNER_PROBE');
console.log('script', mine, process.execArgv);
console.log('shell', execFileSync('/bin/sh', ['-c', 'echo "[$RUNNER_PROBE]"'], { encoding: 'utf8' }).trim());
const worker = new Worker("console.log('worker', process.env.RUNNER_PROBE)", { eval: true });
console.log('worker ended with', ...(await once(worker, 'exit')));
const child = fork(new URL('./_forked.mjs', import.meta.url));
console.log('fork ended with', ...(await once(child, 'exit')));\n`,
    '_forked.mjs': `console.log('fork', process.env.RUNNER_PROBE, process.execArgv);\n`,
  });
  expect(run('starts-others').output?.split('\n').toSorted()).toEqual(
    [
      '',
      'script false []',
      'shell []',
      'worker undefined',
      'worker ended with 0',
      'fork undefined []',
      'fork ended with 0 null',
    ].toSorted(),
  );
});

test('a heap limit goes on to what the script forks', () => {
  const { run } = runPass({ 'limited.mjs': `// @memory 64mb\nconsole.log(process.execArgv);\n` });
  expect(run('limited').output).toBe("[ '--max-old-space-size=64' ]\n");
});

test('a linked script is itself, and called once', () => {
  const root = makeTemporaryRoot({
    'library/shared.mjs': `export default () => console.log('called');\nconsole.log('loaded');\n`,
    'jobs/hourly/other.mjs': '',
  });
  const link = `import { symlinkSync } from 'node:fs';\nsymlinkSync('../../library/shared.mjs', 'jobs/hourly/linked.mjs');\n`;
  writeFileSync(join(root, 'jobs/hourly/other.mjs'), link);
  runPassAgain(root);
  expect(runPassAgain(root).run('linked').output).toBe('loaded\ncalled\n');
});

// Passes are started without it, as by cron: their zone is the host's.
delete process.env.TZ;

const PRINT = `export default (context) => {
  const { signal, log, ...facts } = context;
  log(JSON.stringify({ ...facts, aborted: signal.aborted, kind: signal.constructor.name }));
};\n`;

test('a default function is told about its run', () => {
  const first = runPass({ 'a.mjs': PRINT });
  const run = first.run('a');
  const hour = new Date(run.started_at);
  hour.setMinutes(0, 0, 0);
  const facts = {
    script: 'hourly/a',
    args: [],
    scheduledFor: hour.toISOString(),
    latenessMs: run.started_at - hour.getTime(),
    attempt: 1,
    lastSuccess: null,
    previouslyCrashed: false,
    aborted: false,
    kind: 'AbortSignal',
  };
  expect(JSON.parse(run.output ?? '')).toEqual(facts);
  const second = runPassAgain(first.root).run('a');
  expect(JSON.parse(second.output ?? '')).toEqual({
    ...facts,
    scheduledFor: expect.any(String),
    latenessMs: expect.any(Number),
    lastSuccess: new Date(run.started_at).toISOString(),
  });
});

test('instants are dates, and the environment says the same for other languages', () => {
  const { run } = runPass({
    'a.mjs': `export default ({ scheduledFor, lastSuccess }) => {
  console.log(scheduledFor instanceof Date, lastSuccess);
  console.log(process.env.RUNNER_SCHEDULED_FOR === scheduledFor.toISOString());
};\n`,
    'b.sh': `echo "$RUNNER_SCRIPT $RUNNER_ATTEMPT [$RUNNER_LAST_SUCCESS] [$RUNNER_PREVIOUSLY_CRASHED]"\n`,
  });
  expect(run('a').output).toBe('true null\ntrue\n');
  expect(run('b').output).toBe('hourly/b 1 [] []\n');
});

describe('at the time limit', () => {
  test('a function that heeds its signal tidies up, one that does not ends at once', () => {
    const { status, run } = runPass({
      'heeds.mjs': `// @timeout 2s
import { setTimeout as sleep } from 'node:timers/promises';
export default async ({ signal }) => {
  await sleep(60_000, null, { signal }).catch(() => {});
  console.log('tidied up', signal.aborted);
};\n`,
      'heedless.mjs': `// @timeout 2s
import { setTimeout as sleep } from 'node:timers/promises';
export default async () => { await sleep(60_000); };\n`,
    });
    expect(status).toBe(1);
    expect(run('heeds')).toMatchObject({
      outcome: 'timed-out',
      exit_code: 0,
      signal: null,
      output: 'tidied up true\n',
      reason: expect.stringMatching(/^timed out after 2(\.\d)?s \(limit 2s\), exited with code 0 after SIGTERM$/),
      measured_by: 'self',
    });
    expect(run('heedless')).toMatchObject({
      outcome: 'timed-out',
      exit_code: null,
      signal: 'SIGTERM',
      reason: expect.stringMatching(/ \(limit 2s\), ended with SIGTERM$/),
      measured_by: 'sampled',
    });
  });
});
