import { AxeBuilder } from '@axe-core/playwright';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { keepScreenshot } from '../web/browser.ts';

/** Both sizes and both schemes: what others would share with these is seen once. */
const views = [
  { size: 'phone', scheme: 'dark', width: 390, height: 844 },
  { size: 'desktop', scheme: 'light', width: 1360, height: 900 },
] as const;

/** Looks at a page large and small, light and dark: nothing sticks out, and axe finds nothing; screenshots are kept. */
export async function lookAt(page: Page, name: string): Promise<void> {
  for (const { size, scheme, ...viewport } of views) {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme: scheme });
    const overflow = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth');
    expect(overflow, `${name}, ${size}: wider than the screen`).toBeLessThanOrEqual(0);
    await keepScreenshot(page, `${name}-${size}-${scheme}`);
    await checkAccess(page, `${name}, ${size}, ${scheme}`);
  }
}

/** Axe finds nothing that keeps somebody from using the page. */
export async function checkAccess(page: Page, what: string): Promise<void> {
  // What is right is not described: that would take as long again.
  const builder = new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ['violations'] });
  const { violations } = await builder.analyze();
  const found = violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} (${help}) at ${target.join(' ')}: ${failureSummary}`),
  );
  expect(found, what).toEqual([]);
}
