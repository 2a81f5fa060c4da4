import { gzipSync } from 'node:zlib';
import type { JsonValue } from '../../queue/api.ts';
import { type readJob, readListedJob } from '../../queue/read/jobs.ts';
import type { troubleRecord, verdictRecord } from '../../report/model/verdict.ts';
import { toldPlainly } from '../../store/describe-failure.ts';
import { isFailure, jobStates, type Outcome } from '../../store/words.ts';
import { formatBytes, UNKNOWN } from '../../system/base/format.ts';
import { type JsonOf, LEFT_OUT } from '../../system/base/record.ts';
import { escapeHtml } from '../../system/base/text.ts';
import { createApi } from '../api/api.ts';
import type { Api } from '../api/route.ts';
import { type BuiltPage, readBuiltPage } from '../built-page.ts';
import { type LiveSite, openSite } from '../site.ts';

export interface ReportPlace {
  readonly site: Pick<LiveSite, 'root' | 'env' | 'version' | 'now'>;
  /** The folder of the built command and its page. */
  readonly distFolder: string;
  /** Also what scripts have printed and thrown, and what jobs carry. Default: all that is left out. */
  readonly isWithOutput?: boolean;
  /** Passes write it, so that it is out of date once one of them is late. Default: somebody has asked for it. */
  readonly isOfPass?: boolean;
  /** Default 2 MB. */
  readonly mostBytes?: number;
  /**
   * Limit for the runs, and another one for the details of single items: all is in memory until the file is written.
   * Default 16 MB each.
   */
  readonly mostAskedBytes?: number;
}

export interface StaticReport {
  readonly html: string;
  /** Older runs were left out, so that the file stays small; null: none that it would have held. */
  readonly runsSince: string | null;
}

/** By which a file is known as one that may be replaced. */
export const REPORT_MARK = '<meta name="generator" content="folder-runner report">';

/** As the page names jobs and workers by their states. */
const countedStates = ['ready', 'delayed', ...jobStates.filter((state) => state !== 'queued' && state !== 'claimed')];
const workerStates = ['running', 'finished', 'skipped', 'crashed'] as const;

const MEGABYTE = 1024 * 1024;

/** Most of the newest runs that the report holds if their bytes allow it, and the fewest for each script. */
const MOST_RUNS = 10_000;
const LEAST_RUNS = 20;

/** The spans that the page of metrics offers. */
const spans = ['1h?since=6h', '1h?since=24h', '6h?since=7d', '1d?since=30d', '1d?since=90d', '1w?since=365d'];

/** Largest number of scripts with charts of their metrics. */
const MOST_IN_DETAIL = 100;

/** How many jobs have their details, and how many runs: of those that failed, and of all. */
const DETAILS = 50;

/** How many workers have their activity. */
const MOST_WORKERS = 20;

/** Requests of the page about the whole site, with each of its filters. */
const general = [
  ...['overview', 'status', 'tiers', 'scripts', 'health', 'pauses', 'failures'],
  ...['1h', '6h', '24h', '7d'].map((span) => `next?for=${span}&limit=1000`),
  ...['', 'since=1h&', 'since=24h&', 'since=7d&', 'since=30d&', 'since=365d&'].map(
    (since) => `activity?${since}limit=200`,
  ),
  ...['state=open&limit=500', 'state=over&limit=50'].map((query) => `incidents?${query}`),
  ...['', ...workerStates.map((state) => `state=${state}&`)].map((state) => `workers?${state}limit=50`),
  ...['jobs?count=true&limit=200', ...countedStates.map((state) => `jobs?state=${state}&count=true&limit=100`)],
  'queue',
].map((route) => `/api/${route}`);

/**
 * The dashboard as one file of HTML, with the answers of one moment in it: it needs no server and no network. What
 * scripts have said is left out unless it is asked for; settings always are.
 *
 * @throws {PackageIncomplete} where the package lacks the page
 */
export async function makeStaticReport(place: ReportPlace): Promise<StaticReport> {
  const { distFolder, isWithOutput = false, isOfPass = false, mostBytes = 2 * MEGABYTE } = place;
  const { mostAskedBytes = 16 * MEGABYTE } = place;
  const page = readBuiltPage(distFolder);
  const site = openSite({ ...place.site, distFolder });
  try {
    return await site.read(async (look) => {
      const read: LiveSite['read'] = (use) => toldPlainly(look.state, () => use(look));
      const api = createApi(
        { ...site, read, readJob: readShortened },
        { name: 'report', permission: 'read', isAnybody: !isWithOutput },
      );
      const answers = await askAll(api, isWithOutput, mostAskedBytes);
      const madeAt = new Date(site.now()).toISOString();
      const dueAt = isOfPass ? findDue(answers.answers) : null;
      return fitInto(page, { madeAt, dueAt, isWithOutput, ...answers }, mostBytes);
    });
  } finally {
    await site.close();
  }
}

/** A report keeps many jobs in memory: of what is long in them, their pages say how long it is. */
const readShortened: typeof readJob = async (store, id, read) => {
  const job = await readListedJob(store, id, read);
  return job && { ...job, data: orLength(job.data, job.dataBytes), result: orLength(job.result, job.resultBytes) };
};

function orLength(value: JsonValue, bytes: number | null): JsonValue {
  return bytes === null ? value : `${LEFT_OUT}, as it is ${formatBytes(bytes)} long`;
}

/** Between two calls of cron at least so much time may pass without a new report: it stays where nothing has run. */
const LEAST_LATE_MS = 15 * 60_000;

/**
 * When a pass should have written the next report, at the latest: the first tier may be called one time late. Null: no
 * tier is called.
 */
function findDue(answers: Answers['answers']): string | null {
  const { tiers } = (answers['/api/status'] ?? { tiers: [] }) as { tiers: readonly TierState[] };
  const dues = tiers.flatMap(({ nextCall, lastPass, periodMs }) => {
    const calledAt = lastPass?.startedAt ?? null;
    if (periodMs === null || (nextCall === null && calledAt === null)) return [];
    const next = nextCall === null ? Date.parse(calledAt as string) + periodMs : Date.parse(nextCall);
    return [next + Math.max(periodMs, LEAST_LATE_MS)];
  });
  return dues.length === 0 ? null : new Date(Math.min(...dues)).toISOString();
}

/** The data that the page's `embedded.ts` reads. */
interface Answers {
  /** By path and query. */
  readonly answers: Readonly<Record<string, unknown>>;
  /** RFC 9457, by path and query: what could not be answered. */
  readonly problems: Readonly<Record<string, unknown>>;
  /** Newest first; the page looks for those that it wants. */
  readonly runs: readonly Run[];
  /** There are further runs, which the report does not hold. */
  readonly areRunsCut: boolean;
  /** From when on it holds all runs, as older ones are too many bytes: UTC, ISO 8601; null: it has as many as it may. */
  readonly runsSince: string | null;
  /** The answers about one run, by its number. */
  readonly details: Readonly<Record<number, Readonly<Record<string, unknown>>>>;
}

/** Not embedded. */
interface Telling {
  /** The runs that a report leaves out last. */
  readonly telling: ReadonlySet<Run>;
}

interface Embedded extends Answers {
  /** UTC, ISO 8601. */
  readonly madeAt: string;
  /** The same; null: no pass writes it. */
  readonly dueAt: string | null;
  readonly isWithOutput: boolean;
}

interface TierState {
  readonly tier: string;
  /** UTC, ISO 8601; null: nobody knows. */
  readonly nextCall: string | null;
  readonly lastPass: { readonly startedAt: string | null } | null;
  readonly periodMs: number | null;
}

interface Run {
  readonly id: number;
  readonly script: string;
  readonly outcome: string | null;
  readonly startedAt: string | null;
}

type Ask = (path: string) => Promise<unknown>;

async function askAll(api: Api, isWithOutput: boolean, mostBytes: number): Promise<Answers & Telling> {
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
    return await response.json();
  };
  const keep = async (path: string, shorten = (answer: unknown) => answer): Promise<void> => {
    const answer = await ask(path);
    if (answer !== undefined) answers[keyOf(path)] = shorten(answer);
  };
  for (const path of general) await keep(path);
  const scripts = scriptsIn(answers['/api/overview']);
  const isLarge = scripts.length > MOST_IN_DETAIL;
  for (const span of spans) await keep(`/api/metrics/${span}`, isLarge ? withoutScriptsBuckets : undefined);
  for (const script of scripts) await keep(`/api/scripts/${script.split('/').map(encodeURIComponent).join('/')}`);
  for (const { name } of itemsOf<{ name: string }>(answers['/api/tiers'])) await keep(`/api/tiers/${name}`);
  for (const query of queriesOfNames(answers)) await keep(`/api/jobs?${query}&count=true&limit=50`);
  for (const { id } of itemsOf<{ id: number }>(answers['/api/jobs']).slice(0, DETAILS)) {
    await keep(`/api/jobs/${id}`);
  }
  for (const { id } of itemsOf<{ id: number }>(answers['/api/workers']).slice(0, MOST_WORKERS))
    await keep(`/api/activity?worker=${id}&limit=100`);
  const found = await askRuns(ask, scripts, mostBytes);
  const told = itemsOf<{ lastRun: number | null }>(answers['/api/incidents?state=open']).map(({ lastRun }) => lastRun);
  const telling = tellingRuns(found.runs, told);
  const details = await askDetails(ask, runsWithDetails(found.runs, telling), isWithOutput, mostBytes);
  return { answers, problems, ...found, details, telling };
}

type NamedCounts = Readonly<Record<string, number>> & { readonly name: string };

/** The links of the table of names: all its jobs, and those in each state that has some. */
function queriesOfNames(answers: Answers['answers']): string[] {
  const { counts } = (answers['/api/queue'] ?? { counts: [] }) as { readonly counts: readonly NamedCounts[] };
  return counts.slice(0, MOST_IN_DETAIL).flatMap((count) => {
    const name = `name=${encodeURIComponent(count.name)}`;
    const found = countedStates.filter((state) => (count[state] ?? 0) > 0);
    return [name, ...found.map((state) => `${name}&state=${state}`)];
  });
}

/** A year in hours of 500 scripts would be 30 MB. */
function withoutScriptsBuckets(metrics: unknown): unknown {
  const { series } = metrics as { series: readonly { readonly kind: string }[] };
  return {
    ...Object(metrics),
    series: series.map((each) => (each.kind === 'script' ? { ...each, buckets: [] } : each)),
  };
}

async function askDetails(
  ask: Ask,
  runs: ReadonlySet<Run>,
  isWithOutput: boolean,
  mostBytes: number,
): Promise<Answers['details']> {
  const details: Record<number, Record<string, unknown>> = {};
  let leftBytes = mostBytes;
  for (const { id } of runs) {
    if (leftBytes <= 0) break;
    const paths = [`/api/runs/${id}`, ...(isWithOutput ? [`/api/runs/${id}/output`] : [])];
    const found = await Promise.all(paths.map(async (path) => [path, await ask(path)] as const));
    details[id] = Object.fromEntries(found.filter(([, answer]) => answer !== undefined));
    leftBytes -= bytesOf(found);
  }
  return details;
}

function bytesOf(answer: unknown): number {
  return JSON.stringify(answer ?? null).length;
}

function itemsOf<Item>(answer: unknown): readonly Item[] {
  return (answer as { readonly items?: readonly Item[] } | undefined)?.items ?? [];
}

/** A name as it is, and no query but one that tells apart: the page makes the same of what it asks. */
function keyOf(path: string): string {
  return decodeURIComponent(path.replace(/[?&](?:count=true&)?limit=\d+$/, ''));
}

function scriptsIn(overview: unknown): readonly string[] {
  const { scripts } = (overview ?? { scripts: [] }) as { scripts: readonly { readonly script: string }[] };
  return scripts.map(({ script }) => script);
}

/** The newest of all, and of what runs too seldom to be among them. */
async function askRuns(
  ask: Ask,
  scripts: readonly string[],
  mostBytes: number,
): Promise<Pick<Answers, 'runs' | 'areRunsCut' | 'runsSince'>> {
  const byId = new Map<number, Run>();
  let leftBytes = mostBytes;
  const askPage = async (query: string): Promise<string | null> => {
    const answer = await ask(`/api/runs?${query}`);
    leftBytes -= bytesOf(answer);
    for (const run of itemsOf<Run>(answer)) byId.set(run.id, run);
    return (answer as { readonly next?: string } | undefined)?.next ?? null;
  };
  let next = await askPage('limit=500');
  while (next !== null && byId.size < MOST_RUNS && leftBytes > 0)
    next = await askPage(`limit=500&cursor=${encodeURIComponent(next)}`);
  const runsSince = next !== null && leftBytes <= 0 ? ([...byId.values()].at(-1)?.startedAt ?? null) : null;
  if (next !== null) {
    leftBytes = mostBytes;
    const counts = new Map(scripts.map((script) => [script, 0]));
    for (const { script } of byId.values()) counts.set(script, (counts.get(script) ?? 0) + 1);
    const seldom = scripts.filter((script) => (counts.get(script) ?? 0) < LEAST_RUNS);
    for (const script of seldom)
      if (leftBytes > 0) await askPage(`script=${encodeURIComponent(script)}&limit=${LEAST_RUNS}`);
  }
  return { runs: [...byId.values()].sort((one, other) => other.id - one.id), areRunsCut: next !== null, runsSince };
}

/** Those that incidents name, and of each script the newest good and the newest bad one. */
function tellingRuns(runs: readonly Run[], told: readonly (number | null)[]): ReadonlySet<Run> {
  const ofScripts = [...Map.groupBy(runs, ({ script }) => script).values()].slice(0, MOST_IN_DETAIL);
  const newest = ofScripts.flatMap((own) => [own.find(isFailed), own.find(({ outcome }) => outcome === 'succeeded')]);
  return new Set([...runs.filter(({ id }) => told.includes(id)), ...newest.filter((run) => run !== undefined)]);
}

/** The telling ones, before the newest fill the report up. */
function runsWithDetails(runs: readonly Run[], telling: ReadonlySet<Run>): ReadonlySet<Run> {
  return new Set([...telling, ...runs.filter(isFailed).slice(0, DETAILS), ...runs.slice(0, DETAILS)]);
}

function isFailed({ outcome }: Run): boolean {
  return outcome !== null && isFailure(outcome as Outcome);
}

/** Leaves out the oldest runs, with their details, until the report fits; the telling ones only after all others. */
function fitInto(page: BuiltPage, { telling, ...embedded }: Embedded & Telling, mostBytes: number): StaticReport {
  const others = embedded.runs.filter((run) => !telling.has(run));
  const inOrder = [...telling, ...others];
  for (let count = embedded.runs.length; ; count = Math.floor(count / 2)) {
    const kept = new Set(inOrder.slice(0, count));
    const runs = embedded.runs.filter((run) => kept.has(run));
    const isShortened = count < embedded.runs.length;
    const details = Object.fromEntries(
      runs.flatMap(({ id }) => (embedded.details[id] ? [[id, embedded.details[id]]] : [])),
    );
    const oldest = others.findLast((run) => kept.has(run));
    const runsSince = isShortened ? (oldest?.startedAt ?? embedded.madeAt) : embedded.runsSince;
    const areRunsCut = isShortened || embedded.areRunsCut;
    const html = embed(page, { ...embedded, runs, areRunsCut, details, runsSince });
    if (count === 0 || Buffer.byteLength(html) <= mostBytes) return { html, runsSince };
  }
}

/**
 * Base64 has no character that HTML or a script could take for something else. Compressed, as ten times the runs fit
 * into the same bytes.
 */
function embed({ html, sources }: BuiltPage, data: Embedded): string {
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
  const plain = `<noscript>${writePlainly(data)}</noscript>\n`;
  return `${html.slice(0, start)}${head.join('')}${html.slice(start, end)}${plain}${script}${html.slice(end)}`;
}

/** Most troubles that are shown without JavaScript. */
const MOST_PLAIN = 100;

/** The most important facts, for readers of the file without its script: a mail program, a file manager of a panel. */
function writePlainly({ madeAt, dueAt, answers }: Embedded): string {
  const { verdict, troubles, tiers: states } = (answers['/api/status'] ?? unread) as PlainStatus;
  const late = dueAt === null ? '' : ` If it is later than ${writeUtc(dueAt)} now, nobody knows how things stand.`;
  const further = troubles.length - MOST_PLAIN;
  const lines = troubles
    .slice(0, MOST_PLAIN)
    .map(({ subject, grade, message, since }) =>
      [`${subject}: ${message}`, grade, since === null ? 'now' : `since ${writeUtc(since)}`].join(' · '),
    );
  const tiers = states.map(
    ({ tier, lastPass, nextCall }) =>
      `${tier}: last pass ${writeUtc(lastPass?.startedAt ?? null)}, next call ${writeUtc(nextCall)}`,
  );
  const list = (items: readonly string[]): string =>
    items.length === 0 ? '' : `<ul>${items.map((item) => `<li>${escapeHtml(item)}</li>`).join('')}</ul>`;
  return (
    `<h1>${escapeHtml(verdict.title)}</h1>${list(further > 0 ? [...lines, `and ${further} more`] : lines)}<h2>Tiers</h2>${list(tiers)}` +
    `<p>As of ${writeUtc(madeAt)}.${late} The rest of this report needs JavaScript.</p>`
  );
}

interface PlainStatus {
  readonly verdict: Pick<JsonOf<typeof verdictRecord>, 'title'>;
  readonly troubles: readonly Pick<JsonOf<typeof troubleRecord>, 'subject' | 'grade' | 'message' | 'since'>[];
  readonly tiers: readonly TierState[];
}

const unread: PlainStatus = { verdict: { title: 'How things stand is not known' }, troubles: [], tiers: [] };

/** `2026-11-03 14:05 UTC` */
function writeUtc(at: string | null): string {
  return at === null ? UNKNOWN : `${at.slice(0, 16).replace('T', ' ')} UTC`;
}
