import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { inRoot } from '../support/command.ts';
import { lookIntoLog } from '../support/log.ts';
import { openPage } from '../support/web/browser.ts';
import { startDashboard } from '../support/web/dashboard.ts';
import { makeHostileRoot } from './hostile-root.ts';

/** What took effect of what was only to be shown. */
interface Seen {
  readonly ran: unknown;
  /** Of the policy of the page, which refused something. */
  readonly violations: readonly string[];
  /** Elements and attributes that the page itself never has. */
  readonly foreign: readonly string[];
}

/** Before any script of the page. */
const watch = `globalThis.violations = [];
document.addEventListener('securitypolicyviolation', (event) =>
  violations.push(event.effectiveDirective + ' ' + event.blockedURI));`;

const look = `(() => {
  const ownIcon = 'head > link[rel=icon][href^="data:image/svg+xml,"]:first-of-type';
  const elements = 'iframe, object, embed, base, link, body img, body style, form[action], [srcdoc]';
  const handlers = '[onerror], [onload], [onmouseover], [onfocus], [onbegin]';
  const isCode = (element) => /^\\s*(javascript|data|vbscript):/i.test(element.getAttribute('href') ?? element.getAttribute('src') ?? '');
  const found = [...document.querySelectorAll(elements + ', ' + handlers)];
  const linked = [...document.querySelectorAll('[href], [src]')].filter(isCode);
  return {
    ran: globalThis.__xss ?? null,
    violations,
    foreign: [...found, ...linked].filter((element) => !element.matches(ownIcon)).map((element) => element.outerHTML.slice(0, 200)),
  };
})()`;

/** A browser in which nothing may happen but what the page itself does. */
async function openWatched(allowed: readonly string[]): Promise<{ readonly page: Page; readonly strange: string[] }> {
  const page = await openPage('about:blank');
  const strange: string[] = [];
  page.on('dialog', (dialog) => {
    strange.push(`dialog ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    // The icon of the tab.
    const isOwn = [...allowed, 'data:image/svg+xml,'].some((start) => request.url().startsWith(start));
    if (!isOwn || /\/xss?\b/.test(request.url())) strange.push(`request ${request.url()}`);
  });
  page.on('popup', () => strange.push('popup'));
  await page.addInitScript(watch);
  return { page, strange };
}

const source = readFileSync(join(import.meta.dirname, '../../src/dashboard/page/pages/pages.ts'), 'utf8');
const entries = [...source.matchAll(/^ {2}\{(?:.+|\n[\s\S]+?\n {2})\},$/gm)].map(([entry]) => ({
  path: /path: '([^']+)'/.exec(entry)?.[1] as string,
  hasAll: /\bView:/.test(entry),
  hasOne: /\bOneView:/.test(entry),
}));
if (entries.length !== source.match(/\bpath: '/g)?.length)
  throw new Error('There are pages that this test does not see.');

/** The addresses of all pages, and of what each of them can show one of. */
function addressesIn(root: string, scripts: readonly string[]): string[] {
  const ids = (table: string) =>
    lookIntoLog(root, (log) => log.all<{ id: number }>(`select id from ${table} order by id`)).map(({ id }) => id);
  const items: Readonly<Record<string, readonly (string | number)[]>> = {
    '/scripts': scripts,
    '/runs': ids('runs').filter((id) => id < 6 || id % 16 === 0),
    '/jobs': ids('jobs where tier is null').filter((id) => id < 10 || id % 16 === 0),
  };
  const encode = (item: string | number) => String(item).split('/').map(encodeURIComponent).join('/');
  return entries.flatMap(({ path, hasAll, hasOne }) => {
    const of = hasOne ? items[path] : [];
    if (of === undefined) throw new Error(`This test does not know what ${path} shows one of.`);
    return [...(hasAll ? [`#${path}`] : []), ...of.map((item) => `#${path}/${encode(item)}`)];
  });
}

/** Goes everywhere; what took effect anywhere, and what was to be read. */
async function visit(page: Page, url: string, addresses: readonly string[]) {
  const wrong: Record<string, Seen> = {};
  const shown: string[] = [];
  const unread: string[] = [];
  await page.goto(url);
  for (const address of addresses) {
    await page.evaluate(`location.hash = ${JSON.stringify(address)}`);
    await page.locator('main h1').waitFor();
    await page.locator('main:not(:has([aria-busy=true], .loading))').waitFor();
    const seen = (await page.evaluate(look)) as Seen;
    if (seen.ran !== null || seen.violations.length > 0 || seen.foreign.length > 0) wrong[address] = seen;
    const text = await page.locator('main').innerText();
    if (text.includes('could not be read')) unread.push(`${address} ${text.slice(0, 300)}`);
    shown.push(text);
  }
  return { wrong, shown: shown.join('\n'), unread };
}

test('names, outputs, errors and data take effect in no page, live or in a file', async () => {
  const { root, scripts } = await makeHostileRoot();
  const addresses = addressesIn(root, scripts);
  const file = join(root, 'report.html');
  const made = await inRoot(root, 'report', '--html', file, '--with-output');
  expect(made.stderr).toBe('');
  const { url } = await startDashboard(root);
  const starts = [url, pathToFileURL(file).href];
  const { page, strange } = await openWatched(starts);
  for (const start of starts) {
    const { wrong, shown, unread } = await visit(page, start, addresses);
    expect(wrong).toEqual({});
    expect(strange).toEqual([]);
    expect(unread).toEqual([]);
    // Shown as what it is.
    for (const script of scripts) expect(shown).toContain(script);
  }
}, 120_000);
