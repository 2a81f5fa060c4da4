import { existsSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { inRoot } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

const writers: readonly [string, ...string[]][] = [
  ['hourly'],
  ['run', 'hourly/a'],
  ['add', 'mail'],
  ['work'],
  ['pause', 'hourly'],
  ['resume'],
  ['backup', 'x.db'],
];

function makeServedRoot(): string {
  const home = makeTemporaryRoot({
    'public_html/app/jobs/hourly/a.sh': 'true\n',
    'public_html/app/jobs/queue/mail.sh': 'true\n',
  });
  return join(home, 'public_html/app');
}

describe('inside a web root', () => {
  test.each(writers)('runner %s is refused, and makes nothing', async (...args) => {
    const root = makeServedRoot();
    const { status, stdout, stderr } = await inRoot(root, ...args);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toMatch(/^runner: \S+ is inside \S+\/public_html, which a web server .+\n$/);
    expect([existsSync(join(root, '.runner')), existsSync(join(root, 'x.db'))]).toEqual([false, false]);
  });

  test('all of them work where the settings allow it', async () => {
    const root = makeServedRoot();
    writeFileSync(join(root, 'runner.config.json'), '{"allowUnsafe": true}');
    for (const args of writers) expect(await inRoot(root, ...args)).toMatchObject({ status: 0 });
    expect(existsSync(join(root, 'x.db'))).toBe(true);
  });
});

test.each([['init'], ...writers.filter(([command]) => command !== 'backup')])(
  'runner %s is refused where .runner is a link into a web root',
  async (...args) => {
    const home = makeTemporaryRoot({
      'public_html/state/.gitignore': '*\n',
      'app/jobs/hourly/a.sh': 'true\n',
      'app/jobs/queue/mail.sh': 'true\n',
    });
    const root = join(home, 'app');
    symlinkSync('../public_html/state', join(root, '.runner'));
    expect(await inRoot(root, ...args)).toEqual({
      status: 2,
      stdout: '',
      stderr: expect.stringMatching(/^runner: \S+\/\.runner leads into \S+\/public_html, .+\n$/),
    });
    expect(existsSync(join(home, 'public_html/state/activity.db'))).toBe(false);
  },
);
