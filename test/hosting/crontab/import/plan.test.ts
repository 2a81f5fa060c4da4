import { expect, test } from 'vitest';
import { planImport } from '../../../../src/hosting/crontab/import/plan.ts';
import { makeTemporaryRoot } from '../../../support/temporary-root.ts';

/** What becomes of a crontab of this user. */
function plan(...lines: readonly string[]) {
  const root = makeTemporaryRoot();
  return planImport(Buffer.from(`${lines.join('\n')}\n`), 'crontab', { root, home: root, user: 'me' });
}

test('what BASH_ENV names is read before the command, as under cron', async () => {
  const { scripts } = await plan('SHELL=/bin/bash', 'BASH_ENV=$HOME/env.sh', '5 9 * * * cat <<< "here $GREET"');
  const lines = scripts[0]?.content.toString().split('\n') ?? [];
  expect(lines).toContain("export BASH_ENV='$HOME/env.sh'");
  expect(lines.at(-2)).toBe(`exec /bin/bash -c 'cat <<< "here $GREET"'`);
});

test('a value with text behind its quotes is a line that cron does not understand', async () => {
  const { lines } = await plan('MYVAR = "x" y', '@daily true');
  expect(lines[0]).toMatchObject({
    script: null,
    notes: ['Cron does not understand this line: its value does not end where its quotes end.'],
  });
});
