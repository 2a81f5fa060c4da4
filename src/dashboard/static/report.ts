import { gzipSync } from 'node:zlib';
import { createApi } from '../api/api.ts';
import type { Api } from '../api/route.ts';
import { type BuiltPage, readBuiltPage } from '../built-page.ts';
import { openSite, type Site } from '../site.ts';
import { leaveOut } from './left-out.ts';

export interface ReportPlace {
  readonly site: Pick<Site, 'root' | 'env' | 'version' | 'now'>;
  /** The folder of the built command and its page. */
  readonly distFolder: string;
  /** Also what scripts have printed and thrown, and what jobs carry. Default: all that is left out. */
  readonly isWithOutput?: boolean;
  /** Default 2 MB. */
  readonly mostBytes?: number;
}

export interface StaticReport {
  readonly html: string;
  /** Older runs were left out, so that the file stays small; null: none that it would have held. */
  readonly runsSince: string | null;
}

/** By which a file is known as one that may be replaced. */
export const REPORT_MARK = '<meta name="generator" content="folder-runner report">';

const MEGABYTE = 1024 * 1024;

/** How many of the newest runs it holds unless they are too many bytes; of each script at least so many. */
const MOST_RUNS = 10_000;
const LEAST_RUNS = 20;

/** What the page of metrics can be asked for. */
const spans = ['1h?since=6h', '1h?since=24h', '6h?since=7d', '1d?since=30d', '1d?since=90d', '1w?since=365d'];

/** So many scripts have calendars and charts of their metrics. */
const MOST_IN_DETAIL = 100;

/** How many jobs have their details, and how many runs: of those that failed, and of all. */
const DETAILS = 50;

/** What a page asks for that is about the whole site. */
const general = [
  ...['overview', 'status', 'tiers', 'scripts', 'incidents', 'health', 'pauses', 'mutes', 'workers', 'schedule'],
  ...['activity?limit=200', 'jobs?limit=200', 'jobs/counts', 'jobs/totals'],
].map((route) => `/api/${route}`);

/**
 * The dashboard as one file of HTML, with the answers of one moment in it: it needs no server and no network. What
 * scripts have said is left out unless it is asked for; settings always are.
 *
 * @throws {PackageIncomplete} where the package lacks the page
 */
export async function makeStaticReport(place: ReportPlace): Promise<StaticReport> {
  const { distFolder, isWithOutput = false, mostBytes = 2 * MEGABYTE } = place;
  const page = readBuiltPage(distFolder);
  const site = openSite({ ...place.site, distFolder });
  const asked = { ...site, knownTiers: once(site.knownTiers), lookIntoJobs: once(site.lookIntoJobs) };
  try {
    const answers = await askAll(createApi(asked, { name: 'report', permission: 'read' }), isWithOutput);
    const madeAt = new Date(site.now()).toISOString();
    return fitInto(page, { madeAt, isWithOutput, ...answers }, mostBytes);
  } finally {
    await site.close();
  }
}

/** It does not change while the report is made, as far as the report tells. */
function once<T>(look: () => T): () => T {
  let found: { readonly value: T } | undefined;
  return () => {
    found ??= { value: look() };
    return found.value;
  };
}

/** What the page's `embedded.ts` reads. */
interface Answers {
  /** By path and query. */
  readonly answers: Readonly<Record<string, unknown>>;
  /** RFC 9457, by path and query: what could not be answered. */
  readonly problems: Readonly<Record<string, unknown>>;
  /** Newest first; the page looks for those that it wants. */
  readonly runs: readonly Run[];
  /** What was asked of one run, by its number. */
  readonly details: Readonly<Record<number, Readonly<Record<string, unknown>>>>;
}

interface Embedded extends Answers {
  /** UTC, ISO 8601. */
  readonly madeAt: string;
  readonly isWithOutput: boolean;
}

interface Run {
  readonly id: number;
  readonly script: string;
  readonly outcome: string | null;
  readonly startedAt: string | null;
}

type Ask = (path: string) => Promise<unknown>;

async function askAll(api: Api, isWithOutput: boolean): Promise<Answers> {
  const answers: Record<string, unknown> = {};
  const problems: Record<string, unknown> = {};
  const ask: Ask = async (path) => {
    const response = await api.request(path);
    // It may have been removed meanwhile.
    if (response.status === 404) return undefined;
    if (!response.ok) {
      problems[keyOf(path)] = await response.json();
      return undefined;
    }
    if (!response.headers.get('content-type')?.includes('json')) return await response.text();
    const body: unknown = await response.json();
    return isWithOutput ? body : leaveOut(body);
  };
  const keep = async (path: string, shorten = (answer: unknown) => answer): Promise<void> => {
    const answer = await ask(path);
    if (answer !== undefined) answers[keyOf(path)] = shorten(answer);
  };
  for (const path of general) await keep(path);
  const scripts = scriptsIn(answers['/api/overview']);
  const isLarge = scripts.length > MOST_IN_DETAIL;
  for (const span of spans) await keep(`/api/metrics/${span}`, isLarge ? withoutScriptsBuckets : undefined);
  for (const script of scripts) {
    await keep(`/api/scripts/${script.split('/').map(encodeURIComponent).join('/')}`);
    if (!isLarge) await keep(`/api/calendar?script=${encodeURIComponent(script)}`);
  }
  for (const { id } of itemsOf<{ id: number }>(answers['/api/jobs']).slice(0, DETAILS)) await keep(`/api/jobs/${id}`);
  const runs = await askRuns(ask, scripts);
  return { answers, problems, runs, details: await askDetails(ask, runs, isWithOutput) };
}

/** A year in hours of 500 scripts would be 30 MB. */
function withoutScriptsBuckets(metrics: unknown): unknown {
  const { series } = metrics as { series: readonly { readonly kind: string }[] };
  return {
    ...Object(metrics),
    series: series.map((each) => (each.kind === 'script' ? { ...each, buckets: [] } : each)),
  };
}

async function askDetails(ask: Ask, runs: readonly Run[], isWithOutput: boolean): Promise<Answers['details']> {
  const details: Record<number, Record<string, unknown>> = {};
  for (const { id } of runsWithDetails(runs)) {
    const paths = [`/api/runs/${id}`, ...(isWithOutput ? [`/api/runs/${id}/output`] : [])];
    const found = await Promise.all(paths.map(async (path) => [path, await ask(path)] as const));
    details[id] = Object.fromEntries(found.filter(([, answer]) => answer !== undefined));
  }
  return details;
}

function itemsOf<Item>(answer: unknown): readonly Item[] {
  return (answer as { readonly items?: readonly Item[] } | undefined)?.items ?? [];
}

/** A name as it is, and no query but one that tells apart: the page makes the same of what it asks. */
function keyOf(path: string): string {
  return decodeURIComponent(path.replace(/\?limit=\d+$/, ''));
}

function scriptsIn(overview: unknown): readonly string[] {
  const { scripts } = (overview ?? { scripts: [] }) as { scripts: readonly { readonly script: string }[] };
  return scripts.map(({ script }) => script);
}

/** The newest of all, and of what runs too seldom to be among them. */
async function askRuns(ask: Ask, scripts: readonly string[]): Promise<Run[]> {
  const byId = new Map<number, Run>();
  const askPage = async (query: string): Promise<string | null> => {
    const answer = await ask(`/api/runs?${query}`);
    for (const run of itemsOf<Run>(answer)) byId.set(run.id, run);
    return (answer as { readonly next?: string } | undefined)?.next ?? null;
  };
  let next = await askPage('limit=500');
  while (next !== null && byId.size < MOST_RUNS) next = await askPage(`limit=500&cursor=${encodeURIComponent(next)}`);
  if (next !== null) {
    const counts = new Map(scripts.map((script) => [script, 0]));
    for (const { script } of byId.values()) counts.set(script, (counts.get(script) ?? 0) + 1);
    const seldom = scripts.filter((script) => (counts.get(script) ?? 0) < LEAST_RUNS);
    for (const script of seldom) await askPage(`script=${encodeURIComponent(script)}&limit=${LEAST_RUNS}`);
  }
  return [...byId.values()].sort((one, other) => other.id - one.id);
}

function runsWithDetails(runs: readonly Run[]): ReadonlySet<Run> {
  const failed = runs.filter(({ outcome }) => outcome !== null && outcome !== 'succeeded' && outcome !== 'released');
  return new Set([...failed.slice(0, DETAILS), ...runs.slice(0, DETAILS)]);
}

/** The oldest runs go first, and with them what is told of each. */
function fitInto(page: BuiltPage, embedded: Embedded, mostBytes: number): StaticReport {
  for (let count = embedded.runs.length; ; count = Math.floor(count / 2)) {
    const runs = embedded.runs.slice(0, count);
    const isShortened = count < embedded.runs.length;
    const details = Object.fromEntries(
      runs.flatMap(({ id }) => (embedded.details[id] ? [[id, embedded.details[id]]] : [])),
    );
    const runsSince = isShortened ? (runs.at(-1)?.startedAt ?? embedded.madeAt) : null;
    const html = embed(page, { ...embedded, runs, details, runsSince });
    if (count === 0 || Buffer.byteLength(html) <= mostBytes) return { html, runsSince };
  }
}

/**
 * Base64 has no character that HTML or a script could take for something else. Compressed, as ten times the runs fit
 * into the same bytes.
 */
function embed({ html, sources }: BuiltPage, data: Embedded & { readonly runsSince: string | null }): string {
  const policy = [...sources, 'img-src data:', "base-uri 'none'", "form-action 'none'"].join('; ');
  const head = [
    REPORT_MARK,
    `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    '<meta name="referrer" content="no-referrer">',
    '<meta name="robots" content="noindex">',
  ];
  const packed = gzipSync(JSON.stringify(data)).toString('base64');
  const start = html.indexOf('<head>') + '<head>'.length;
  const end = html.lastIndexOf('</body>');
  const script = `<script type="application/octet-stream" id="data">${packed}</script>\n`;
  return `${html.slice(0, start)}${head.join('')}${html.slice(start, end)}${script}${html.slice(end)}`;
}
