import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runScript } from '../../../src/execution/script/run-script.ts';
import { requestRun } from '../../support/run.ts';

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
