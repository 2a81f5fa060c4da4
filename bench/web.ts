import { execFile, spawn } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { get } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { openQueue as OpenQueue } from '../src/index.ts';
import type { Bench, Part } from './bench.ts';
import { alternate, median, quantile, rssOf } from './measure.ts';
import { installPeers, startRedis } from './peers.ts';
import { ask } from './queue/contender.ts';
import { rootWithRuns } from './report/generate.ts';
import { handlers, makeRoot, runner } from './root.ts';
import { measureAnswers, readPages, readQuestions } from './web/answers.ts';
import { begin, type Server, serve } from './web/server.ts';

/** `runner web`: from its start to its first answer, answers under load, many viewers, the page itself. */
export const webParts: Readonly<Record<string, Part>> = { start, resident, answers, viewers, page, lists };

const RUNS = 1_000_000;
const JOBS = 60_000;

async function start(bench: Bench): Promise<void> {
  const root = makeRoot(bench.disk, { 'hourly/a.sh': '' });
  const bare = async (): Promise<number> => {
    const startMs = performance.now();
    await promisify(execFile)(process.execPath, ['empty.cjs'], { cwd: root });
    return performance.now() - startMs;
  };
  const web = async (): Promise<number> => {
    const server = await serve(root);
    await server.stop();
    return server.readyMs;
  };
  const times = await alternate(bench.rounds(15), { 'node empty.cjs': bare, 'runner web, to its first page': web });
  bench.table(
    ['', 'ms'],
    Object.entries(times).map(([name, all]) => [name, median(all).toFixed(0)]),
  );
  const [node = [], started = []] = Object.values(times);
  bench.atMost('the server starts, beyond bare Node, ms', median(started) - median(node), 150);
}

/** Long enough for a server that was asked to give memory back. */
const REST_MS = 25_000;

/** Memory of a server that waits for its first viewer, and of one whose viewers have left. */
async function resident(bench: Bench): Promise<void> {
  const idle = await begin(makeRoot(bench.disk, { 'hourly/a.sh': '' }));
  await wait(3_000);
  const before = memoryOf(idle.pid);
  await idle.stop();
  const root = await rootOf(bench);
  const questions = readQuestions(root);
  const asked = await serve(root);
  for (const question of questions) {
    await (await fetch(new URL(question, `${asked.url}api/`), { headers: asked.headers })).text();
  }
  const busy = memoryOf(asked.pid);
  await wait(REST_MS);
  const after = memoryOf(asked.pid);
  await asked.stop();
  const told = { 'before anybody asks': before, [`after ${questions.length} questions`]: busy, 'at rest': after };
  bench.table(
    ['memory', 'RSS, MB', 'PSS, MB'],
    Object.entries(told).map(([when, { rss, pss }]) => [when, rss.toFixed(0), pss.toFixed(0)]),
  );
  bench.atMost('memory before anybody asks, MB', before.rss, 70);
  bench.atMost(`memory after all pages of ${RUNS} runs, at rest, MB`, after.rss, 110);
}

/** Megabytes: resident, and with pages that several processes share counted in part. */
function memoryOf(pid: number) {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1');
  const of = (field: string): number =>
    (Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(rollup)?.[1]) * 1024) / 1e6;
  return { rss: of('Rss'), pss: of('Pss') };
}

/** Logs with so many runs of scripts, and the jobs. */
const logs = { '36,000 runs': 36_000, '1,000,000 runs': RUNS } as const;

const rootOf = (bench: Bench): Promise<string> => rootWithRuns(bench, RUNS, JOBS);

/** Questions that are asked again and again while nothing changes. */
const repeated = ['overview', 'scripts', 'runs?limit=50', 'jobs?limit=50', 'metrics/6h?since=7d'];

async function answers(bench: Bench): Promise<void> {
  for (const [size, runs] of Object.entries(logs)) {
    await measureAnswers(bench, await rootWithRuns(bench, runs, JOBS), size);
  }
  const server = await serve(await rootOf(bench));
  const rows: string[][] = [];
  for (const question of repeated) {
    const { perSecond, p50, p95 } = await shoot(`${server.url}api/${question}`, bench.scaled(5000), server.headers);
    rows.push([question, perSecond.toFixed(0), p50.toFixed(1), p95.toFixed(1)]);
    bench.atMost(`${question}, asked by 10 at once, p95 in ms`, p95, 50);
  }
  bench.table(['the same question', 'a second by 10', 'p50 ms', 'p95 ms'], rows);
  await server.stop();
}

interface Load {
  readonly perSecond: number;
  readonly p50: number;
  readonly p95: number;
}

/** By autocannon, in a process of its own; it counts 97.5 % where 95 % are asked for. */
async function shoot(url: string, amount: number, headers: Record<string, string> = {}): Promise<Load> {
  const cannon = createRequire(import.meta.url).resolve('autocannon');
  const sent = Object.entries(headers).flatMap(([name, value]) => ['--headers', `${name}=${value}`]);
  const args = [cannon, '--json', '--connections', '10', '--amount', String(amount), ...sent, url];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: 1e8 });
  const { requests, latency, non2xx, errors, duration } = JSON.parse(stdout);
  if (non2xx > 0 || errors > 0) throw new Error(`${url}: ${non2xx} refusals, ${errors} errors`);
  return { perSecond: requests.total / duration, p50: latency.p50, p95: latency.p97_5 };
}

const VIEWERS = 100;
const WATCH_MS = 30_000;

/**
 * Viewers of all pages, each of which asks all of its questions again after each change, while jobs are added and
 * scripts run. Somebody else asks what none of them asks, and opens the page.
 */
async function viewers(bench: Bench): Promise<void> {
  const root = await rootWithRuns(bench, logs['36,000 runs'], JOBS);
  const server = await serve(root);
  const counts = { changes: 0, answers: 0 };
  const pages = readPages(root);
  const ends = Array.from({ length: VIEWERS }, (_, index) => follow(server, pages[index % pages.length] ?? [], counts));
  await wait(2000);
  const [cpu, memory] = [cpuMsOf(server.pid), rssOf(server.pid)[0] ?? Number.NaN];
  const startMs = performance.now();
  const work = keepWorking(root);
  const times = await askNew(server, Math.max(3000, bench.scaled(WATCH_MS)));
  const tookMs = performance.now() - startMs;
  const share = (cpuMsOf(server.pid) - cpu) / tookMs;
  const growth = ((rssOf(server.pid)[0] ?? Number.NaN) - memory) / 1024 / 1024;
  const visible = await openings(server, bench.rounds(5));
  await work.stop();
  bench.say(`${counts.changes} changes told, ${counts.answers} answers in ${(tookMs / 1000).toFixed(1)} s`);
  bench.say(
    `${times.length} new questions, p50 ${median(times).toFixed(1)} ms, p95 ${quantile(times, 0.95).toFixed(1)}`,
  );
  bench.say(`${(memory / 1024 / 1024).toFixed(0)} MB before, ${growth.toFixed(0)} MB more after`);
  for (const end of ends) end();
  await server.stop();
  bench.atMost(`${VIEWERS} viewers, a new question, p95 in ms`, quantile(times, 0.95), 50);
  bench.atMost(`${VIEWERS} viewers, the page is there and answers, ms`, median(visible), 300);
  bench.atMost(`${VIEWERS} viewers, share of a core`, share, 1);
  bench.atMost(`${VIEWERS} viewers, memory that comes on top, MB`, growth, 50);
}

/** Adds a job each 100 ms, and runs the scripts of a tier every few seconds. */
function keepWorking(root: string) {
  let isOver = false;
  const built = new URL('../dist/index.mjs', import.meta.url).href;
  const add = async (): Promise<void> => {
    const { openQueue } = (await import(built)) as { readonly openQueue: typeof OpenQueue };
    const queue = await openQueue({ root });
    for (; !isOver; await wait(100)) await queue.add('mail/welcome', {});
    await queue.close();
  };
  const run = async (): Promise<void> => {
    // Some of its scripts fail.
    const pass = () => promisify(execFile)(process.execPath, [runner, '15min'], { cwd: root }).catch(() => undefined);
    for (; !isOver; await wait(3000)) await pass();
  };
  const ends = [add(), run()];
  return {
    stop: async () => {
      isOver = true;
      await Promise.all(ends);
    },
  };
}

/** The times of questions that nobody has asked before. */
async function askNew({ url, headers }: Server, forMs: number): Promise<readonly number[]> {
  const times: number[] = [];
  for (const startMs = performance.now(); performance.now() - startMs < forMs; await wait(50)) {
    const count = times.length + 101;
    const questions = ['runs?limit=', 'jobs?count=true&limit=', 'activity?limit=', 'workers?limit='];
    const question = questions.map((each) => `${each}${count}`)[count % questions.length];
    const askedMs = performance.now();
    await (await fetch(`${url}api/${question}`, { headers })).arrayBuffer();
    times.push(performance.now() - askedMs);
  }
  return times;
}

/** @param page its questions */
function follow(
  { url, headers }: Server,
  page: readonly string[],
  counts: { changes: number; answers: number },
): () => void {
  let isAsking = false;
  const ask = async (question: string, version: string): Promise<void> => {
    const answer = await fetch(`${url}api/${question}`, { headers: { ...headers, 'x-version': version } });
    await answer.arrayBuffer();
    counts.answers += 1;
  };
  const request = get(`${url}api/events`, { headers }, (response) => {
    response.setEncoding('utf8').on('data', (text: string) => {
      const version = /^data: (.+)$/m.exec(text)?.[1];
      if (version === undefined) return;
      counts.changes += 1;
      if (isAsking) return;
      isAsking = true;
      void Promise.allSettled(page.map((question) => ask(question, version))).finally(() => {
        isAsking = false;
      });
    });
    response.on('error', () => undefined);
  });
  request.on('error', () => undefined);
  return () => request.destroy();
}

/** Ticks are of 10 ms on every Linux that hosts have. */
function cpuMsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** From the start of the navigation until all of the first page stands there, and answers. */
const watch = `globalThis.readyAt = new Promise((resolve) => {
  const look = () => {
    if (document.querySelector('main h1') !== null && document.querySelector('main .loading') === null) resolve(performance.now());
    else requestAnimationFrame(look);
  };
  look();
})`;

async function page(bench: Bench): Promise<void> {
  const packed = statSync(join(import.meta.dirname, '../dist/dashboard.html.gz')).size;
  bench.atMost('the page, gzipped, KB', packed / 1024, 100);
  const server = await serve(await rootOf(bench));
  const times = await openings(server, bench.rounds(11));
  await server.stop();
  bench.say(
    `the overview stands after ${median(times).toFixed(0)} ms, at the slowest after ${Math.max(...times).toFixed(0)} ms`,
  );
  bench.atMost('the page is there and answers, ms', median(times), 300);
}

/** How long each opening of the page takes in Chromium, in milliseconds. */
async function openings(server: Server, rounds: number): Promise<readonly number[]> {
  const { chromium } = await import('playwright-core');
  const { default: packaged } = await import('@sparticuz/chromium');
  packaged.setGraphicsMode = false;
  const options = { args: packaged.args, executablePath: await packaged.executablePath(), headless: true };
  const browser = await chromium.launch(options);
  const context = await browser.newContext({ locale: 'en-GB' });
  const [name = '', value = ''] = server.headers.cookie.split('=');
  await context.addCookies([{ name, value, url: server.url }]);
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const tab = await context.newPage();
    await tab.addInitScript(watch);
    await tab.goto(server.url);
    times.push((await tab.evaluate('readyAt')) as number);
    await tab.close();
  }
  await browser.close();
  return times;
}

/** The list of waiting jobs beside bull-board's. */
async function lists(bench: Bench): Promise<void> {
  bench.say('Cronicle is not on npm; its list page is NOT MEASURED.');
  const what = 'the list of jobs, of bull-board’s, p50';
  const peers = installPeers();
  const redis = peers === null ? null : await startRedis(join(bench.disk, 'redis-web'));
  if (peers === null || redis === null)
    return bench.notMeasured(what, '≤ 1', 'redis-server or the peers are not there');
  const board = await startBoard(peers, redis.port, bench.scaled(JOBS));
  const root = makeRoot(bench.disk, handlers);
  await ask('ours', 'bulk', root, bench.scaled(JOBS));
  const server = await serve(root);
  const amount = bench.scaled(2000);
  const figures = await alternate(bench.rounds(5), {
    'runner web: api/jobs?limit=10': () => shoot(`${server.url}api/jobs?limit=10`, amount, server.headers),
    'bull-board: api/queues': () =>
      shoot(`${board.url}api/queues?activeQueue=bench&status=latest&page=1&jobsPerPage=10`, amount),
  });
  await server.stop();
  board.stop();
  await redis.stop();
  const rows = Object.entries(figures).map(([name, loads]) => {
    const of = (field: keyof Load) => median(loads.map((load) => load[field]));
    return [name, of('perSecond').toFixed(0), of('p50').toFixed(1), of('p95').toFixed(1)];
  });
  bench.table(['list of 10 of the jobs', 'a second by 10', 'p50 ms', 'p95 ms'], rows);
  const [ours = [], theirs = []] = Object.values(figures).map((loads) => loads.map(({ perSecond }) => perSecond));
  bench.atMost(what.replace('p50', 'time for one answer'), median(theirs) / median(ours), 1);
}

async function startBoard(peers: string, port: number, jobs: number) {
  const program = join(import.meta.dirname, 'web-board.cjs');
  const child = spawn(process.execPath, [program, peers, String(port), String(jobs)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const url = await new Promise<string>((resolve) => child.stdout.setEncoding('utf8').once('data', resolve));
  return { url: url.trim(), stop: () => void child.kill() };
}
