import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { runPassAgain } from '../support/command.ts';
import { changeLog } from '../support/log.ts';
import { lookAt, openPage } from '../support/web/browser.ts';
import { startTestServer } from '../support/web/dashboard.ts';

/** A browser tells of each refusal on its console, which is no complaint here. */
async function openRefused(url: string): Promise<Page> {
  const first = await openPage('about:blank');
  const page = await first.context().newPage();
  await page.goto(url);
  return page;
}

async function logIn(page: Page, token: string): Promise<void> {
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Log in' }).click();
}

const seesOverview = (page: Page) =>
  page
    .getByRole('heading', { name: /overview/i })
    .first()
    .waitFor();

const whoIs = (page: Page) => page.evaluate(() => fetch('api/session').then((answer) => answer.json()));

test('an address with a key logs a browser in, and the key is gone from it', async () => {
  const server = await startTestServer();
  const page = await openRefused(server.url);
  await seesOverview(page);
  expect(page.url()).toBe(server.url.replace(/#.*/, '#/'));
  const [cookie] = await page.context().cookies();
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', path: '/' });
  expect(await whoIs(page)).toMatchObject({ permission: 'manage', csrf: expect.any(String) });
});

test('the page asks for a token, says that one is wrong, lets the right one in, and out again', async () => {
  const server = await startTestServer();
  const page = await openRefused(server.listensAt);
  await logIn(page, 'frt_wrong');
  await page.getByRole('alert').getByText('This token is not valid').waitFor();
  // Strangers learn no name.
  expect(await page.title()).toBe('Log in · runner');
  expect(await page.locator('.site-name').count()).toBe(0);
  await lookAt(page, 'login');
  await logIn(page, await server.addToken('laptop', 'read'));
  await seesOverview(page);
  expect(await whoIs(page)).toMatchObject({ name: 'token laptop', permission: 'read' });
  await page.getByText('token laptop, may only look').waitFor();
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByLabel('Token').waitFor();
});

test('a token for a wall shows the overview alone, without links, controls, errors and output', async () => {
  const server = await startTestServer();
  const script = '#!/bin/sh\necho "no such customer 4711" >&2\nexit 3\n';
  writeFileSync(join(server.root, 'jobs/hourly/a.sh'), script, { mode: 0o755 });
  runPassAgain(server.root);
  server.clock.now = Date.now();
  const page = await openRefused(server.listensAt);
  const answers: Promise<string>[] = [];
  page.on('response', (response) => {
    if (/\/api\/(?!events)/.test(response.url())) answers.push(response.text().catch(() => ''));
  });
  await logIn(page, await server.addToken('hall', 'wall'));
  await page.getByText('1 script is failing').first().waitFor();
  await page.getByRole('navigation').waitFor({ state: 'detached' });
  expect(await page.locator('a[href]').count()).toBe(0);
  expect(await page.getByRole('button').allInnerTexts()).toEqual(['Skip to the content', 'Log out']);
  expect(await page.locator('main').innerText()).toMatch(/hourly\/a[\s\S]*left out here/);
  await page.evaluate(() => {
    (globalThis as unknown as { location: { hash: string } }).location.hash = '#/runs/1';
  });
  await page.getByText('1 script is failing').first().waitFor();
  for (const answer of [...(await Promise.all(answers)), await page.content()]) expect(answer).not.toContain('4711');
  expect(await page.getByRole('searchbox').count()).toBe(0);
  await lookAt(page, 'wall');
});

test('the login tells why a session has ended', async () => {
  const server = await startTestServer();
  const page = await openRefused(server.listensAt);
  await logIn(page, await server.addToken('laptop', 'read'));
  await seesOverview(page);
  changeLog(server.root, 'delete from tokens');
  await page.getByText('Your session has ended: its time is over, its token was revoked').waitFor();
  await page.getByRole('button', { name: 'Log in' }).waitFor();
});
