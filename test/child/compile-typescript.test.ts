import { expect, test } from 'vitest';
import { runPass } from '../support/run-pass.ts';

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
  expect(run('imports').error_name).toBe('SyntaxError');
  expect(run('imports').error_message).toContain(`${root}/jobs/hourly/_library/broken.ts:4`);
});
