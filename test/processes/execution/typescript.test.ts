import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { compileCached } from '../../../src/child/typescript/hooks.ts';
import { type Pass, runPass, runPassAgain } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

/** What a script prints, or how it fails. */
type Expectation = string | { readonly fails: RegExp };

interface Case {
  readonly source: string;
  readonly expected: Expectation;
  /** Where `package.json` says `"type": "module"`. */
  readonly inModule?: Expectation;
}

const cases: Readonly<Record<string, Case>> = {
  'plain.ts': { source: `const text: string = 'plain';\nconsole.log(text satisfies string);\n`, expected: 'plain\n' },
  'beyond-stripping.ts': {
    source: `enum Colour { Red = 3 }
namespace Sizes { export const large = 5; }
class Box { constructor(readonly width: number) {} }
console.log(Colour.Red, Colour[3], Sizes.large, new Box(7).width);\n`,
    expected: '3 Red 5 7\n',
  },
  'beyond-stripping-module.ts': {
    source: `import { basename } from 'node:path';
enum Colour { Red = 3 }
console.log(Colour.Red, basename('/a/b'));\n`,
    expected: '3 b\n',
  },
  'import-with-extension.ts': {
    source: `import { value } from './_library/value.ts';\nconsole.log(value);\n`,
    expected: 'imported\n',
  },
  'import-without-extension.ts': {
    source: `import { value } from './_library/value';\nconsole.log(value);\n`,
    expected: 'imported\n',
  },
  'import-as-compiled.ts': {
    source: `import { value } from './_library/value.js';\nconsole.log(value);\n`,
    expected: 'imported\n',
  },
  'import-of-a-folder.ts': {
    source: `import { value } from './_library';\nconsole.log(value);\n`,
    expected: 'index\n',
  },
  'import-at-run-time.ts': {
    source: `const { value } = await import('./_library/value');\nconsole.log(value);\n`,
    expected: 'imported\n',
  },
  'import-of-a-type.ts': {
    source: `import type { JobContext } from 'folder-runner';
export default ({ script }: JobContext) => console.log(script);\n`,
    expected: 'hourly/import-of-a-type\n',
  },
  'import-of-nothing.ts': {
    source: `import { value } from './_library/nothing';\nconsole.log(value);\n`,
    expected: { fails: /Cannot find module '.*_library\/nothing'/ },
  },
  'top-level-await.ts': {
    source: `const figure: number = await Promise.resolve(5);\nconsole.log(figure);\n`,
    expected: '5\n',
  },
  'default-function.ts': {
    source: `export default async ({ script }: { script: string }): Promise<void> => {
  await null;
  console.log('called', script);
};
console.log('loaded');\n`,
    expected: 'loaded\ncalled hourly/default-function\n',
  },
  'common.ts': {
    source: `const { basename } = require('node:path') as typeof import('node:path');
const name: string = basename(__filename);
module.exports = (context: { script: string }): void => console.log(name, context.script);\n`,
    expected: 'common.ts hourly/common\n',
    inModule: { fails: /ReferenceError: require is not defined/ },
  },
  'common-with-interpreter-line.ts': {
    source: `#!/usr/bin/env node\nconst name: string = require('node:path').basename('/a/b');\nconsole.log(name);\n`,
    expected: 'b\n',
    inModule: { fails: /ReferenceError: require is not defined/ },
  },
  'common-requires-typescript.ts': {
    source: `const { value }: { value: string } = require('./_library/value');\nconsole.log(value);\n`,
    expected: 'imported\n',
    inModule: { fails: /ReferenceError: require is not defined/ },
  },
  'byte-order-mark.ts': { source: `\ufeffconst text: string = 'marked';\nconsole.log(text);\n`, expected: 'marked\n' },
  'windows.ts': { source: `const text: string = 'windows';\r\nconsole.log(text);\r\n`, expected: 'windows\n' },
  'always-module.mts': {
    source: `import { value } from './_library/value.ts';\nconst text: string = value;\nconsole.log(text, typeof require);\n`,
    expected: 'imported undefined\n',
  },
  'always-common.cts': {
    source: `const text: string = typeof require;\nconsole.log(text);\nexports.default = (): void => console.log('called');\n`,
    expected: 'function\ncalled\n',
  },
  'from-javascript.mjs': {
    source: `import { value } from './_library/value.ts';\nconsole.log(value);\n`,
    expected: 'imported\n',
  },
};

const library = {
  'runner.config.json': '{"concurrency":2}',
  'jobs/hourly/_library/value.ts': `export const value: string = 'imported';\n`,
  'jobs/hourly/_library/index.ts': `export const value: string = 'index';\n`,
};

function runCases(packageJson: string | null): Pass {
  const scripts = Object.entries(cases).map(([name, { source }]) => [name, source]);
  const files = packageJson === null ? library : { ...library, 'package.json': packageJson };
  return runPass(Object.fromEntries(scripts), { files });
}

/** Every case with what is to come of it, and what came. */
function compare(pass: Pass, isModule: boolean) {
  return Object.entries(cases).map(([name, { expected, inModule }]) => {
    const run = pass.run(name.replace(/\.\w+$/, ''));
    const wanted = (isModule ? inModule : undefined) ?? expected;
    if (typeof wanted === 'string') return { name, wanted, got: run.output };
    const isSo = run.outcome === 'failed' && wanted.fails.test(run.output ?? '');
    return { name, wanted, got: isSo ? wanted : `${run.outcome}: ${run.output}` };
  });
}

describe('TypeScript scripts print what they are meant to and nothing else', () => {
  test.for([
    ['without a package.json', null],
    ['beside the package.json of `npm init`', '{"type":"commonjs"}'],
    ['beside a package.json without a type', '{"name":"site"}'],
    ['beside a package.json of modules', '{"type":"module"}'],
  ] as const)('%s, freshly compiled and from the cache', ([, packageJson]) => {
    const isModule = packageJson === '{"type":"module"}';
    const pass = runCases(packageJson);
    for (const { name, wanted, got } of compare(pass, isModule)) {
      expect({ name, got }).toEqual({ name, got: wanted });
    }
    const again = runPassAgain(pass.root);
    for (const { name, wanted, got } of compare(again, isModule)) {
      expect({ name, got }).toEqual({ name, got: wanted });
    }
  });
});

const SCRIPT = `const text: string = 'first';\nconsole.log(text);\n`;

test('the second run takes what the first one compiled', () => {
  const first = runPass({ 'a.ts': SCRIPT });
  const folder = join(first.root, '.runner/cache/typescript');
  const [entry = ''] = readdirSync(folder);
  const kept = readFileSync(join(folder, entry), 'utf8');
  // Behind the source that it was made from; nothing but the compiled code is altered.
  const end = kept.lastIndexOf("'first'");
  writeFileSync(join(folder, entry), `${kept.slice(0, end)}'cached'${kept.slice(end + 7)}`);
  expect(first.run('a').output).toBe('first\n');
  expect(runPassAgain(first.root).run('a').output).toBe('cached\n');
});

test('a changed script is compiled anew', () => {
  const { root } = runPass({ 'a.ts': SCRIPT });
  writeFileSync(join(root, 'jobs/hourly/a.ts'), SCRIPT.replace('first', 'second'));
  expect(runPassAgain(root).run('a').output).toBe('second\n');
});

test('without a writable cache a script runs all the same, and says nothing of it', () => {
  const files = { '.runner/cache/typescript': 'not a folder' };
  const { status, run } = runPass({ 'a.ts': SCRIPT }, { files });
  expect({ status, output: run('a').output }).toEqual({ status: 0, output: 'first\n' });
});

test('a damaged entry is compiled anew', () => {
  const { root } = runPass({ 'a.ts': SCRIPT });
  const folder = join(root, '.runner/cache/typescript');
  for (const entry of readdirSync(folder)) writeFileSync(join(folder, entry), 'garbage');
  expect(runPassAgain(root).run('a').output).toBe('first\n');
});

test('two paths that share an entry never get each other’s code', () => {
  const folder = join(makeTemporaryRoot(), 'cache');
  // Two names with one FNV-1a hash of 32 bits, known from the hash's own documentation.
  const compile = (path: string, source: string) =>
    compileCached(folder, path, source, () => ({ format: 'module', code: `compiled ${source}` }));
  for (const [path, source] of [
    ['costarring', 'one'],
    ['liquid', 'other'],
    ['costarring', 'one'],
  ] as const) {
    expect(compile(path, source).code).toBe(`compiled ${source}`);
  }
  expect(readdirSync(folder)).toHaveLength(1);
});

test('a stack names the line and column of the source, be it only stripped or rewritten', () => {
  const { root, run } = runPass({
    'stripped.ts': `interface Unused { a: string }

const fail = (text: string): never => { throw new TypeError(text); };
fail('at line 3');
`,
    'rewritten.ts': `enum Unused {
  One,
  Two,
}
function fail(text: string): never {
  throw new TypeError(text);
}
fail('at line 6');
`,
  });
  expect(run('stripped').error_stack).toContain(`${root}/jobs/hourly/stripped.ts:3:47`);
  expect(run('stripped').error_stack).toContain(`${root}/jobs/hourly/stripped.ts:4:1`);
  expect(run('rewritten').error_stack).toContain(`${root}/jobs/hourly/rewritten.ts:6:9`);
  expect(run('rewritten').error_stack).toContain(`${root}/jobs/hourly/rewritten.ts:8:1`);
});

test('a syntax error names its file and line', () => {
  const { root, run } = runPass({
    'stripped.ts': `const fine: number = 1;\nconst broken: = 2;\n`,
    'rewritten.ts': `enum Fine { One }\n\nconst broken: = 2;\n`,
    'imports.ts': `import { value } from './_library/broken';\nconsole.log(value);\n`,
    '_library/broken.ts': `\n\n\nexport const value: number = ;\n`,
  });
  const placeOf = (label: string, file: string) =>
    expect(`${run(label).error_message}${run(label).output}`.split(`${root}/jobs/hourly/${file}`));
  placeOf('stripped', 'stripped.ts:2').not.toHaveLength(1);
  placeOf('rewritten', 'rewritten.ts:3').not.toHaveLength(1);
  placeOf('imports', '_library/broken.ts:4').not.toHaveLength(1);
  for (const { output, error_stack: stack } of [run('stripped'), run('rewritten')]) {
    // Neither the line of the runner that throws, nor frames of it, nor the brackets of an error without a stack.
    expect(output).toMatch(/^\/[^\n]+\.ts:[23]\n/);
    expect(output?.split('const broken: = 2;\n')).toHaveLength(2);
    expect(output).not.toContain('probe-');
    expect(stack).toMatch(/^\/[^\n]+\.ts:[23]\n/);
  }
  expect(run('imports').error_name).toBe('SyntaxError');
  expect(run('imports').error_message).toContain(`${root}/jobs/hourly/_library/broken.ts:4`);
});
