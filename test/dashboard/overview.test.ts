import { expect, test } from 'vitest';
import { keepScreenshot, openPage } from '../support/browser.ts';
import { startDashboard } from '../support/dashboard.ts';
import { executable, makeTemporaryRoot } from '../support/temporary-root.ts';

test('the overview lists the scripts of the root', async () => {
  const root = makeTemporaryRoot({ 'jobs/hourly/clean.sh': executable('#!/bin/sh\nexit 0\n') });
  const { url } = await startDashboard(root);
  const page = await openPage(url);
  await page.getByText('hourly/clean').waitFor();
  await keepScreenshot(page, 'overview');
  expect(await page.title()).toBe('runner');
});
