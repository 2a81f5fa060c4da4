import { expect, test } from 'vitest';
import { inRoot } from '../../support/command.ts';
import { changeLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';

function makeRoot(program: string): string {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': 'test -e fixed || { echo no orders; exit 3; }\n',
    'jobs/hourly/b.sh': 'exit 0\n',
    sendmail: executable(`#!/bin/sh\n${program}\n`),
    'runner.config.mjs': `export default { alerts: { channels: [
      { kind: 'mail', to: 'me@example.org', sendmail: import.meta.dirname + '/sendmail' }] } };\n`,
  });
  return root;
}

test('a failure is mailed once: by the channel, or by cron if that cannot send it', async () => {
  const sent = makeRoot('cat > mail.txt');
  expect(await inRoot(sent, 'hourly')).toMatchObject({ status: 1, stderr: '' });
  expect(await inRoot(sent, 'hourly')).toMatchObject({ status: 1, stderr: '' });

  const unsent = makeRoot('cat > /dev/null; echo no route >&2; exit 75');
  const { status, stderr } = await inRoot(unsent, 'hourly');
  expect(status).toBe(1);
  expect(stderr).toMatch(
    /^runner: 1 of 2 scripts of hourly did not succeed .*\n\nhourly\/a failed after \d+ms: exit code 3/,
  );
  expect(stderr).toMatch(/\n\nThe alert channel mail could not send this mail, and tries it again: .*75/);
  // Its next try fails alike, which is no news.
  changeLog(unsent, 'update deliveries set due_at = 1');
  expect(await inRoot(unsent, 'hourly')).toMatchObject({ status: 1, stderr: '' });
});
