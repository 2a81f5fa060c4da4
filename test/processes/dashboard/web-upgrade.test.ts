import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startProcess } from '../../support/command.ts';
import { makeSite, packageOf, replace } from '../../support/site.ts';
import { reachDashboard } from '../../support/web/dashboard.ts';

test('goes on after the package was replaced, with all of its own version', async () => {
  const root = makeSite({ 'jobs/hourly/a.sh': '' });
  const args = [join(packageOf(root), 'dist/bin.cjs'), 'web'];
  const started = startProcess(process.execPath, args, { cwd: root, env: { HOME: root, PATH: '/usr/bin:/bin' } });
  const url = await reachDashboard(root, () => started.printed());
  const document = await fetch(new URL('api/openapi.json', url));
  const { paths } = (await document.json()) as { paths: Record<string, { get?: unknown }> };
  replace(root);
  // What none of these has asked for is loaded only now.
  const plain = Object.keys(paths).filter((path) => paths[path]?.get !== undefined && !/[{]|events/.test(path));
  const answers = await Promise.all(['/', ...plain].map((path) => fetch(new URL(path.slice(1), url))));
  expect(answers.filter(({ status }) => status >= 500).map((answer) => answer.url)).toEqual([]);
  expect(await answers[0]?.text()).toContain('<!doctype html>');
  started.kill('SIGTERM');
  expect(await started.ended).toMatchObject({ status: 0, stderr: '' });
});
