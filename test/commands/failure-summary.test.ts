import { hostname } from 'node:os';
import { expect, test } from 'vitest';
import { runPass } from '../support/run-pass.ts';

test('a pass with failures prints one summary on stderr, with the last 20 lines of each', () => {
  const { status, stdout, stderr, root, run } = runPass({
    'a.sh': 'seq 1 30\nexit 3\n',
    'b.sh': 'echo not shown\n',
    'c.mjs': `throw new TypeError('of a script');\n`,
    'd.sh': 'exit 4\n',
  });
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
  const [head, a, c, d, ...more] = stderr.split('\n\n');
  expect(head).toBe(`runner: 3 of 4 scripts of hourly did not succeed (${root} on ${hostname()})`);
  const numbers = Array.from({ length: 20 }, (_, index) => `  | ${11 + index}`);
  expect(a?.split('\n')).toEqual([
    expect.stringMatching(/^hourly\/a failed after \d+ms: exit code 3$/),
    ...numbers,
    `  all of it: runner show ${run('a').id}`,
  ]);
  expect(`${c}\n\n${d}\n\n${more.join('\n\n')}`).toContain('exit code 1: TypeError: of a script');
  expect(stderr).toContain('hourly/d failed');
  expect(stderr).toContain('  | (no output)');
  expect(stderr).not.toContain('not shown');
});

test('control characters of a script do not reach the mail', () => {
  const { stderr } = runPass({ 'a.sh': `printf 'a\\033[2Jb\\a\\0c\\r\\n\\302\\233'\nexit 1\n` });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
  expect(stderr).not.toMatch(/[\0-\x08\x0b-\x1f\x7f-\x9f]/);
  expect(stderr).toContain('exit code 1');
});
