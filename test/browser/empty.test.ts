import { expect, test } from 'vitest';
import { inRoot } from '../support/command.ts';
import { executable, makeTemporaryRoot } from '../support/root.ts';
import { lookAt, openPage } from '../support/web/browser.ts';
import { startDashboard } from '../support/web/dashboard.ts';
import { writeLog } from '../support/written-log.ts';

/** What each page says before anything has ever run. */
const untouched: Readonly<Record<string, RegExp>> = {
  '/runs': /^Nothing has run yet\.$/,
  '/queue': /^The queue is empty\.$/,
  '/incidents': /^Nothing has run yet, so nothing can be wrong\.$/,
  '/next': /^Nothing is expected in this time\.$/,
  '/workers': /^No pass and no worker has run yet\.$/,
  '/activity': /^Nothing has happened yet\.$/,
  '/metrics': /^Nothing happened in this time\.$/,
  '/settings': /^How long runs are kept$/,
};

const roots = {
  'an empty root': {
    files: {},
    says: { ...untouched, '/': /^There is no script yet$/, '/scripts': /^There is no script yet$/ },
  },
  'a root of one script': {
    files: { 'jobs/hourly/clean.sh': executable('#!/bin/sh\necho cleaned\n') },
    says: {
      ...untouched,
      '/': /^Nothing has run yet; 1 script in jobs\/$/,
      '/scripts': /^never run$/,
      '/scripts/hourly/clean': /^It has not run yet\.$/,
    },
  },
} as const;

test.each(Object.entries(roots))(
  'each page of %s says what is not there yet, and bears every size and scheme',
  async (name, { files, says }) => {
    const { url } = await startDashboard(makeTemporaryRoot(files));
    const page = await openPage(url);
    for (const [address, sentence] of Object.entries(says)) {
      await page.goto(`${url}#${address}`);
      await page.locator('main').getByText(sentence).filter({ visible: true }).first().waitFor();
      await page.locator('main:not(:has([aria-busy=true], .loading))').waitFor();
      await lookAt(page, `${name.replaceAll(' ', '-')}${address.replaceAll('/', '-')}`);
    }
  },
  120_000,
);

test('the page of incidents says that nothing is wrong only where that is so', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/clean.sh': executable('#!/bin/sh\n') });
  await inRoot(root, 'hourly');
  const { url } = await startDashboard(root);
  const page = await openPage(`${url}#/incidents`);
  await page.getByText('Nothing is wrong.').waitFor();
  await page.getByText('No incident is over yet.').waitFor();
  // Nobody has noted yet that jobs wait for somebody.
  const log = await writeLog(root);
  const at = Date.now() - 86_400_000;
  log.change("insert into jobs (name, created_at, run_at) values ('mail', ?, ?)", at, at);
  await page.getByText('No incident is noted yet.').waitFor();
  expect(await page.getByText('Nothing is wrong.').count()).toBe(0);
  await lookAt(page, 'incidents-unnoted');
});
