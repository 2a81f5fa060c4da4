import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import { type Browser, type Page, chromium as playwright } from 'playwright-core';
import { lock } from 'proper-lockfile';
import { afterAll, expect, onTestFinished } from 'vitest';
import { startDashboard } from './dashboard.ts';

let launched: Promise<Browser> | null = null;

afterAll(async () => {
  const browser = await launched;
  launched = null;
  await browser?.close();
});

/** The Chromium of the npm package, one for each test file. */
async function launch(): Promise<Browser> {
  const { default: chromium } = await import('@sparticuz/chromium');
  chromium.setGraphicsMode = false;
  return await playwright.launch({
    // Meant for one page, that ends everything as it is closed.
    args: chromium.args.filter((arg) => arg !== '--single-process'),
    executablePath: await unpack(chromium),
    headless: true,
  });
}

/** Beside the packages, for this user: what another one has left in the common temporary folder may not be readable. */
const unpacked = join(import.meta.dirname, '../../../node_modules/.cache/folder-runner/chromium');

/** Once, and by one test file at a time: another one would take half of it for all. */
async function unpack(chromium: { executablePath(): Promise<string> }): Promise<string> {
  mkdirSync(unpacked, { recursive: true });
  const unlock = await lock(unpacked, { retries: { retries: 600, factor: 1, minTimeout: 100, maxTimeout: 100 } });
  const { TMPDIR } = process.env;
  process.env.TMPDIR = unpacked;
  try {
    return await chromium.executablePath();
  } finally {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
    await unlock();
  }
}

export interface View {
  /** Default: desktop. */
  readonly size?: 'phone' | 'desktop';
  /** Default: light. */
  readonly scheme?: 'light' | 'dark';
  /** What the browser says of its language, be it nonsense. Default: British English. */
  readonly language?: string;
  /** What the browser may complain of: what a server refuses, or that there is none. Default: nothing. */
  readonly expects?: RegExp;
}

const sizes = { phone: { width: 390, height: 844 }, desktop: { width: 1360, height: 900 } };

/** A page of its own, with its own cookies. What the page or its script complains of fails the test. */
export async function openPage(
  url: string,
  { size = 'desktop', scheme = 'light', language, expects }: View = {},
): Promise<Page> {
  launched ??= launch();
  const context = await (await launched).newContext({
    viewport: sizes[size],
    colorScheme: scheme,
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    hasTouch: size === 'phone',
  });
  if (language !== undefined) {
    await context.addInitScript((value) => {
      Object.defineProperty(navigator, 'language', { value, configurable: true });
    }, language);
  }
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error' && !expects?.test(message.text())) complaints.push(message.text());
  });
  onTestFinished(async () => {
    await context.close();
    if (complaints.length > 0) throw new Error(`The page complained: ${complaints.join('\n')}`);
  });
  await page.goto(url);
  return page;
}

/** A page of a root's dashboard, which runs until the test has ended. */
export async function openDashboard(root: string, path = '', view: View = {}): Promise<Page> {
  const { url } = await startDashboard(root);
  return await openPage(`${url}${path}`, view);
}

/** Kept where `SCREENSHOTS` says, for people to look at; nowhere without it. */
export async function keepScreenshot(page: Page, name: string): Promise<void> {
  const folder = process.env.SCREENSHOTS;
  if (folder === undefined) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}

/** Of what is to be seen at once, small enough for documents: made anew where `PICTURES` says (docs/images). */
export async function keepPicture(page: Page, name: string): Promise<void> {
  const folder = process.env.PICTURES;
  if (folder === undefined) return;
  mkdirSync(folder, { recursive: true });
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send('Page.captureScreenshot', { format: 'webp', quality: 70 });
  writeFileSync(join(folder, `${name}.webp`), Buffer.from(data, 'base64'));
}

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

/** Axe's rules about colours. All others judge the document and its sizes. */
const colourRules = ['color-contrast', 'link-in-text-block'];

/**
 * Axe finds nothing that keeps somebody from using the page.
 *
 * @param onlyColours whether the page was judged by all rules at the same size, in the other scheme
 */
export async function checkAccess(page: Page, what: string, onlyColours = false): Promise<void> {
  // A description of what is right would take as long again.
  const builder = new AxeBuilder({ page }).setLegacyMode().options({
    resultTypes: ['violations'],
    ...(onlyColours && { runOnly: { type: 'rule', values: colourRules } }),
  });
  const { violations } = await builder.analyze();
  const found = violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} (${help}) at ${target.join(' ')}: ${failureSummary}`),
  );
  expect(found, what).toEqual([]);
}
