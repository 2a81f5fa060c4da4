import { spawnSync } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { globSync } from 'glob';
import { expect, test } from 'vitest';
import { hostChecks } from '../../../src/checks/host/list.ts';
import { examinePlace } from '../../../src/checks/host/site.ts';
import { SCHEMA_VERSION } from '../../../src/store/schema.ts';
import { runCommand } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { check, diagnose, makeCalledRoot, usual } from './doctor-place.ts';

const names = [
  'node',
  'sqlite',
  'settings',
  'jobs',
  'crontab',
  'cron',
  'calls',
  'clock',
  'disk',
  'file system',
  'locks',
  'limits',
  'memory',
  '/proc',
  'sendmail',
  'alerts',
  'permissions',
  'log',
  'machines',
  'leftovers',
  'pauses',
];

const filesOf = (root: string): string[] => globSync('**', { cwd: root, dot: true }).sort();

test('a site in order has no problem, and all checks leave it as it was', async () => {
  const { root, env } = await makeCalledRoot();
  const before = filesOf(root);
  const { status, stdout } = runCommand(['doctor', '--json'], { cwd: root, env });
  const { ok, checks } = JSON.parse(stdout);
  expect(checks.filter((each: { status: string }) => each.status === 'problem')).toEqual([]);
  expect({ status, ok }).toEqual({ status: 0, ok: true });
  expect([...new Set(checks.map((each: { name: string }) => each.name))]).toEqual(names);
  expect(checks.every((each: object) => Object.keys(each).join() === 'name,status,found,cure')).toBe(true);
  expect(filesOf(root)).toEqual(before);
});

test('each warning and each problem has its cure, and no other finding has one', async () => {
  const root = makeTemporaryRoot({ ...usual, 'runner.config.json': '{ "concurency": 2 }' });
  const { stdout } = runCommand(['doctor', '--json'], { cwd: root, env: (await makeCalledRoot()).env });
  for (const { status, cure } of JSON.parse(stdout).checks) {
    if (status === 'ok') expect(cure).toBeNull();
    else if (status !== 'note') expect(cure).toMatch(/^[`A-Z].*\.$/);
  }
});

test('the checks of a used site change nothing either', async () => {
  const { root, env } = await makeCalledRoot();
  runCommand(['hourly'], { cwd: root, env });
  const before = filesOf(root);
  const found = diagnose(root, env);
  expect(found.of('log')).toEqual([
    {
      status: 'ok',
      found: expect.stringMatching(new RegExp(`^sound, .*, journal \\w+, schema ${SCHEMA_VERSION}$`)),
      cure: null,
    },
  ]);
  expect(found.of('disk', 'ok').at(-1)?.found).toMatch(/^\.runner takes .*: activity log \d/);
  expect(found.of('calls')).toMatchObject([
    { status: 'ok', found: expect.stringMatching(/^hourly was called \d+\w+ ago$/) },
    { status: 'note', found: 'cron has not called yet: daily' },
  ]);
  expect(found.status).toBe(0);
  expect(filesOf(root)).toEqual(before);
});

test('wrong settings are all told, and the other checks go on', async () => {
  const { root, env } = await makeCalledRoot({
    ...usual,
    'runner.config.json': '{\n "concurrency": 0,\n "maxOutput": "much"\n}',
  });
  const found = diagnose(root, env);
  expect(found.of('settings')).toEqual([
    {
      status: 'problem',
      found: expect.stringMatching(/^runner\.config\.json:2: concurrency must be .*, found 0$/),
      cure: expect.stringMatching(/^Correct it in runner\.config\.json: .*docs\/settings\.md/),
    },
    expect.objectContaining({ found: expect.stringMatching(/^runner\.config\.json:3: maxOutput /) }),
  ]);
  expect({ status: found.status, ok: found.ok }).toEqual({ status: 1, ok: false });
  expect(found.of('jobs')).toMatchObject([{ status: 'ok', found: '2 scripts in 2 tiers' }]);
  expect(found.of('pauses')).toHaveLength(1);
});

test('refused scripts are counted and named', async () => {
  const { root, env } = await makeCalledRoot({ ...usual, 'jobs/hourly/c.mjs': '// @timeout soon\n' });
  expect(await check(root, env, 'jobs')).toEqual([
    { status: 'ok', found: '3 scripts in 2 tiers', cure: null },
    {
      status: 'problem',
      found: '1 script refused: hourly/c',
      cure: '`npx folder-runner list` shows why for each of them, and how to fix it.',
    },
  ]);
});

test('a line that only looks like a tag is a warning', async () => {
  const { root, env } = await makeCalledRoot({ ...usual, 'jobs/hourly/c.mjs': '// @timout 5m\n' });
  expect(await check(root, env, 'jobs', 'warning')).toMatchObject([{ found: 'probably a mistake in hourly/c' }]);
});

/** Does all that doctor advises about folders, as it is written there. */
async function followAdvice(files: Record<string, string>): Promise<string[]> {
  const { root, env } = await makeCalledRoot(files);
  for (const { cure } of await check(root, env, 'jobs', 'warning')) {
    const [, commands = ''] = /^If it was meant to be hourly: `([^`]+)`, then/.exec(cure ?? '') ?? [];
    spawnSync('sh', ['-c', commands], { cwd: root });
  }
  return globSync('jobs/**', { cwd: root, nodir: true }).sort();
}

test.each([
  ['it is not there', { 'jobs/Hourly/x y.sh': '' }, ['jobs/hourly/x y.sh']],
  ['it is there', { 'jobs/every hour/x.sh': '', 'jobs/hourly/a.sh': '' }, ['jobs/hourly/a.sh', 'jobs/hourly/x.sh']],
  [
    'two are meant to be it',
    { 'jobs/Hourly/x.sh': '', 'jobs/houry/y.sh': '' },
    ['jobs/hourly/x.sh', 'jobs/hourly/y.sh'],
  ],
  [
    'it has a script of the same name, which is kept',
    { 'jobs/Hourly/a.sh': '', 'jobs/Hourly/x.sh': '', 'jobs/hourly/a.sh': 'echo' },
    ['jobs/Hourly/a.sh', 'jobs/hourly/a.sh', 'jobs/hourly/x.sh'],
  ],
])('the scripts of a misnamed folder come into the tier that was meant: %s', async (_, files, after) => {
  expect(await followAdvice(files)).toEqual(after);
});

test('as text: a line for each finding, cures below, the count at the end', async () => {
  const { root, env } = await makeCalledRoot({ ...usual, 'runner.config.json': '{ "maxOutput": 1 }' });
  const { stdout } = runCommand(['doctor'], { cwd: root, env: { ...env, COLUMNS: '70' } });
  expect(stdout).not.toContain('\u001b[');
  const lines = stdout.split('\n');
  expect(lines[0]).toBe(realpathSync(root));
  expect(lines[2]).toMatch(/^ok {7}node {9}v\d+/);
  const at = lines.findIndex((line) => line.startsWith('problem  settings     runner.config.json'));
  expect(lines.slice(at).find((line) => line.includes('→'))).toBe(
    `${' '.repeat(22)}→ Correct it in runner.config.json: until then`,
  );
  expect(lines.at(-2)).toMatch(/^1 problem · \d+ warnings? · \d+ notes?$/);
  expect(lines.slice(2).every((line) => [...line].length <= 70 || !line.slice(24).includes(' '))).toBe(true);
});

test('--root names another root; where there is none, it says so and exits 2', async () => {
  const { root, env } = await makeCalledRoot();
  const named = runCommand(['doctor', '--root', root], { cwd: '/', env });
  expect(named.stdout.split('\n', 1)[0]).toBe(root);
  const none = runCommand(['doctor', '--root', '/usr'], { cwd: '/', env });
  expect(none).toMatchObject({ status: 2, stdout: '', stderr: expect.stringMatching(/no jobs folder/) });
});

test('a check that fails itself is a finding, and the others go on', async () => {
  const { root, env } = await makeCalledRoot();
  const place = { root, env, distFolder: '/nowhere', version: '1.2.3', nowMs: Date.now() };
  const request = { ...place, findWrongUse: async () => null };
  const findings = [];
  for await (const finding of examinePlace(request, hostChecks)) findings.push(finding);
  expect(findings.filter(({ code }) => code === 'clock')).toEqual([
    {
      code: 'clock',
      status: 'unknown',
      message: expect.stringMatching(/^could not be checked: ENOENT.*\/nowhere\/bin\.cjs/),
      hint: 'Fix what the other lines report, then look again.',
    },
  ]);
  expect(findings.at(-1)?.code).toBe('pauses');
});
