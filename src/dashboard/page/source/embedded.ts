import { signal } from '@preact/signals';
import { matchGlob } from '../../../system/base/glob.ts';

/** Contents of a static report: answers of the API, all of one moment. */
interface Embedded {
  /** UTC, ISO 8601. */
  readonly madeAt: string;
  /** When a pass should have written the next one, at the latest; null: no pass writes it. */
  readonly dueAt: string | null;
  /** Whether it has what scripts have printed and thrown, and what jobs carry. */
  readonly isWithOutput: boolean;
  /** Older runs were left out for its size; null: none that it would have held. */
  readonly runsSince: string | null;
  /** By path and query. */
  readonly answers: Readonly<Record<string, unknown>>;
  readonly problems: Readonly<Record<string, unknown>>;
  readonly runs: readonly Run[];
  /** There are further runs, which the report does not hold. */
  readonly areRunsCut: boolean;
  readonly details: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** Stands for the next page of a list that the report does not hold to its end. */
export const CUT = 'not in this report';

interface Run {
  readonly id: number;
  readonly script: string;
  readonly tier: string | null;
  readonly job: number | null;
  readonly outcome: string | null;
  readonly startedAt: string | null;
  readonly summary?: string | null;
}

const packed = document.getElementById('data')?.textContent ?? '';

/** Contents of this file; null: there is a server. */
export const embedded: Promise<Embedded> | null = packed === '' ? null : unpack(packed);

/** When the report was made and should be replaced, and what it holds; null: a server answers. */
export const report = signal<Embedded | null>(null);
embedded?.then((found) => {
  report.value = found;
});

/** Whether there is a page of this run, or of this job: a report has those of a few. */
export function hasPage(kind: 'runs' | 'jobs', id: number): boolean {
  if (report.value === null) return true;
  return kind === 'runs' ? id in report.value.details : `/api/jobs/${id}` in report.value.answers;
}

async function unpack(text: string): Promise<Embedded> {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return await new Response(unpacked).json();
}

/**
 * Answers as the server did at that moment. Runs alone are looked through here: what else was not asked then is refused,
 * so that no list shows other rows than its filters say.
 */
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
  const run = /^\/api\/runs\/(\d+)/.exec(path)?.[1];
  if (run !== undefined) return details[run]?.[path];
  const asked = [...query].filter(([name]) => name !== 'limit' && name !== 'cursor');
  const answer = answers[asked.length === 0 ? path : `${path}?${asked.map((each) => each.join('=')).join('&')}`];
  const { items, next } = Object(answer);
  return Array.isArray(items) ? { ...Object(answer), ...pageOf(items, query, next !== null) } : answer;
}

function findRuns({ runs, areRunsCut, madeAt }: Embedded, query: URLSearchParams) {
  const script = query.get('script');
  const tier = query.get('tier');
  const job = query.get('job');
  const outcomes = query.getAll('outcome').join().split(',').filter(Boolean);
  const search = query.get('search')?.toLowerCase();
  const untilMs = readTime(query.get('until') ?? '', Date.parse(madeAt));
  const sinceMs = readTime(query.get('since') ?? '', Date.parse(madeAt));
  const found = runs.filter((run) => {
    if (script !== null && !matchGlob(script, run.script)) return false;
    if (search && !textOf(run).includes(search) && String(run.id) !== search) return false;
    if (tier !== null && run.tier !== tier) return false;
    if (job !== null && String(run.job) !== job) return false;
    if (outcomes.length > 0 && !outcomes.includes(run.outcome ?? 'running')) return false;
    const startMs = Date.parse(run.startedAt ?? '');
    return !(startMs < sinceMs || startMs >= untilMs);
  });
  // As a server answers: a run that was taken into the log late has a higher number than those after it.
  return pageOf(found.toSorted(byStart), query, areRunsCut);
}

/** The text of a run that a search reads: its name and, if it failed, its error. */
function textOf({ script, summary }: Run): string {
  return `${script}\n${summary ?? ''}`.toLowerCase();
}

function byStart(one: Run, other: Run): number {
  return (other.startedAt ?? '').localeCompare(one.startedAt ?? '') || other.id - one.id;
}

const units: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** `24h`: so long before the report was made; else an instant. NaN: neither. */
function readTime(text: string, madeAtMs: number): number {
  const [, count, unit = ''] = /^(\d+)([mhd])$/.exec(text) ?? [];
  return count === undefined ? Date.parse(text) : madeAtMs - Number(count) * (units[unit] ?? Number.NaN);
}

/** As many as are asked for, from the place on that the last page named. */
function pageOf(items: readonly unknown[], query: URLSearchParams, isCut: boolean) {
  const from = Number(query.get('cursor') ?? 0);
  const until = from + Number(query.get('limit') ?? Number.POSITIVE_INFINITY);
  return { items: items.slice(from, until), next: until < items.length ? String(until) : isCut ? CUT : null };
}
