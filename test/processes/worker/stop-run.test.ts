import { spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { cronPlace, inRoot, runCommand, startCommand } from '../../support/command.ts';
import { makeFleet } from '../../support/engines/machines.ts';
import { type OwnServer, startOwnPostgres } from '../../support/engines/own-server.ts';
import { endOrphans, isAlive } from '../../support/faults/faults.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

const pidIn = (root: string, file: string): number => Number(readFileSync(join(root, file), 'utf8'));

function startPass(root: string) {
  endOrphans(root);
  return startCommand(['hourly', '--root', root], cronPlace(root));
}

async function untilThere(root: string, ...files: readonly string[]): Promise<void> {
  await until('the script runs', () => files.every((file) => existsSync(join(root, file))));
  await until('its run is in the log', () => queryLog(root, 'select pid from runs where pid is not null').length > 0);
}

/** One that was killed is there until its parent, or init, has seen it. */
async function untilGone(root: string): Promise<void> {
  await until('nothing of its group is left', () => !isAlive(-pidIn(root, 'leader')));
}

test('the whole group of a stopped run is gone, also where all of it ignores SIGTERM, and nothing else is', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable(`#!/bin/sh
trap '' TERM
(trap '' TERM; sh -c 'trap "" TERM; echo $$ > grandchild; while :; do sleep 1; done') &
echo $$ > leader
while :; do sleep 1; done
`),
  });
  const other = spawn('sleep', ['600'], { detached: true, stdio: 'ignore' });
  onTestFinished(() => void other.kill('SIGKILL'));
  const pass = startPass(root);
  await untilThere(root, 'leader', 'grandchild');
  const { status, stdout } = await inRoot(root, 'stop', 'hourly/a');
  expect([status, stdout]).toEqual([0, expect.stringMatching(/, ended with SIGKILL after 10s of grace\.\n$/)]);
  await untilGone(root);
  expect(isAlive(other.pid as number)).toBe(true);
  expect((await pass.ended).status).toBe(0);
});

test('a run that ends by itself before its worker sees the request has its true outcome', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable('#!/bin/sh\ntouch begun; while [ ! -e go ]; do sleep 0.01; done; echo $$ > ended\n'),
  });
  const pass = startPass(root);
  await untilThere(root, 'begun');
  pass.kill('SIGSTOP');
  const { stdout } = await inRoot(root, 'stop', 'a', '--no-wait');
  expect(stdout).toBe('Run 1 of hourly/a is asked to end.\n');
  writeFileSync(join(root, 'go'), '');
  await until('it has ended', () => existsSync(join(root, 'ended')));
  pass.kill('SIGCONT');
  expect((await pass.ended).status).toBe(0);
  expect(queryLog(root, 'select outcome, reason from runs')).toEqual([{ outcome: 'succeeded', reason: null }]);
});

test('a run whose runner has died is stopped by the command itself', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable('#!/bin/sh\n[ -e leader ] && exit 0\necho $$ > leader; sleep 600 & sleep 600\n'),
  });
  const pass = startPass(root);
  await untilThere(root, 'leader');
  pass.kill('SIGKILL');
  await pass.ended;
  const { status, stdout } = await inRoot(root, 'stop', 'a');
  expect([status, stdout]).toEqual([
    0,
    expect.stringMatching(
      /^Run 1 of hourly\/a was stopped by .+ after .+; its runner \(pid \d+ on .+\) had died before\.\n$/,
    ),
  ]);
  await untilGone(root);
  expect(queryLog(root, 'select state, claim_token from jobs')).toEqual([{ state: 'cancelled', claim_token: null }]);
  runCommand(['hourly', '--root', root], cronPlace(root));
  expect(queryLog(root, 'select outcome from runs')).toEqual([{ outcome: 'stopped' }, { outcome: 'succeeded' }]);
});

test('a script that ends itself at SIGTERM was stopped all the same, whatever its exit code', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.mjs': `import { writeFileSync } from 'node:fs';
process.on('SIGTERM', () => process.exit(0));
writeFileSync('begun', '');
setInterval(() => {}, 1000);
`,
  });
  const pass = startPass(root);
  await untilThere(root, 'begun');
  await inRoot(root, 'stop', 'a');
  await pass.ended;
  expect(queryLog(root, 'select outcome, exit_code from runs')).toEqual([{ outcome: 'stopped', exit_code: 0 }]);
});

describe('on many machines', () => {
  let server: OwnServer;
  beforeAll(async () => {
    server = await startOwnPostgres();
  }, 120_000);
  afterAll(async () => {
    await server?.stop();
  });

  test('a run on another machine ends at the next sign of life of its worker', async () => {
    const fleet = makeFleet(server);
    const place = makeTemporaryRoot();
    const script = `#!/bin/sh\n# @host web-1\necho $$ > ${join(place, 'leader')}; sleep 600 & sleep 600\n`;
    const [one, two] = ['web-1', 'web-2'].map((name) => fleet.machine(name, { 'jobs/daily/a.sh': script }));
    const pass = one?.call('daily');
    await until('it runs', () => existsSync(join(place, 'leader')));
    const stopped = await two?.call('stop', 'daily/a');
    expect(stopped).toEqual({
      status: 0,
      stdout: expect.stringMatching(/^Run 1 of daily\/a was stopped by \S+ after .+, ended with SIGTERM\.\n$/),
      stderr: '',
    });
    await untilGone(place);
    expect(await pass).toMatchObject({ status: 0, stderr: '' });
    expect(await fleet.ask('select outcome, left_job from runs')).toEqual([
      { outcome: 'stopped', left_job: 'cancelled' },
    ]);
  });
});
