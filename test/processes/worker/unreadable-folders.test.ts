import { chmodSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { cronPlace, runBoundByModes } from '../../support/command.ts';
import { checkInvariants, shellScript } from '../../support/faults/invariants.ts';
import { queryLog } from '../../support/log.ts';
import { type FileContent, makeTemporaryRoot } from '../../support/root.ts';
import { makeSeenRoot } from '../../support/site.ts';
import { until } from '../../support/until.ts';

const scripts = {
  'jobs/15min/r.sh': shellScript(),
  'jobs/hourly/a.sh': shellScript(),
  'jobs/daily/a.sh': shellScript(),
  'jobs/queue/mail.sh': 'exit 0\n',
};

const run = (root: string, ...args: readonly string[]) => runBoundByModes(['--root', root, ...args], cronPlace(root));

/** A root with a folder that nobody may look into. */
async function close(
  folder: string,
  before: readonly (readonly string[])[] = [],
  files: Readonly<Record<string, FileContent>> = scripts,
): Promise<string> {
  const root = await makeSeenRoot(files);
  for (const args of before) await run(root, ...args);
  chmodSync(join(root, folder), 0o300);
  onTestFinished(() => chmodSync(join(root, folder), 0o700));
  return root;
}

const refusal = (folder: string): string =>
  `${folder}: it cannot be read: permission denied; allow it with: chmod u+rX ${folder}`;

const isDue = (root: string): boolean => queryLog(root, 'select 1 from jobs where run_at <= ?', Date.now()).length > 0;

const ran = (root: string): string[] =>
  queryLog<{ script: string }>(root, 'select script from runs order by id').map(({ script }) => script);

test('a tier that cannot be read is told of, and keeps no other from running when it is due', async () => {
  const root = await close('jobs/15min');
  expect(await run(root, 'due')).toEqual({ status: 1, stdout: '', stderr: `runner: ${refusal('jobs/15min')}\n` });
  expect(ran(root)).toEqual(['hourly/a', 'daily/a']);
  checkInvariants(root);
});

test('a script and a folder with too long a name are told of, and keep nothing else from running', async () => {
  const [label, folder] = ['x'.repeat(249), 'y'.repeat(255)];
  const long = { [`jobs/hourly/${label}.sh`]: shellScript(), [`jobs/${folder}/a.sh`]: shellScript() };
  const root = await makeSeenRoot({ ...scripts, ...long });
  const due = await run(root, 'due');
  const why = `jobs/hourly/${label}.sh: its name is too long: tier and name together have at most 255 characters; rename it`;
  expect(due).toMatchObject({ status: 1, stdout: '' });
  expect(due.stderr).toContain(why);
  expect(ran(root)).toEqual(['15min/r', 'hourly/a', `hourly/${'x'.repeat(247)}…`, 'daily/a']);
  expect(await run(root, 'status')).toMatchObject({ status: 0, stderr: '' });
  const stderr = `runner: jobs/${folder} is not a tier: its name is longer than the 100 bytes that a tier's may have; rename it.\n`;
  expect(await run(root, folder)).toEqual({ status: 2, stdout: '', stderr });
  checkInvariants(root);
});

test('called by its name, it is told of', async () => {
  const root = await close('jobs/15min');
  expect(await run(root, '15min')).toEqual({ status: 2, stdout: '', stderr: `runner: ${refusal('jobs/15min')}\n` });
});

test('what is due in it is told of by other passes, and not as if the log were broken', async () => {
  const fails = shellScript({ tags: ['@retries 1', '@retry-delay 1s'], exit: '1' });
  const root = await close('jobs/15min', [['15min']], { ...scripts, 'jobs/15min/r.sh': fails });
  await until('its next try is due', () => isDue(root));
  expect(await run(root, 'daily')).toEqual({ status: 0, stdout: '', stderr: `runner: ${refusal('jobs/15min')}\n` });
  expect(ran(root)).toEqual(['15min/r', 'daily/a']);
  checkInvariants(root);
});

test.each([
  [['list'], 0, 'hourly/a'],
  [['report', '--json'], 0, '"presence": "unknown"'],
  [['why', 'hourly/a'], 0, 'hourly/a.sh'],
  [['why', '15min/r'], 0, `It does not run: scripts in an unreadable folder cannot run.`],
  [['why', '15min/other'], 0, `It does not run: scripts in an unreadable folder cannot run.`],
])('who looks is told, and of all else besides: %j', async (args, status, text) => {
  const root = await close('jobs/15min', [['15min'], ['hourly']]);
  const answer = await run(root, ...args);
  expect(answer).toMatchObject({ status, stdout: expect.stringContaining(text) });
  expect(answer.stdout).not.toContain('"gone"');
  const isOfOther = args.includes('hourly/a');
  if (!isOfOther) {
    expect(`${answer.stdout}${answer.stderr}`).toContain('jobs/15min: it cannot be read');
  }
});

test('handlers that cannot be read keep no tier from running, and jobs wait', async () => {
  const root = await close('jobs/queue', [['add', 'mail']]);
  const told = `runner: ${refusal('jobs/queue')}\n`;
  expect(await run(root, 'due')).toMatchObject({ status: 0, stderr: told });
  // Told once a day.
  for (const args of [['hourly'], ['work', '--wait', '1ms']]) {
    const { status, stderr } = await run(root, ...args);
    expect([args, status, stderr]).toEqual([args, 0, '']);
  }
  expect(ran(root)).toEqual(['15min/r', 'hourly/a', 'daily/a', 'hourly/a']);
  expect(queryLog(root, "select state from jobs where name = 'mail'")).toEqual([{ state: 'queued' }]);
});

test('where jobs/ itself cannot be read, a tier that is named runs all the same', async () => {
  const root = await close('jobs');
  expect(await run(root, 'hourly')).toEqual({ status: 0, stdout: '', stderr: '' });
  expect(ran(root)).toEqual(['hourly/a']);
  const { status, stderr } = await run(root, 'due');
  expect([status, stderr]).toEqual([2, `runner: ${refusal(join(root, 'jobs'))}\n`]);
});

test('a temporary folder is removed with what its script has locked itself out of', async () => {
  const lockOut =
    'mkdir -p "$RUNNER_TMPDIR/a/b" && touch "$RUNNER_TMPDIR/a/b/c" && chmod 0 "$RUNNER_TMPDIR/a/b" "$RUNNER_TMPDIR/a"\n';
  const root = makeTemporaryRoot({
    'outside/file': '',
    'jobs/hourly/a.sh': `ln -s "$RUNNER_ROOT/outside" "$RUNNER_TMPDIR/link"\n${lockOut}`,
    'jobs/hourly/b.sh': `${lockOut}chmod 0 "$RUNNER_TMPDIR"\n`,
    'jobs/queue/mail.mjs': `import { execSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
export default () => {
  if (readdirSync(process.env.RUNNER_TMPDIR).length > 0) throw new Error('it is not empty');
  execSync(${JSON.stringify(`${lockOut}chmod 0 "$RUNNER_TMPDIR"\n`)});
};\n`,
  });
  const outside = join(root, 'outside');
  chmodSync(outside, 0o500);
  onTestFinished(() => chmodSync(outside, 0o700));
  expect(await run(root, 'hourly')).toEqual({ status: 0, stdout: '', stderr: '' });
  for (let job = 0; job < 3; job += 1) await run(root, 'add', 'mail');
  expect(await run(root, 'work')).toMatchObject({ status: 0, stderr: '' });
  expect(queryLog(root, "select 1 from jobs where name = 'mail' and attempts = 1 and state = 'finished'")).toHaveLength(
    3,
  );
  expect(readdirSync(join(root, '.runner/tmp'))).toEqual([]);
  expect(statSync(outside).mode & 0o777).toBe(0o500);
});
