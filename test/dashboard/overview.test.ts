import { expect, test } from 'vitest';
import { keepScreenshot, openPage } from '../support/browser.ts';
import { startDashboard } from '../support/dashboard.ts';
import { executable, makeTemporaryRoot } from '../support/temporary-root.ts';

test('where nothing ever ran, the overview tells what to do first', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/clean.sh': executable('#!/bin/sh\nexit 0\n') });
  const { url } = await startDashboard(root);
  // As Chromium has it on a system without a language.
  const page = await openPage(url, { language: 'en-US@posix' });
  await page.getByText('Nothing has run yet; 1 script in jobs/').waitFor();
  await page.getByText('npx runner hourly').waitFor();
  await keepScreenshot(page, 'overview-empty');
  expect(await page.title()).toBe('Overview · runner');
});
