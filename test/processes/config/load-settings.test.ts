import { spawnSync } from 'node:child_process';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadSettings } from '../../../src/settings/load.ts';
import { defaultSettings } from '../../../src/settings/settings.ts';
import { nodeCache } from '../../support/command.ts';
import { type FileContent, makeTemporaryRoot } from '../../support/root.ts';

const module = new URL('../../../src/settings/load.ts', import.meta.url).href;

/** Code, in a process of its own: vitest compiles what it imports itself, so that enums would work here. */
const program = `
  const { loadSettings } = await import(${JSON.stringify(module)});
  try {
    const settings = await loadSettings(process.argv[1]);
    console.log(JSON.stringify({ settings }));
  } catch (error) {
    console.log(JSON.stringify({ name: error.name, message: error.message }));
  }
`;

async function load(files: Readonly<Record<string, FileContent>>) {
  const root = makeTemporaryRoot(files);
  if (Object.keys(files).every((file) => file.startsWith('runner.config.json'))) return await loadHere(root);
  const args = ['--input-type=module', '-e', program, root];
  const { stdout, stderr } = spawnSync(process.execPath, args, { env: nodeCache, encoding: 'utf8' });
  return { root, stderr, ...JSON.parse(stdout) };
}

async function loadHere(root: string) {
  try {
    return { root, stderr: '', settings: await loadSettings(root, {}) };
  } catch (error) {
    const { name, message } = error as Error;
    return { root, stderr: '', name, message };
  }
}

const defaults = {
  defaults: {},
  tiers: {},
  scripts: {},
  timezone: null,
  concurrency: 1,
  exitZeroOnFailure: false,
  env: {},
  umask: 0o022,
  retention: { succeededMs: 7_776_000_000, failedMs: 31_536_000_000, maxDatabaseBytes: 524_288_000 },
  maxOutputBytes: 10_485_760,
};

test('without a config file the defaults apply', async () => {
  expect(await load({})).toMatchObject({ settings: defaults, stderr: '' });
});

test('a named pipe in the place of the config file is named, and not waited for', () => {
  const root = makeTemporaryRoot();
  const place = join(root, 'runner.config.json');
  spawnSync('mkfifo', ['-m', '600', place]);
  const args = ['--input-type=module', '-e', program, root];
  const { stdout } = spawnSync(process.execPath, args, { env: nodeCache, encoding: 'utf8', timeout: 20_000 });
  expect(JSON.parse(stdout)).toEqual({
    name: 'UsageError',
    message:
      `runner.config.json cannot be loaded: ${place} is a named pipe, a socket or a device; ` +
      'a file is needed there. Remove it.',
  });
});

test('every setting is read, with durations in milliseconds and sizes in bytes', async () => {
  const source = `
    import type { SettingsInput } from 'folder-runner';
    export default {
      defaults: { timeout: '10m', retries: 1, retryDelay: '1m', memory: '64mb', nice: 5, env: 'A B', tags: ['x'], description: 'd' },
      tiers: { daily: { timeout: '30m', concurrency: 3 } },
      scripts: { 'hourly/clean-*': { retries: '2' } },
      timezone: 'Europe/Berlin',
      concurrency: 2,
      exitZeroOnFailure: true,
      env: { SITE: 'https://example.org', UNSET: process.env.NO_SUCH_VARIABLE },
      umask: '027',
      retention: { succeeded: '30d', failed: '999d', maxDatabaseSize: '1gb' },
      maxOutput: '64kb',
      web: { url: 'https://Example.org/runner/' },
    } satisfies Record<string, unknown> as SettingsInput;`;
  expect(await load({ 'runner.config.ts': source })).toMatchObject({
    stderr: '',
    settings: {
      defaults: {
        timeoutMs: 600_000,
        retries: 1,
        retryDelay: { firstMs: 60_000, factor: 1, longestMs: 60_000 },
        memoryBytes: 67_108_864,
        nice: 5,
        env: ['A', 'B'],
        tags: ['x'],
        description: 'd',
      },
      tiers: { daily: { timeoutMs: 1_800_000, concurrency: 3 } },
      scripts: { 'hourly/clean-*': { retries: 2 } },
      timezone: 'Europe/Berlin',
      concurrency: 2,
      exitZeroOnFailure: true,
      env: { SITE: 'https://example.org' },
      umask: 0o027,
      retention: { succeededMs: 2_592_000_000, failedMs: 86_313_600_000, maxDatabaseBytes: 1_073_741_824 },
      maxOutputBytes: 65_536,
      web: { url: 'https://example.org/runner' },
    },
  });
});

const esm = 'export default { concurrency: 4 };\n';
const commonJs = 'module.exports = { concurrency: 4 };\n';

test.each([
  ['a .ts file', { 'runner.config.ts': 'export default { concurrency: 4 as number };' }],
  ['a .js file', { 'runner.config.js': esm }],
  ['a .mjs file', { 'runner.config.mjs': esm }],
  ['a .json file with a byte-order mark', { 'runner.config.json': '\ufeff{"concurrency":4}' }],
  ['a CommonJS file', { 'runner.config.js': commonJs }],
  ['a CommonJS file in TypeScript', { 'runner.config.ts': commonJs }],
  ['a .ts file beside "type": "commonjs"', { 'runner.config.ts': esm, 'package.json': '{"type":"commonjs"}' }],
  ['a .js file beside "type": "commonjs"', { 'runner.config.js': esm, 'package.json': '{"type":"commonjs"}' }],
  ['a .ts file beside a package.json without type', { 'runner.config.ts': esm, 'package.json': '{}' }],
  ['a .js file beside a package.json without type', { 'runner.config.js': esm, 'package.json': '{}' }],
  [
    'a file that imports another',
    {
      'runner.config.ts': "import { count } from './shared.ts';\nexport default { concurrency: count };",
      'shared.ts': 'export const count: number = 4;',
      'package.json': '{"type":"commonjs"}',
    },
  ],
])('%s is read, and nothing is written to stderr', async (_title, files) => {
  const loaded = await load(files as Record<string, string>);
  expect(loaded).toMatchObject({ settings: { concurrency: 4 }, stderr: '' });
});

test('two config files are refused, whichever they are', async () => {
  const { root, name, message } = await load({ 'runner.config.ts': esm, 'runner.config.json': '{}' });
  expect(name).toBe('UsageError');
  expect(message).toBe(
    `${root} has both runner.config.ts and runner.config.json, but only one settings file is allowed; remove one of them.`,
  );
});

test.each(['runner.config.mts', 'runner.config.cjs', 'runner.config.cts'])('%s is read', async (name) => {
  const source = name.endsWith('.mts') ? 'export default { concurrency: 4 as number };' : 'exports.concurrency = 4;';
  expect(await load({ [name]: source })).toMatchObject({ settings: { concurrency: 4 }, stderr: '' });
});

const rename = (name: string) => `the settings file must be called ${name}. Rename it, or remove it.`;
const inOtherFormats = ['runner.config.yaml', 'runner.config.toml', 'runner.config.php', 'runner.yml'];
const likeJson = [
  ...['runner.conf.json', 'runner-config.json', 'Runner.config.json', '.runnerrc', '.runnerrc.json', 'runner.json'],
  ...['.runner.json', 'folder-runner.json', 'jobs.config.json', 'runners.settings.json', 'runner.config.jsno'],
  'runner.config.json.txt',
];
const likeTypeScript = [
  ...['runnner.config.ts', 'runner.config.tss', 'runner.configuration.ts', 'config.runner.ts'],
  ...['runner.config.ts.txt', 'runner.config.local.ts'],
];

test.each([
  ...inOtherFormats.map((file) => [
    file,
    'settings are TypeScript, JavaScript or JSON. Write them to runner.config.json, and remove this file.',
  ]),
  ...likeJson.map((file) => [file, rename('runner.config.json')]),
  ...likeTypeScript.map((file) => [file, rename('runner.config.ts')]),
])('%s is refused, as it would not be read', async (file = '', statement) => {
  const { root, name, message } = await load({ [file]: '{"concurrency": 4}' });
  expect({ name, message }).toEqual({ name: 'UsageError', message: `${root}/${file} is not read: ${statement}` });
});

test('a file of another format beside the settings is a second one; what only has a name like theirs is none', async () => {
  const { root, message } = await load({ 'runner.config.json': '{}', 'runner.config.yaml': '' });
  expect(message).toBe(
    `${root} has both runner.config.json and runner.config.yaml, but only one settings file is allowed; remove one of them.`,
  );
  const others = [
    ...['runner.js', 'runner.ts', 'runner.log', 'runners.json', 'runner.config.ts.bak', 'runner.config.ts.example'],
    ...['runner.config.txt', 'runner.config.css', 'prettier.config.js', 'render.config.js', 'jobs.json', 'jobs.yml'],
    ...['job.ts', 'config.json', 'package.json', 'runner-config/notes.txt', 'runner.config.d.ts'],
    ...['runner.config.json~', 'runner.config.test.ts', 'config.php', 'job.config.php'],
  ];
  const beside = Object.fromEntries(others.map((name) => [name, 'x']));
  expect(await loadHere(makeTemporaryRoot(beside))).toMatchObject({ settings: defaults });
  const near = Object.fromEntries(
    ['runner.config.local.json', 'runner.conf.json', 'runner.json', 'runner.config.jsno'].map((name) => [name, '{}']),
  );
  const wellNamed = { 'runner.config.json': '{"concurrency": 4}', ...near, ...beside };
  expect(await loadHere(makeTemporaryRoot(wellNamed))).toMatchObject({ settings: { concurrency: 4 } });
});

test('all wrong settings are reported at once, in the order of their lines', async () => {
  const source = `export default {
    concurency: 2,
    defaults: { timeout: '10 parsecs', timout: '3m', nice: 77 },
    tiers: {
      hourly: {
        timeout: '99d',
        concurrency: 0,
      },
      daily: 3,
    },
    scripts: [],
    env: { 'a b': 'x', B: 3 },
    retention: { failed: 'never', forever: true },
    exitZeroOnFailure: 'yes',
    maxOutput: '1kb',
    umask: 22,
    timezone: 'Berlin',
  };`;
  const { name, message } = await load({ 'runner.config.mjs': source });
  expect(name).toBe('UsageError');
  expect(message.split('\n').map((line: string) => line.replace('runner.config.mjs:', ''))).toEqual([
    '2: concurency is not a known setting; did you mean concurrency?',
    '3: defaults.timeout must be a duration such as 30s, 10m or 2h, found "10 parsecs"',
    '3: defaults.nice must be a whole number from 0 to 19, found 77',
    '3: defaults.timout is not a known setting; did you mean timeout?',
    '6: tiers.hourly.timeout must be a duration of at most 24 days, found "99d"',
    '7: tiers.hourly.concurrency must be a whole number from 1 to 64, found 0',
    '9: tiers.daily must be an object, found 3',
    '11: scripts must be an object, found an empty list',
    '12: env.a b must be a name such as API_KEY, found "a b"',
    '12: env.B must be a text, found a number',
    '13: retention.failed must be a duration such as 30s, 10m or 2h, found "never"',
    '13: retention.forever is not a known setting; known are succeeded, failed, maxDatabaseSize',
    '14: exitZeroOnFailure must be true or false, found "yes"',
    '15: maxOutput must be a size of at least 64kb, found "1kb"',
    "16: umask must be a text such as '022' or '077', found 22",
    '17: timezone must be one time zone such as Europe/Berlin or UTC, found "Berlin"',
  ]);
});

test('what stands in env is never shown: cron would mail it', async () => {
  for (const source of [
    '{ "env": { "PIN": 471147114711 } }',
    '{ "env": { "PIN": ["471147114711"] } }',
    '{ "env": "PIN=471147114711" }',
    '{ "env": { "PIN": 471147114711x } }',
    '{ "env": { "PIN": x471147114711 } }',
    '{ "env": { "PIN": "471147114711" "A": "b" } }',
  ]) {
    const { name, message } = await load({ 'runner.config.json': source });
    expect(name).toBe('UsageError');
    expect(message).not.toContain('4711');
  }
});

test.each([
  ['https://me:secret4711@example.org/'],
  ['example.org'],
  ['javascript:alert(1)'],
  ['ftp://example.org/'],
  ['https://example.org/?key=secret4711'],
  ['https://example.org/#/runs'],
  ['https://'],
])('the address %s of a dashboard is refused, and not shown', async (url) => {
  const { name, message } = await load({ 'runner.config.json': JSON.stringify({ web: { url } }) });
  expect(name).toBe('UsageError');
  expect(message).toMatch(/web\.url must be an address such as https:\/\/example\.org\/runner, without a password/);
  expect(message).not.toContain('secret4711');
});

test('settings made by code are reported without a line', async () => {
  const source = `export default Object.fromEntries([['conc' + 'urrency', 0]]);`;
  expect((await load({ 'runner.config.mjs': source })).message).toBe(
    'runner.config.mjs: concurrency must be a whole number from 1 to 64, found 0',
  );
});

test('an option of scripts at the top says where it belongs', async () => {
  expect((await load({ 'runner.config.json': '{ "timeout": "5m" }' })).message).toBe(
    'runner.config.json:1: timeout is not a known setting; put it under defaults, tiers.<tier> or scripts',
  );
});

test('names that every object has are unknown settings like others', async () => {
  const { message } = await load({ 'runner.config.json': '{\n"__proto__": 1,\n"constructor": 2\n}' });
  expect(message.split('\n')).toHaveLength(2);
});

test.each([
  ['runner.config.json', '{\n  "concurrency": 1,\n}', /^runner\.config\.json cannot be loaded: .*JSON.*line 3/],
  [
    'runner.config.ts',
    'enum Speed { Slow }\nexport default { concurrency: Speed.Slow };',
    'runner.config.ts cannot be loaded: TypeScript enum is not supported in strip-only mode (line 1); write it without enums, namespaces and parameter properties',
  ],
  [
    'runner.config.mjs',
    '\nthrow new TypeError("broken\\nthing");',
    'runner.config.mjs cannot be loaded: broken thing (line 2)',
  ],
  [
    'runner.config.mjs',
    'export default { get tiers() { throw new Error("no such customer"); } };',
    'runner.config.mjs cannot be loaded: no such customer (line 1)',
  ],
  ['runner.config.mjs', 'throw "a text";', 'runner.config.mjs cannot be loaded: it threw a text'],
  [
    'runner.config.mjs',
    'export default { a: ;',
    /^runner\.config\.mjs cannot be loaded: Unexpected token ';'(?: \(line 1\))?$/,
  ],
  [
    'runner.config.mjs',
    'export const concurrency = 1;',
    'runner.config.mjs cannot be loaded: it has no default export; write `export default defineConfig({ … })`',
  ],
  [
    'runner.config.ts',
    'const settings = { concurrency: 2 };',
    'runner.config.ts cannot be loaded: it has no default export; write `export default defineConfig({ … })`',
  ],
  ['runner.config.mjs', 'export default null;', 'runner.config.mjs: the default export must be an object, found null'],
  ['runner.config.json', '[]', 'runner.config.json: the default export must be an object, found an empty list'],
])('%s with %j is wrong use, in one sentence', async (file, source, message) => {
  const loaded = await load({ [file]: source });
  expect(loaded.name).toBe('UsageError');
  // Node itself prints where in its own code something was thrown that is no error.
  expect(loaded.stderr.replace(/^\nnode:internal\/modules\/.*\n.*\n *\^\n\n?/, '')).toBe('');
  if (typeof message === 'string') expect(loaded.message).toBe(message);
  else expect(loaded.message).toMatch(message);
});

describe('a config file that others could have written', () => {
  const open = { content: '{ "allowUnsafe": true, "concurrency": 4 }', mode: 0o646 };

  test('is not loaded, whatever it says itself', async () => {
    const { root, name, message } = await load({ 'runner.config.json': open });
    expect(name).toBe('UsageError');
    expect(message).toBe(
      `${root}/runner.config.json cannot be loaded: runner.config.json can be written by anybody (mode 0646); close it with: chmod go-w runner.config.json, or allow it with RUNNER_ALLOW_UNSAFE=1 in the environment`,
    );
  });

  test('is loaded with RUNNER_ALLOW_UNSAFE=1, which allows all the rest, too', async () => {
    const root = makeTemporaryRoot({ 'runner.config.json': open });
    const settings = await loadSettings(root, { RUNNER_ALLOW_UNSAFE: '1' });
    expect(settings).toMatchObject({ concurrency: 4, allowUnsafe: true });
    expect(await loadSettings(makeTemporaryRoot(), { RUNNER_ALLOW_UNSAFE: '1' })).toEqual({
      ...defaultSettings,
      allowUnsafe: true,
    });
    await expect(loadSettings(root, { RUNNER_ALLOW_UNSAFE: '0' })).rejects.toThrow('cannot be loaded');
  });

  test('also by being put into its folder', () => {
    const root = makeTemporaryRoot({ 'runner.config.json': '{}' });
    chmodSync(root, 0o777);
    return expect(loadSettings(root, {})).rejects.toThrow(
      `${root} can be written by anybody (mode 0777); close it with: chmod go-w ${root}`,
    );
  });
});

test('a config file that is a folder is wrong use', async () => {
  const { name, message } = await load({ [join('runner.config.json', 'x')]: '' });
  expect({ name, message }).toMatchObject({
    name: 'UsageError',
    message: expect.stringMatching(/^runner\.config\.json cannot be loaded: EISDIR/),
  });
});
