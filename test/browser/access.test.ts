import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { checkAccess, keepScreenshot, openPage } from '../support/web/browser.ts';
import { startDashboard } from '../support/web/dashboard.ts';
import { makeTroubledSite, pagesOf, type ShownPage, showPage } from '../support/web/troubled-site.ts';

/** Both schemes on a phone and a desk, and the widths between. */
const views = [
  [390, 'light'],
  [390, 'dark'],
  [820, 'light'],
  [1100, 'dark'],
  [1440, 'light'],
  [1440, 'dark'],
] as const;

async function lookAtPage(page: Page, url: string, shown: ShownPage): Promise<void> {
  const name = await showPage(page, url, shown);
  for (const [index, [width, scheme]] of views.entries()) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme: scheme });
    await keepScreenshot(page, `${name.replaceAll(/\W+/g, '-')}-${width}-${scheme}`);
    await checkAccess(page, `${name} at ${width}, ${scheme}`, width === views[index - 1]?.[0]);
  }
}

/** Parts of the pages, each of which takes its time. */
const parts = {
  'with a list': ({ address, state }: ShownPage) => state === undefined && !/^\/\w+\/\w/.test(address),
  'of one thing': ({ address, state }: ShownPage) => state === undefined && /^\/\w+\/\w/.test(address),
  'with a dialog': ({ state }: ShownPage) => state !== undefined,
} as const;

test.each(Object.entries(parts))(
  'axe finds nothing on any page %s of a site full of trouble, in any size and scheme',
  async (_, isOfPart) => {
    const site = await makeTroubledSite();
    const { url } = await startDashboard(site.root);
    const page = await openPage(url, { expects: /404/ });
    const shown = pagesOf(site);
    const linked = await page
      .getByRole('navigation', { name: 'Pages' })
      .getByRole('link')
      .evaluateAll((all) => all.map((each) => each.getAttribute('href')?.slice(1)));
    expect(shown.map(({ address }) => address)).toEqual(expect.arrayContaining(linked));
    for (const each of shown.filter(isOfPart)) await lookAtPage(page, url, each);
  },
  600_000,
);
