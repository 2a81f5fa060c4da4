import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commandPath, cronEnv, inRoot, withCompileCache } from '../../support/command.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const settings = {
  'runner.config.json': '{ "alerts": { "channels": [{ "kind": "command", "run": "cat >> told" }] } }',
};

function makeRoot(): string {
  return makeTemporaryRoot({
    ...settings,
    'jobs/lab/a.sh': 'test -e fixed || { echo no orders; exit 3; }\n',
    'jobs/hourly/ok.sh': 'true\n',
  });
}

/** The command as somebody types it on a terminal; what is shown there. */
function onTerminal(root: string, ...args: readonly string[]): string {
  const line = [process.execPath, commandPath, '--root', root, ...args].join(' ');
  const env = withCompileCache({ cwd: root, env: { ...cronEnv(root), TERM: 'xterm' } }).env;
  return spawnSync('script', ['-qec', line, '/dev/null'], { cwd: root, env, encoding: 'utf8', input: '' }).stdout;
}

const incidents = (root: string) => queryLog(root, 'select subject, occurrences, recovered_at from incidents');

test.each([
  ['a run', ['run', 'lab/a']],
  ['a pass', ['lab']],
])('nobody else is told of %s that fails while somebody watches it on a terminal', async (_, args) => {
  const root = makeRoot();
  expect(onTerminal(root, ...args)).toContain('exit code 3');
  expect(queryLog(root, 'select outcome from runs')).toEqual([{ outcome: 'failed' }]);
  expect(incidents(root)).toEqual([]);
  expect(await inRoot(root, 'hourly')).toMatchObject({ status: 0, stderr: '' });
  expect(queryLog(root, 'select channel from tellings')).toEqual([]);
  expect((await inRoot(root, 'check', 'script-failing')).status).toBe(0);
});

test('a pass on a terminal names the files that were meant to run and never do', () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/ok.sh': 'true\n', 'jobs/hourly/backup': '#!/bin/sh\ntrue\n' });
  const shown = onTerminal(root, 'hourly').replace(/\s+/g, ' ');
  expect(shown).toContain('Note: 1 file with a #! line never runs: jobs/hourly/backup');
  expect(shown).toContain('`chmod +x jobs/hourly/backup`');
});

test('--alert tells of a failure on a terminal, and a watched success ends its incident, told once', async () => {
  const root = makeRoot();
  onTerminal(root, 'run', 'lab/a', '--alert');
  expect(incidents(root)).toMatchObject([{ subject: 'lab/a', occurrences: 1, recovered_at: null }]);
  expect(queryLog(root, 'select channel from tellings')).toHaveLength(1);
  // Watched again, it counts for nothing.
  onTerminal(root, 'run', 'lab/a');
  expect(incidents(root)).toMatchObject([{ occurrences: 1, recovered_at: null }]);
  writeFileSync(join(root, 'fixed'), '');
  onTerminal(root, 'run', 'lab/a');
  expect(incidents(root)).toMatchObject([{ recovered_at: expect.any(Number) }]);
  expect(queryLog(root, 'select channel from tellings')).toHaveLength(2);
});

test('--no-alert tells nobody without a terminal either', async () => {
  const root = makeRoot();
  expect((await inRoot(root, 'run', 'lab/a', '--no-alert')).stderr).toContain('lab/a failed');
  expect(incidents(root)).toEqual([]);
  await inRoot(root, 'run', 'lab/a');
  expect(incidents(root)).toHaveLength(1);
});
