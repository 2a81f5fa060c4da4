import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { toMail } from '../../src/monitor/alert/mail.ts';
import { readPart } from '../command/cli/mail-server.ts';
import { AT, messageOf } from '../support/alerts.ts';
import { callCommand } from '../support/command.ts';
import { makeTemporaryRoot } from '../support/root.ts';
import { lookAt, openPage } from '../support/web/browser.ts';
import { brokenImport, writeHistory } from '../support/web/dashboard.ts';

/** Opens HTML as a mail program shows it. */
async function openMail(html: string) {
  const file = join(makeTemporaryRoot({}), 'mail.html');
  writeFileSync(file, html);
  return await openPage(pathToFileURL(file).href);
}

test('the report by mail fits a phone and a desktop, light and dark, and begins with the verdict', async () => {
  const { root, log, scripts } = await writeHistory({ scripts: 12, failing: { 'hourly/import-orders': brokenImport } });
  const now = Date.now();
  for (let day = 20; day > 0; day -= 1)
    await log.addRun('daily/slow', now - day * 86_400_000, { duration_us: day > 4 ? 6_400_000 : 30_000_000 });
  writeFileSync(join(root, 'sendmail'), `#!/bin/sh\ncat > ${root}/mail.txt\n`, { mode: 0o755 });
  const channel = { kind: 'mail', to: 'me@example.org', sendmail: join(root, 'sendmail') };
  writeFileSync(join(root, 'runner.config.json'), JSON.stringify({ alerts: { channels: [channel] } }));
  expect(scripts).toContain('hourly/import-orders');
  expect(await callCommand(['report', '--mail'], { cwd: root, env: { PATH: process.env.PATH } })).toMatchObject({
    status: 0,
  });
  const source = readFileSync(join(root, 'mail.txt'), 'utf8');
  const page = await openMail(readPart({ source } as never, 'text/html'));
  expect(await page.textContent('main > :first-child')).toMatch(/1 script is failing.* since /);
  expect(await page.title()).toContain('1 script is failing');
  await lookAt(page, 'mail-report');
});

test('an alert by mail fits a phone and a desktop, light and dark', async () => {
  const output = `reading\n${'x'.repeat(300)}\n`;
  const message = messageOf(
    { id: 1, subject: 'hourly/was-slow', severity: 'critical', recoveredAt: AT, output: null },
    { id: 2, subject: 'log', severity: 'critical', code: 'log-unusable', output },
    { id: 3, subject: `queue/${'a-long-name-'.repeat(10)}`, severity: 'warning' },
  );
  const { html, subject } = toMail({ id: 'runner-abc-1', createdAt: AT, message });
  expect(subject).toMatch(/^\[runner web3\] 2 problems, 1 recovered: log, /);
  const page = await openMail(html);
  expect(await page.textContent('h1')).toMatch(/^2 problems, 1 recovered: log, /);
  expect((await page.locator('h2').allTextContents())[0]).toBe('log: log unusable');
  await lookAt(page, 'mail-alert');
  const [alone] = [toMail({ id: 'runner-abc-2', createdAt: AT, message: messageOf() })];
  expect(await (await openMail(alone.html)).textContent('h1')).toBe('hourly/backup is failing');
});
