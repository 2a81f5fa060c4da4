import type { Page, Response } from 'playwright-core';
import { expect, test } from 'vitest';
import { openQueue } from '../../src/index.ts';
import { executable, writeFiles } from '../support/root.ts';
import { openPage } from '../support/web/browser.ts';
import { brokenImport, startDashboard, writeHistory } from '../support/web/dashboard.ts';

/** A site with scripts, a failed run, a handler and a failed job. */
async function makeSite() {
  const { root, log } = await writeHistory({ failing: { 'hourly/import-orders': brokenImport } });
  writeFiles(root, { 'jobs/queue/export.sh': executable('#!/bin/sh\nexit 0\n') });
  const queue = await openQueue({ root });
  const job = await queue.add('export', { customer: 4711 });
  await queue.fail((await queue.claim('export')) ?? 0, { reason: 'no disk' });
  await queue.close();
  const db = await log.store.queries();
  const run = await db.selectFrom('runs').select('id').where('outcome', '=', 'failed').executeTakeFirstOrThrow();
  return { root, job: Number(job), run: run.id };
}

type Asked = Pick<Response, 'url'>;

/** What a page asks the server, besides the stream of changes. */
function listen(page: Page) {
  const answers: Response[] = [];
  let open = 0;
  const pathOf = (asked: Asked): string | null => {
    const { pathname } = new URL(asked.url());
    return pathname.startsWith('/api/') && pathname !== '/api/events' ? pathname.replace('/api/', '') : null;
  };
  const count = (by: 1 | -1) => (request: Asked) => {
    if (pathOf(request) !== null) open += by;
  };
  page.on('request', count(1)).on('requestfinished', count(-1)).on('requestfailed', count(-1));
  page.on('response', (answer) => {
    if (pathOf(answer) !== null) answers.push(answer);
  });
  return {
    /**
     * How often each question was asked at one version of the log, once nothing is under way and nothing follows from
     * an answer. By time alone there is another version now and then.
     */
    settled: async (least: number): Promise<Readonly<Record<string, number>>> => {
      await expect.poll(() => answers.length, { timeout: 60_000 }).toBeGreaterThanOrEqual(least);
      for (let quiet = 0; quiet < 10; quiet = open === 0 ? quiet + 1 : 0) {
        await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 30)))');
      }
      const asked = answers.splice(0).map((answer) => {
        const path = decodeURIComponent(pathOf(answer) as string);
        return { path, version: answer.headers()['x-version'] };
      });
      const byPath = Map.groupBy(asked, ({ path }) => path);
      const most = (all: typeof asked) =>
        Math.max(...[...Map.groupBy(all, ({ version }) => version).values()].map(({ length }) => length));
      return Object.fromEntries([...byPath].map(([path, all]) => [path, most(all)]));
    },
  };
}

/** Each with its questions, and how often they are asked: lists of two kinds are two questions. */
const pages: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  '/': { overview: 1, failures: 1 },
  '/scripts': { overview: 1 },
  '/scripts/hourly/import-orders': { 'scripts/hourly/import-orders': 1, runs: 2 },
  '/runs': { runs: 1 },
  '/runs/RUN': { 'runs/RUN': 1 },
  '/queue': { queue: 1, jobs: 1 },
  '/jobs/JOB': { 'jobs/JOB': 1 },
  '/workers': { workers: 1 },
  '/activity': { activity: 1 },
  '/metrics': { 'metrics/6h': 1 },
  '/incidents': { incidents: 2 },
  '/next': { next: 1 },
  '/settings': { settings: 1 },
};

test('each page asks once for what it shows and once for how the site stands, and so after a change', async () => {
  const { root, job, run } = await makeSite();
  const { url } = await startDashboard(root);
  const queue = await openQueue({ root });
  for (const [template, questions] of Object.entries(pages)) {
    const named = (text: string): string => text.replace('RUN', String(run)).replace('JOB', String(job));
    const own = Object.fromEntries(Object.entries(questions).map(([path, times]) => [named(path), times]));
    const address = named(template);
    const wanted = { ...own, status: 1 };
    const count = Object.values(wanted).reduce((sum, times) => sum + times, 0);
    // Asked for once, whatever changes: the run has ended.
    const once = { session: 1, ...(template === '/runs/RUN' && { [`runs/${run}/output`]: 1 }) };
    const page = await openPage('about:blank');
    const heard = listen(page);
    await page.goto(`${url}#${address}`);
    const atFirst = { ...wanted, ...once };
    expect({ address, asked: await heard.settled(count) }).toEqual({ address, asked: atFirst });
    await queue.add('export', { after: address }, { runAt: '+2 hours' });
    expect({ address, asked: await heard.settled(count) }).toEqual({ address, asked: wanted });
    await page.context().close();
  }
  await queue.close();
});
