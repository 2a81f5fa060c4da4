import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { openPage } from '../support/web/browser.ts';
import { startTestServer } from '../support/web/dashboard.ts';

/** A browser tells of each refusal on its console, which is no complaint here. */
async function openRefused(url: string): Promise<Page> {
  const first = await openPage('about:blank');
  const page = await first.context().newPage();
  await page.goto(url);
  return page;
}

const whoIs = (page: Page) => page.evaluate(() => fetch('api/session').then((answer) => answer.json()));

test('an address with a key logs a browser in, and the key is gone from it', async () => {
  const server = await startTestServer();
  const page = await openRefused(server.url);
  await page
    .getByRole('heading', { name: /overview/i })
    .first()
    .waitFor();
  expect(page.url()).toBe(server.url.replace(/#.*/, '#/'));
  const [cookie] = await page.context().cookies();
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', path: '/' });
  expect(await whoIs(page)).toMatchObject({ permission: 'manage', csrf: expect.any(String) });
});

test('the page asks for a token, says that one is wrong, and lets the right one in', async () => {
  const server = await startTestServer();
  const page = await openRefused(server.listensAt);
  const login = async (token: string) => {
    await page.getByLabel('Token').fill(token);
    await page.getByRole('button', { name: 'Log in' }).click();
  };
  await login('frt_wrong');
  await page.getByRole('alert').getByText('This token is not valid').waitFor();
  await login(await server.addToken('laptop', 'read'));
  await page
    .getByRole('heading', { name: /overview/i })
    .first()
    .waitFor();
  expect(await whoIs(page)).toMatchObject({ name: 'token laptop', permission: 'read' });
});
