import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

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
