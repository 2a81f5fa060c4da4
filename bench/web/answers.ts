import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import type { Bench } from '../bench.ts';
import { quantile } from '../measure.ts';
import { questionsOf, YEAR_OF_HOURS } from './questions.ts';
import { type Server, serve } from './server.ts';

/** Each question of each page about a log that has changed since the last one, so that no answer is a known one. */
export async function measureAnswers(bench: Bench, root: string, size: string): Promise<void> {
  const questions = readQuestions(root);
  const log = openLog(root);
  const change = changeOf(log);
  const server = await serve(root);
  await tellUnasked(bench, server, questions);
  const figures = new Map<string, Figure[]>(questions.map((question) => [question, []]));
  for (let round = -WARM_UP; round < bench.rounds(ROUNDS); round += 1) {
    for (const [question, known] of figures) {
      change();
      const figure = await askOnce(server, question);
      if (round >= 0) known.push(figure);
    }
  }
  await server.stop();
  log.close();
  const rows = [...figures].map(([question, all]) => {
    const of = (field: keyof Figure, share: number) =>
      quantile(
        all.map((each) => each[field]),
        share,
      );
    bench.atMost(`${size}: ${question}, p95 in ms`, of('ms', 0.95), question === YEAR_OF_HOURS ? 80 : 50);
    return [question, of('ms', 0.5), of('ms', 0.95), of('cpuMs', 0.5), of('cpuMs', 0.95), of('kb', 0.5)].map(toText);
  });
  bench.table([`${size}: new question`, 'p50 ms', 'p95 ms', 'CPU p50', 'CPU p95', 'KB'], rows);
}

const ROUNDS = 60;
const WARM_UP = 3;

interface Figure {
  readonly ms: number;
  /** Of the server. */
  readonly cpuMs: number;
  /** Of the text that is sent, packed. */
  readonly kb: number;
}

const toText = (cell: string | number): string => (typeof cell === 'number' ? cell.toFixed(1) : cell);

/** What all pages ask. */
export function readQuestions(root: string): readonly string[] {
  return [...new Set(Object.values(questionsAbout(root)).flat())];
}

/** What each page asks that somebody may have open for long. */
export function readPages(root: string): readonly (readonly string[])[] {
  const { 'each page': always = [], search: _, programs: __, settings: ___, ...pages } = questionsAbout(root);
  return Object.values(pages).map((own) => [...always, ...own]);
}

function questionsAbout(root: string): Readonly<Record<string, readonly string[]>> {
  const log = openLog(root);
  const find = (sql: string): number => log.prepare(sql).pluck().get() as number;
  const script = '15min/s07';
  const run = find(`select max(runs.id) from runs join scripts on scripts.id = script_id where name = '${script}'`);
  const job = find(`select max(id) from jobs where state = 'failed' and tier is null`);
  log.close();
  return questionsOf({ script, run, job });
}

/** A waiting job becomes a little more urgent: by plain SQL, as PHP would write it. */
function changeOf(log: Sqlite.Database): () => void {
  const raise = log.prepare(`update jobs set priority = priority + 1 where id =
    (select max(id) from jobs where state = 'queued' and tier is null)`);
  return () => void raise.run();
}

function openLog(root: string): Sqlite.Database {
  return new Sqlite(join(root, '.runner/activity.db'));
}

async function askOnce({ pid, url, headers }: Server, question: string): Promise<Figure> {
  const [cpuMs, startMs] = [cpuMsOf(pid), performance.now()];
  const response = await fetch(new URL(question, `${url}api/`), { headers });
  const text = await response.text();
  const ms = performance.now() - startMs;
  if (!response.ok) throw new Error(`${question}: ${response.status} ${text}`);
  const kb = Number(response.headers.get('content-length') ?? text.length) / 1024;
  return { ms, cpuMs: cpuMsOf(pid) - cpuMs, kb };
}

/** Of all its threads, finer than the ticks of `stat`. */
function cpuMsOf(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const spent = (thread: string) =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'latin1').split(' ')[0]);
  return threads.reduce((sum, thread) => sum + spent(thread), 0) / 1e6;
}

/** A route that is added is measured, or named. */
async function tellUnasked(bench: Bench, { url, headers }: Server, questions: readonly string[]): Promise<void> {
  const { paths } = (await (await fetch(`${url}api/openapi.json`, { headers })).json()) as { readonly paths: object };
  const asked = questions.map((question) => new URL(question, 'http://a/api/').pathname);
  const isAsked = (path: string): boolean => {
    const pattern = new RegExp(`^${path.replace(/\{[^}]*\}/g, '.+')}$`);
    return asked.some((each) => pattern.test(each));
  };
  const unasked = Object.entries(paths).flatMap(([path, methods]) =>
    'get' in methods && !isAsked(path) ? [path] : [],
  );
  bench.say(`not asked: ${unasked.join(', ')}`);
}
