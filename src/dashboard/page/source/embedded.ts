import { signal } from '@preact/signals';

/** What a static report carries within it: answers of the API, all of one moment. */
export interface Embedded {
  /** UTC, ISO 8601. */
  readonly madeAt: string;
  /** Whether it has what scripts have printed and thrown, and what jobs carry. */
  readonly isWithOutput: boolean;
  /** Older runs were left out for its size; null: none that it would have held. */
  readonly runsSince: string | null;
  /** By path and query. */
  readonly answers: Readonly<Record<string, unknown>>;
  readonly problems: Readonly<Record<string, unknown>>;
  /** Newest first. */
  readonly runs: readonly Run[];
  readonly details: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

interface Run {
  readonly id: number;
  readonly script: string;
  readonly tier: string | null;
  readonly outcome: string | null;
  readonly startedAt: string | null;
}

const packed = document.getElementById('data')?.textContent ?? '';

/** What the file holds; null: there is a server. */
export const embedded: Promise<Embedded> | null = packed === '' ? null : unpack(packed);

/** From when on a report has runs, where older ones were left out for its size. */
export const runsSince = signal<string | null>(null);
embedded?.then((found) => {
  runsSince.value = found.runsSince;
});

async function unpack(text: string): Promise<Embedded> {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return await new Response(unpacked).json();
}

/** Answers as the server would have at that moment, as far as the file goes. */
export async function answerFromPage(request: Request): Promise<Response> {
  const data = (await embedded) as Embedded;
  const { pathname, searchParams } = new URL(request.url);
  const path = decodeURIComponent(pathname);
  const answer = path === '/api/runs' ? findRuns(data, searchParams) : find(data, path, searchParams);
  if (typeof answer === 'string') return new Response(answer);
  if (answer !== undefined) return Response.json(answer);
  const problem = data.problems[path] ?? { type: 'about:blank', title: 'Not found', status: 404, detail: NOT_HERE };
  return Response.json(problem, { status: 404 });
}

const NOT_HERE = 'This report does not hold it. The command line shows all that was recorded.';

function find({ answers, details }: Embedded, path: string, query: URLSearchParams): unknown {
  // Its days are those of the server's zone, of the year in which it was made.
  if (path === '/api/calendar') return answers[`${path}?script=${query.get('script')}`];
  const exact = answers[`${path}?${query}`];
  if (exact !== undefined) return exact;
  const run = /^\/api\/runs\/(\d+)/.exec(path)?.[1];
  if (run !== undefined) return details[run]?.[path];
  return narrow(answers[path], query);
}

/** What narrows a list by the value of a field. */
const fields = ['state', 'name', 'event', 'worker', 'job'] as const;

function narrow(answer: unknown, query: URLSearchParams): unknown {
  const { items } = Object(answer);
  if (!Array.isArray(items)) return answer;
  const wanted = fields.flatMap((field) => (query.has(field) ? [[field, query.getAll(field).join().split(',')]] : []));
  const isWanted = (item: Record<string, unknown>) =>
    wanted.every(([field, values]) => (values as string[]).includes(String(item[field as string])));
  return { ...Object(answer), items: items.filter(isWanted).slice(0, limitOf(query)), next: null };
}

function findRuns({ runs }: Embedded, query: URLSearchParams) {
  const script = query.get('script');
  const tier = query.get('tier');
  const outcomes = query.getAll('outcome').join().split(',').filter(Boolean);
  const [since, until] = [query.get('since'), query.get('until')].map((text) =>
    text === null ? Number.NaN : Date.parse(text),
  );
  const found = runs.filter((run) => {
    if (script !== null && run.script !== script) return false;
    if (tier !== null && run.tier !== tier) return false;
    if (outcomes.length > 0 && !outcomes.includes(run.outcome ?? 'running')) return false;
    const at = Date.parse(run.startedAt ?? '');
    return !(at < (since ?? Number.NaN)) && !(at > (until ?? Number.NaN));
  });
  return { items: found.slice(0, limitOf(query)), next: null };
}

function limitOf(query: URLSearchParams): number {
  return Number(query.get('limit') ?? Number.POSITIVE_INFINITY);
}
