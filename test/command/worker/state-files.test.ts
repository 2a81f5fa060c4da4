import { globSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commandPath, cronPlace, startProcess } from '../../support/command.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

const modeOf = (path: string): number => statSync(path).mode & 0o777;

test('under umask 000 nobody else can read what the runner writes, nor write what scripts make', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable(
      '#!/bin/sh\nhead -c 200000 /dev/urandom | od -x\ntouch page.html; until [ -e go ]; do sleep 0.02; done\n',
    ),
  });
  const command = `umask 000; exec "${process.execPath}" "${commandPath}" hourly --root "${root}"`;
  const pass = startProcess('/bin/sh', ['-c', command], cronPlace(root));
  // The refreshed folder in the lock is made by the library, inside one that nobody else can enter.
  const list = (): string[] => globSync('.runner/**', { cwd: root }).filter((path) => !path.endsWith('.lock'));
  await until('the script has written', () => globSync('page.html', { cwd: root }).length === 1);
  const during = list();
  expect(during).toContainEqual(expect.stringMatching(/locks\/hourly\.lock\/.+\.json$/));
  const open = (paths: readonly string[]): string[] => paths.filter((path) => (modeOf(join(root, path)) & 0o077) !== 0);
  expect(open(during)).toEqual([]);
  await startProcess('/usr/bin/touch', [join(root, 'go')], cronPlace(root)).ended;
  expect(await pass.ended).toEqual({ status: 0, stdout: '', stderr: '' });
  expect(list()).toContain('.runner/output/1.1.log.gz');
  expect(open(list())).toEqual([]);
  expect(modeOf(join(root, 'page.html'))).toBe(0o644);
});
