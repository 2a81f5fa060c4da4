import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runNode } from '../support/run-command.ts';
import { cronEnv, runPass, runPassAgain } from '../support/run-pass.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

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
