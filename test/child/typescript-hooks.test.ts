import { describe, expect, test } from 'vitest';
import { type Pass, runPass, runPassAgain } from '../support/run-pass.ts';

/** What a script prints, or how it fails. */
type Expectation = string | { readonly fails: RegExp };

interface Case {
  readonly source: string;
  readonly expected: Expectation;
  /** Where `package.json` says `"type": "module"`. */
  readonly inModule?: Expectation;
}

const cases: Readonly<Record<string, Case>> = {
  'plain.ts': {
    source: `const text: string = 'plain';\nconsole.log(text satisfies string);\n`,
    expected: 'plain\n',
  },
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
  'byte-order-mark.ts': {
    source: `\ufeffconst text: string = 'marked';\nconsole.log(text);\n`,
    expected: 'marked\n',
  },
  'windows.ts': {
    source: `const text: string = 'windows';\r\nconsole.log(text);\r\n`,
    expected: 'windows\n',
  },
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
