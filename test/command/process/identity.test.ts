import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, onTestFinished, test } from 'vitest';
import {
  checkLiveness,
  identifyProcess,
  isSameProcess,
  isStartKnown,
  machineName,
  readStartTicks,
  readStatFields,
} from '../../../src/system/process/identity.ts';
import { listTree } from '../../../src/system/process/tree.ts';
import { startNode, startProcess } from '../../support/command.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

const caller = join(import.meta.dirname, '../../../src/system/process/identity.ts');
const ask = `import { isCalledByHand } from '${caller}'; console.log(isCalledByHand(process.env));`;

/** What a Node says that is started by programs of these names, the last one by the one before it. */
function askBelow(names: readonly string[], { onTerminal = false, env = {} } = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'caller-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of names) copyFileSync('/bin/sh', join(folder, name));
  // The `true` keeps a shell from becoming what it starts.
  const start = names.reduceRight(
    (inner, name) => `${join(folder, name)} -c '${inner.replaceAll("'", "'\\''")}; true'`,
    `${process.execPath} --input-type=module -e "${ask}"`,
  );
  const [program, ...args] = onTerminal
    ? ['script', '-qec', start, '/dev/null']
    : ['setsid', '-w', '/bin/sh', '-c', start];
  const { stdout, stderr } = spawnSync(program as string, args, {
    encoding: 'utf8',
    env: { PATH: '/usr/bin:/bin', ...env },
  });
  return stdout.trim() || stderr;
}

test.each(['cron', 'CRON', 'crond', 'fcron', 'anacron', 'supercronic'])('what %s starts is not by hand', (name) => {
  expect(askBelow([name, 'sh'])).toBe('false');
  expect(askBelow([name, 'sh'], { onTerminal: true })).toBe('false');
});

test('what comes over ssh is by hand, and from a crontab that is called over ssh is not', () => {
  expect(askBelow(['sshd', 'bash'])).toBe('true');
  expect(askBelow(['sshd-session', 'bash'])).toBe('true');
  expect(askBelow(['sshd', 'crond', 'sh'])).toBe('false');
  expect(askBelow(['sshd', 'bash'], { env: { RUNNER_CALLED_BY: 'cron' } })).toBe('false');
});

test('what belongs to a terminal is by hand, wherever its output goes', () => {
  expect(askBelow(['deploy'], { onTerminal: true })).toBe('true');
});

test('what the dashboard starts is by hand, wherever that was started', () => {
  expect(askBelow(['crond', 'sh'], { env: { RUNNER_CALLED_BY: 'person' } })).toBe('true');
});

test('what nothing tells anything of is not by hand', () => {
  expect(askBelow(['panel', 'sh'])).toBe('false');
});

const place = { cwd: '/', env: { PATH: '/usr/bin:/bin' } };

test('a process knows itself: host, boot, pid and start', () => {
  const self = identifyProcess(process.pid);
  expect(self).toMatchObject({ host: hostname(), pid: process.pid });
  expect(self.bootId).toMatch(/^[0-9a-f-]{36}( pid:\[\d+\])?$/);
  expect(self.startTicks).toBeGreaterThan(0);
  expect(checkLiveness(self)).toBe('alive');
});

test('a process that has ended is dead', async () => {
  const child = startProcess('/bin/sleep', ['30'], place);
  const identity = identifyProcess(child.pid);
  expect(checkLiveness(identity)).toBe('alive');
  child.kill('SIGKILL');
  await child.ended;
  expect(checkLiveness(identity)).toBe('dead');
});

test('a pid that was given to another process does not make the first one alive', () => {
  const self = identifyProcess(process.pid);
  expect(checkLiveness({ ...self, startTicks: (self.startTicks as number) - 1 })).toBe('dead');
});

test('a process of an earlier boot is dead, whatever has its pid now', () => {
  const self = identifyProcess(process.pid);
  const bootId = '00000000-0000-0000-0000-000000000000';
  expect(checkLiveness({ ...self, bootId })).toBe('dead');
});

test('a process of another host is neither alive nor dead', () => {
  const self = identifyProcess(process.pid);
  expect(checkLiveness({ ...self, host: 'elsewhere.example' })).toBe('on-another-host');
  expect(checkLiveness({ ...self, host: 'elsewhere.example', bootId: 'x' })).toBe('on-another-host');
});

test('a process of another container on this host is neither: its pid means another one here', async () => {
  const child = startNode(['--version']);
  await child.ended;
  const self = identifyProcess(child.pid);
  const boot = self.bootId?.slice(0, 36);
  expect(checkLiveness(self)).toBe('dead');
  expect(checkLiveness({ ...self, bootId: `${boot} pid:[1]` })).toBe('on-another-host');
  // After a reboot there is no such container any more.
  expect(checkLiveness({ ...self, bootId: 'an earlier boot pid:[1]' })).toBe('dead');
});

test('what is not known of a process, as without /proc, does not prove it dead', () => {
  const self = identifyProcess(process.pid);
  expect(checkLiveness({ ...self, bootId: null, startTicks: null })).toBe('alive');
});

test('a pid alone does not prove that a process is alive, its start does', async () => {
  const self = identifyProcess(process.pid);
  expect(isStartKnown(self)).toBe(true);
  expect(isStartKnown({ ...self, startTicks: null })).toBe(false);
  const child = startNode(['--version']);
  await child.ended;
  expect(isStartKnown({ ...self, pid: child.pid })).toBe(false);
});

test('two processes are the same if nothing tells them apart', () => {
  const self = identifyProcess(process.pid);
  expect(isSameProcess(self, { ...self })).toBe(true);
  for (const other of [{ host: 'x' }, { bootId: 'x' }, { pid: 1 }, { startTicks: 1 }]) {
    expect(isSameProcess(self, { ...self, ...other })).toBe(false);
  }
});

test('a zombie is dead, though a signal still reaches it', async () => {
  const parent = startProcess('/bin/sh', ['-c', 'sleep 0.05 & exec sleep 30'], place);
  await until('the shell has started a child', () => listTree(parent.pid).length === 2);
  const identity = identifyProcess(listTree(parent.pid)[1] as number);
  await until('the child is a zombie', () => readStatFields(identity.pid)?.[0] === 'Z');
  expect(process.kill(identity.pid, 0)).toBe(true);
  expect(checkLiveness(identity)).toBe('dead');
});

test('a process of another user is alive, though no signal may reach it', () => {
  const module = new URL('../../../src/system/process/identity.ts', import.meta.url).href;
  const program = `
    import { checkLiveness, identifyProcess } from ${JSON.stringify(module)};
    const identity = identifyProcess(1);
    if (process.getuid() === 0) process.setuid(65534);
    try { process.kill(1, 0); } catch (error) { console.log(error.code); }
    console.log(checkLiveness(identity), checkLiveness({ ...identity, startTicks: 1e15 }));`;
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  expect(stdout).toBe('EPERM\nalive dead\n');
});

test('a program’s name with spaces and parentheses does not shift the fields', async () => {
  const name = 'a) Z 1 (b) c';
  const root = makeTemporaryRoot({ [name]: executable('#!/bin/sh\nsleep 30\n') });
  const before = readStartTicks(process.pid) as number;
  const child = startProcess(join(root, name), [], place);
  await until('the script has its own child', () => listTree(child.pid).length === 2);
  const [state, parent] = readStatFields(child.pid) ?? [];
  expect(state).toMatch(/^[RSD]$/);
  expect(parent).toBe(String(process.pid));
  expect(readStartTicks(child.pid)).toBeGreaterThan(before);
  expect(checkLiveness(identifyProcess(child.pid))).toBe('alive');
  process.kill(listTree(child.pid)[1] as number);
});

test('a process that is gone has no start', async () => {
  const child = startNode(['--version']);
  await child.ended;
  expect(readStartTicks(child.pid)).toBeNull();
  expect(identifyProcess(child.pid).startTicks).toBeNull();
});

describe('RUNNER_HOST', () => {
  const named = process.env.RUNNER_HOST;
  afterEach(() => {
    if (named === undefined) delete process.env.RUNNER_HOST;
    else process.env.RUNNER_HOST = named;
  });

  test.each(['web-1', 'a', 'db_2.example.org', 'x'.repeat(64)])('names the machine: %s', (name) => {
    process.env.RUNNER_HOST = name;
    const self = identifyProcess(process.pid);
    expect(self.host).toBe(name);
    expect(checkLiveness(self)).toBe('alive');
    expect(checkLiveness({ ...self, host: hostname() })).toBe('on-another-host');
  });

  test('is the host name where it is empty', () => {
    process.env.RUNNER_HOST = '';
    expect(machineName()).toBe(hostname());
  });

  test.each(['web 1', 'web/1', 'wéb', 'x'.repeat(65), 'web*'])('is refused as %j', (name) => {
    process.env.RUNNER_HOST = name;
    expect(machineName).toThrow(
      /^RUNNER_HOST is ".+": expected 1 to 64 letters, digits, dots, dashes and underscores, such as web-1\.$/,
    );
  });
});
