import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseShebang } from '../../../src/discovery/script-file.ts';
import { type CommentStyle, readCommentBlocks, readScriptTags } from '../../../src/discovery/tags.ts';
import { describeProblem } from '../../../src/settings/table.ts';

function readShell(...lines: readonly string[]) {
  const source = ['#!/bin/sh', ...lines.map((line) => `# ${line}`), 'echo'].join('\n');
  const { options, problems, warnings } = readScriptTags(source, 'hashes', 'jobs/hourly/a.sh');
  return { options, problems: problems.map(describeProblem), warnings };
}

test('every tag is read', () => {
  const source = `#!/usr/bin/env node
/**
 * Cleans up.
 * @description Removes temporary files
 *   older than a week.
 * @timeout 10m
 * @retries 3
 * @retry-delay 5m
 * @memory 256mb
 * @nice 10
 * @env API_KEY, API_URL
 * @tags night disk
 * @author somebody
 */`;
  expect(readScriptTags(source, 'slashes', 'a.ts')).toEqual({
    options: {
      description: 'Removes temporary files older than a week.',
      timeoutMs: 600_000,
      retries: 3,
      retryDelay: { firstMs: 300_000, factor: 1, longestMs: 300_000 },
      memoryBytes: 268_435_456,
      nice: 10,
      env: ['API_KEY', 'API_URL'],
      tags: ['night', 'disk'],
    },
    problems: [],
    warnings: [],
  });
});

test('@env and @tags add up', () => {
  expect(readShell('@env A B', '@tags x', '@env B C', '@tags y').options).toEqual({
    env: ['A', 'B', 'C'],
    tags: ['x', 'y'],
  });
});

test('all wrong values are told, in the order of their lines', () => {
  const { problems } = readShell('@nice 99', '@timeout 10 parsecs', '@env', '@retries -1', '@memory: 1 gig');
  expect(problems).toEqual([
    'jobs/hourly/a.sh:2: @nice must be a whole number from 0 to 19, found "99"',
    'jobs/hourly/a.sh:3: @timeout must be a duration such as 30s, 10m or 2h, found "10 parsecs"',
    'jobs/hourly/a.sh:4: @env must be names of environment variables such as API_KEY, found ""',
    'jobs/hourly/a.sh:5: @retries must be a whole number from 0 to 100, found "-1"',
    'jobs/hourly/a.sh:6: @memory must be a size such as 64mb, 512mb or 1gb, found "1 gig"',
  ]);
});

test.each(['@timeout 20s', '@timeout: 20s', '@timeout=20s', '@timeout = 20s', '@timeout:20s'])('%s', (line) => {
  expect(readShell(line)).toEqual({ options: { timeoutMs: 20_000 }, problems: [], warnings: [] });
});

test('several tags on one line are read as such', () => {
  expect(readShell('@timeout 20s @retries 2', '@isolate @tags night @host web-1 @description Cleans @nice up')).toEqual(
    {
      options: {
        ...{ timeoutMs: 20_000, retries: 2, isolate: true, tags: ['night'], host: ['web-1'] },
        description: 'Cleans @nice up',
      },
      problems: [],
      warnings: [],
    },
  );
  expect(readShell('@timeout 20s @retrys 2')).toEqual({
    options: { timeoutMs: 20_000 },
    problems: [],
    warnings: ['jobs/hourly/a.sh:2: @retrys is not known and has no effect; did you mean @retries?'],
  });
  expect(readShell('@tags a @tag')).toMatchObject({ options: { tags: ['a', '@tag'] }, problems: [] });
});

test('what cannot be told apart is a problem, with the lines to write instead', () => {
  expect(readShell('@expect all done @timeout 20s', '@nice 5 @author me').problems).toEqual([
    'jobs/hourly/a.sh:2: @expect shares its line with another tag; write each tag on a line of its own: `@expect all done`, then `@timeout 20s`',
    'jobs/hourly/a.sh:3: @nice must be a whole number from 0 to 19, found "5 @author me"',
  ]);
});

test.each<readonly [line: string, found: object | string]>([
  ['@fail-on', { failOn: [''] }],
  ['@fail-on true', { failOn: [''] }],
  ['@fail-on false', { failOn: [] }],
  ['@fail-on no rows', { failOn: ['no rows'] }],
  ['@fail-on "no rows"', { failOn: ['no rows'] }],
  [`@expect 'done'`, { expect: ['done'] }],
  ['@fail-on: /^ERROR\\b/i', { failOn: ['/^ERROR\\b/i'] }],
  ['@expect /var/backup is full', { expect: ['/var/backup is full'] }],
  ['@expect', 'must be a text such as done, or /a regular expression/, found ""'],
  ['@expect /(/', 'must be a regular expression (unterminated group), found "/(/"'],
  ['@expect /(?=a)/', 'must be a regular expression without look-around and back-references, found "/(?=a)/"'],
  ['@fail-on /a/g', 'must be a regular expression with no flag but i, found "/a/g"'],
  ['@shell bash -euo pipefail', { shell: ['bash', '-euo', 'pipefail'] }],
  ['@shell /usr/local/bin/bash --posix', { shell: ['/usr/local/bin/bash', '--posix'] }],
  ['@shell bash -c', 'must be a shell with its flags such as bash -euo pipefail, found "bash -c"'],
  ['@shell rm -rf', 'must be a shell with its flags such as bash -euo pipefail, found "rm -rf"'],
])('%s', (line, found) => {
  const { options, problems } = readShell(line);
  if (typeof found === 'string') expect(problems[0]?.replace(/^\S+ \S+ /, '')).toBe(found);
  else expect({ options, problems }).toEqual({ options: found, problems: [] });
});

test('patterns add up', () => {
  expect(readShell('@expect a', '@expect b', '@fail-on', '@fail-on c').options).toEqual({
    expect: ['a', 'b'],
    failOn: ['', 'c'],
  });
});

test('a tag given twice is a problem, whatever its values', () => {
  expect(readShell('@timeout 5m', '@timeout 5m', '@description a', '@description b').problems).toEqual([
    'jobs/hourly/a.sh:3: @timeout is given twice (also in line 2); keep one of them',
    'jobs/hourly/a.sh:5: @description is given twice (also in line 4); keep one of them',
  ]);
});

test.each([
  ['@timout 5m', 'timout', 'timeout'],
  ['@Timeout 5m', 'Timeout', 'timeout'],
  ['@retry 3', 'retry', 'retries'],
  ['@time-limit 3m', 'time-limit', 'timeout'],
  ['@interpreter bash', 'interpreter', 'shell'],
  ['@retrydelay 3m', 'retrydelay', 'retry-delay'],
  ['@tag x', 'tag', 'tags'],
])('%s is pointed out and changes nothing', (line, name, nearest) => {
  expect(readShell(line)).toEqual({
    options: {},
    problems: [],
    warnings: [`jobs/hourly/a.sh:2: @${name} is not known and has no effect; did you mean @${nearest}?`],
  });
});

test.each(['env-file', 'dotenv', 'envfile'])('@%s leads to how a script reads one', (name) => {
  expect(readShell(`@${name} .env`).warnings).toEqual([
    `jobs/hourly/a.sh:2: @${name} is not known and has no effect; a script reads such a file itself: ` +
      "`set -a; . ./.env` in a shell, process.loadEnvFile('.env') in Node",
  ]);
});

test.each(['disabled', 'disable', 'Disabled', 'enabled'])('@%s leads to the command', (name) => {
  expect(readShell(`@${name}`).warnings).toEqual([
    `jobs/hourly/a.sh:2: @${name} is not known and has no effect; \`npx folder-runner disable jobs/hourly/a.sh\` keeps the script from running`,
  ]);
});

test.each([
  '@author',
  '@see',
  '@param x',
  '@type {x}',
  '@todo',
  '@since 1',
  '@test',
  '@note',
  '@name x',
  '@desc x',
  '@scope/package is used',
  '@tags-x/y',
  '@',
  '@ timeout 5m',
  'mail to a@timout.example',
  'x @timout',
  '{@link timeout}',
])('%s is left alone', (line) => {
  expect(readShell(line)).toEqual({ options: {}, problems: [], warnings: [] });
});

test('a description ends with the next tag, even one of other people', () => {
  expect(readShell('@description one', '', 'two', '@see three', 'four').options).toEqual({ description: 'one two' });
});

test('an empty description is none, and control characters are no part of one', () => {
  expect(readShell('@description')).toEqual({ options: {}, problems: [], warnings: [] });
  expect(readShell('@description a\u001b[31m\tb').options).toEqual({ description: 'a [31m b' });
});

test('tags in a later comment are pointed out, not read', () => {
  const source = '/* A licence. */\n\n/**\n * @timeout 5m\n * @description x\n */\ncode();\n/** @nice 3 */';
  expect(readScriptTags(source, 'slashes', 'a.ts')).toEqual({
    options: {},
    problems: [],
    warnings: [
      'a.ts:4: @timeout has no effect here; tags belong in the first comment block',
      'a.ts:8: @nice has no effect here; tags belong in the first comment block',
    ],
  });
  expect(readScriptTags('# A backup.\n\nset -eu\n# @timeout 5m\n', 'hashes', 'a.sh').warnings).toEqual([
    'a.sh:4: @timeout has no effect here; tags belong in the first comment block',
  ]);
});

test('tags with Windows line ends are read alike', () => {
  expect(readScriptTags('/**\r\n * @timeout 5m\r\n */\r\n', 'slashes', 'a.ts').options).toEqual({ timeoutMs: 300_000 });
});

const word = fc.stringMatching(/^[a-z][a-z0-9]{0,9}$/);
const variable = fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,9}$/);

test('what is written into tags is read back', () => {
  const written = fc.record({
    description: fc.array(word, { minLength: 1 }),
    retries: fc.integer({ min: 0, max: 100 }),
    nice: fc.integer({ min: 0, max: 19 }),
    timeout: fc.integer({ min: 1, max: 2_000_000 }),
    memory: fc.integer({ min: 16, max: 100_000 }),
    env: fc.uniqueArray(variable, { minLength: 1 }),
    tags: fc.uniqueArray(word, { minLength: 1 }),
  });
  fc.assert(
    fc.property(written, (given) => {
      const { options, problems } = readShell(
        `@timeout ${given.timeout}s`,
        `@retries ${given.retries}`,
        `@description ${given.description.join(' ')}`,
        `@memory ${given.memory}mb`,
        `@nice ${given.nice}`,
        `@env ${given.env.join(' ')}`,
        `@tags ${given.tags.join(', ')}`,
      );
      expect(problems).toEqual([]);
      expect(options).toEqual({
        ...given,
        description: given.description.join(' '),
        timeout: undefined,
        timeoutMs: given.timeout * 1000,
        memory: undefined,
        memoryBytes: given.memory * 1024 * 1024,
      });
    }),
  );
});

test('any text is read without an error', () => {
  const bytes = fc.uint8Array({ maxLength: 300 }).map((array) => Buffer.from(array).toString('utf8'));
  const tag = fc.tuple(fc.constantFrom('timeout', 'env', 'tags', 'retries', 'description'), fc.string());
  const tagged = tag.map(([name, value]) => `/** @${name} ${value}`);
  fc.assert(
    fc.property(fc.oneof(bytes, fc.string(), tagged), (source) => {
      const { problems } = readScriptTags(source, 'slashes', 'a.ts');
      for (const problem of problems) expect(describeProblem(problem)).toMatch(/^a\.ts:\d+: @[a-z-]+ must be [^\n]+$/);
    }),
  );
});

/** `line:text` of each line, a list for each block. */
function read(source: string, style: CommentStyle): readonly string[][] {
  return readCommentBlocks(source, style).map((block) => block.map(({ line, text }) => `${line}:${text}`));
}

test('a block comment loses its stars', () => {
  expect(read('#!/usr/bin/env node\n/**\n * one\n *two\n\n   three\n */\ncode();', 'slashes')).toEqual([
    ['2:', '3:one', '4:two', '5:', '6:three', '7:'],
  ]);
});

test.each([
  ['/** one */', '1:one'],
  ['/* one */ code();', '1:one'],
  ['/*one*/', '1:one'],
  ['/**/', '1:'],
  ['// one', '1:one'],
  ['///one', '1:one'],
  ['\ufeff// one', '1:one'],
])('%j is one line', (source, line) => {
  expect(read(source, 'slashes')).toEqual([[line]]);
});

test('a run of // lines ends with the first line that is none', () => {
  expect(read('// one\n//\n// two\ncode();\n// three', 'slashes')).toEqual([['1:one', '2:', '3:two'], ['5:three']]);
});

test('code before the first comment does not matter', () => {
  expect(read("'use strict';\nimport x from 'y';\n\n/** one */", 'slashes')).toEqual([['4:one']]);
});

test('further blocks are read, with code between them as well', () => {
  expect(read('/* one */\n\n// two\n\n/* three */\ncode();\n// four', 'slashes')).toEqual([
    ['1:one'],
    ['3:two'],
    ['5:three'],
    ['7:four'],
  ]);
});

test('a # in front of a line is a comment in shells, not in JavaScript', () => {
  expect(read('#!/bin/sh\n# one\n## two\nset -e # three', 'hashes')).toEqual([['2:one', '3:two']]);
  expect(read('# one\n/* two */', 'slashes')).toEqual([['2:two']]);
  expect(read('/* one */\n# two', 'hashes')).toEqual([['2:two']]);
});

test.each([
  ['<?php\n/**\n * one\n */', ['2:', '3:one', '4:']],
  ['<?php // one\ncode();', ['1:one']],
  ['#!/usr/bin/php\n<?php\n# one', ['3:one']],
  ['<?php /* one */ ?>', ['1:one']],
  ['<?php\n#[Attribute]\n# one', ['3:one']],
])('PHP comments begin after the tag that opens PHP: %j', (source, block) => {
  expect(read(source, 'php')).toEqual([block]);
});

test('Windows line ends are no part of the text', () => {
  expect(read('/**\r\n * one\r\n */\r\n', 'slashes')).toEqual([['1:', '2:one', '3:']]);
});

test('a comment that is never closed goes on to the end', () => {
  expect(read('/* one\ntwo', 'slashes')).toEqual([['1:one', '2:two']]);
});

test('a source of nothing but comments is read in linear time', () => {
  const started = performance.now();
  expect(readCommentBlocks('/**/\n'.repeat(13_000), 'slashes')).toHaveLength(13_000);
  expect(performance.now() - started).toBeLessThan(2000);
});

test('any source is read without an error, and lines keep their numbers', () => {
  const styles = fc.constantFrom<CommentStyle>('slashes', 'hashes', 'php');
  const piece = fc.constantFrom(
    '/*',
    '*/',
    '//',
    '#',
    '#!',
    '<?php',
    '\n',
    '\r\n',
    '@timeout',
    ' ',
    '*',
    'x',
    '\ufeff',
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(piece, fc.string())), styles, (pieces, style) => {
      const source = pieces.join('');
      const lines = readCommentBlocks(source, style).flat();
      const numbers = lines.map(({ line }) => line);
      expect(numbers).toEqual([...new Set(numbers)].toSorted((one, other) => one - other));
      expect(lines.every(({ line, text }) => source.split('\n')[line - 1]?.includes(text))).toBe(true);
    }),
  );
});

test.each([
  ['#!/bin/sh', '/bin/sh', null],
  ['#!/bin/sh\necho', '/bin/sh', null],
  ['#! \t/bin/sh \t-e  \n', '/bin/sh', '-e'],
  ['#!/usr/bin/env node', '/usr/bin/env', 'node'],
  ['#!/usr/bin/env -S node  --x y', '/usr/bin/env', '-S node  --x y'],
  ['#!/usr/bin/perl\t-w\n#!/bin/sh', '/usr/bin/perl', '-w'],
  ['#!\n/bin/sh', '', null],
  ['#!', '', null],
  ['#! \r\n', '', null],
])('%j is run by %j with the argument %j', (source, interpreter, argument) => {
  expect(parseShebang(source)).toMatchObject({ interpreter, argument });
});

test.each(['', 'echo', ' #!/bin/sh', '\n#!/bin/sh', '# !/bin/sh'])('%j has none', (source) => {
  expect(parseShebang(source)).toBeNull();
});

test('a carriage return at its end is noticed', () => {
  expect(parseShebang('#!/bin/sh -e\r\n')).toMatchObject({ argument: '-e', endsInCarriageReturn: true });
  expect(parseShebang('#!/bin/sh\necho\r\n')?.endsInCarriageReturn).toBe(false);
});

test('interpreter and argument are taken apart for any of them', () => {
  const path = fc.stringMatching(/^\/[!-~]{1,40}$/);
  const argument = fc.stringMatching(/^[!-~]([ -~]{0,40}[!-~])?$/);
  const gap = fc.stringMatching(/^[ \t]{1,3}$/);
  fc.assert(
    fc.property(path, fc.option(argument), gap, (interpreter, given, space) => {
      const line = given === null ? `#!${interpreter}` : `#!${interpreter}${space}${given}`;
      expect(parseShebang(`${line}${space}\n`)).toMatchObject({ interpreter, argument: given });
    }),
  );
});
