import { existsSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cronPlace, runCommand } from '../support/command.ts';
import { queryLog } from '../support/log.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';
import { until } from '../support/until.ts';
import { checkAccess, keepScreenshot, openDashboard, openPage } from '../support/web/browser.ts';
import { startDashboard } from '../support/web/dashboard.ts';

const me = userInfo().username;

test('a script that is run leads to its live output; it is stopped there, and run again with arguments', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/import.sh': executable('#!/bin/sh\necho "begun $*"\n[ -n "$1" ] && exit 3\ntouch begun; sleep 600\n'),
  });
  const page = await openDashboard(root, '#/scripts/hourly/import', { expects: /status of 4\d\d/ });
  const press = (name: string | RegExp) => page.getByRole('button', { name }).click();
  await press(/^Run now/);
  await page.getByRole('heading', { name: 'Run 1' }).waitFor();
  await page.getByLabel('Output of run 1').getByText('begun').waitFor();
  await page.getByText(`by ${me}`).first().waitFor();
  await press(/^Stop/);
  await checkAccess(page, 'the question whether to stop');
  await keepScreenshot(page, 'stop-run');
  await press('Stop it');
  await page.getByText(new RegExp(`^stopped by ${me} after `)).waitFor();
  expect(queryLog(root, 'select outcome from runs')).toEqual([{ outcome: 'stopped' }]);
  expect(existsSync(join(root, 'begun'))).toBe(true);

  await press(/^Run with arguments/);
  await page.getByRole('textbox', { name: 'Arguments' }).fill('--all\ntwo words');
  await press('Run it');
  await page.getByRole('heading', { name: 'Run 2' }).waitFor();
  await page.getByLabel('Output of run 2').getByText('begun --all two words').waitFor();
  await page.getByRole('button', { name: /^Run again/ }).waitFor();
  await checkAccess(page, 'a failed run with what can be done');
});

test('the page of a failed run runs its job once more, and acknowledges its incident', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': executable('#!/bin/sh\n'),
    'jobs/queue/mail.sh': executable('#!/bin/sh\n[ -e go ] || exit 1\n'),
  });
  const { url, ask } = await startDashboard(root);
  const body = JSON.stringify({ name: 'mail' });
  await ask('api/jobs', { method: 'POST', body, headers: { 'content-type': 'application/json' } });
  runCommand(['--root', root, 'work'], cronPlace(root));
  const page = await openPage(`${url}#/runs/1`, { expects: /status of 4\d\d/ });
  await page.getByRole('button', { name: /^Acknowledge/ }).click();
  await until('it is known', () => queryLog(root, 'select id from incidents where acknowledged_at > 0').length === 1);
  writeFileSync(join(root, 'go'), '');
  await page.getByRole('button', { name: 'Run its job now' }).click();
  await until('its job waits', () => queryLog(root, "select id from jobs where state = 'queued'").length === 1);
});
