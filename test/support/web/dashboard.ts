import dns from 'node:dns';
import { readFileSync } from 'node:fs';
import { type RequestOptions, request } from 'node:http';
import { connect, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, onTestFinished } from 'vitest';
import { z } from 'zod';
import { hashOf, makeToken } from '../../../src/dashboard/access/tokens.ts';
import { apiDocument, createApi } from '../../../src/dashboard/api/api.ts';
import { type ServerPlace, startServer } from '../../../src/dashboard/server.ts';
import { openSite } from '../../../src/dashboard/site.ts';
import { policyOf } from '../../../src/queue/settle/retry-policy.ts';
import { settleRuns } from '../../../src/queue/settle/settle.ts';
import type { FinishedRun } from '../../../src/store/schema.ts';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import { apiTokensOf } from '../../../src/store/statements/registers.ts';
import type { TokenPermission } from '../../../src/store/words.ts';
import { createStateFolder, stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { commandPath, cronPlace, startCommand } from '../command.ts';
import { makeFinishedRun } from '../log.ts';
import { executable, makeTemporaryRoot } from '../root.ts';
import { until } from '../until.ts';
import { running, type WrittenLog, writeLog } from '../written-log.ts';

export interface Dashboard {
  /** As `runner web` has printed it, with the port of a tunnel: `http://runner-0123456789abcdef.localhost:38211/` */
  readonly url: string;
  /** Asks for `/api/…` as the owner's own page does: what changes something has the header that it needs. */
  ask(path: string, init?: RequestInit): Promise<Response>;
  /** Ends it as Ctrl-C does; it must do so in peace. */
  stop(): Promise<void>;
}

/** `runner web` at its socket, and a tunnel to it, until the test is over. */
export async function startDashboard(root: string, ...options: readonly string[]): Promise<Dashboard> {
  return await startDashboardWith({}, root, ...options);
}

/** The same with these variables besides cron's: a `PATH` that says which crontab it reads. */
export async function startDashboardWith(
  env: NodeJS.ProcessEnv,
  root: string,
  ...options: readonly string[]
): Promise<Dashboard> {
  const place = cronPlace(root);
  const started = startCommand(['--root', root, 'web', ...options], { ...place, env: { ...place.env, ...env } });
  let isOver = false;
  const stop = async (): Promise<void> => {
    if (isOver) return;
    isOver = true;
    started.kill('SIGINT');
    const { status, stderr } = await started.ended;
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  };
  onTestFinished(stop);
  const url = await reachDashboard(root, () => started.printed());
  return { url, ask: (path, init) => askAsPage(url, path, init), stop };
}

/** The address of one that listens at the socket of this root, through a tunnel. */
export async function reachDashboard(root: string, printed: () => string): Promise<string> {
  await until('the dashboard listens', () => /http:\S+\n/.test(printed()));
  const url = new URL(/http:\S+/.exec(printed())?.[0] as string);
  url.port = String(await openTunnel(join(root, '.runner/web.sock')));
  return url.href;
}

async function askAsPage(url: string, path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (typeof init.body === 'string' && !headers.has('content-type')) headers.set('content-type', 'application/json');
  const session = await fetch(new URL('api/session', url));
  const { csrf } = (await session.json()) as { csrf: string };
  headers.set('x-csrf-token', csrf);
  return await fetch(new URL(path.replace(/^\//, ''), url), { ...init, headers });
}

/** Somebody who follows the changes of a dashboard. */
export interface Viewer {
  /** All that has come by now. */
  text(): string;
  versions(): readonly string[];
  /** Waits for a version that was not there when it was asked. */
  nextVersion(what: string, withinMs?: number): Promise<string>;
  /** Settles once the server has ended the stream. */
  readonly ended: Promise<void>;
}

/** Follows the changes of the dashboard at that address, until the test is over. */
export async function openViewer(url: string, headers: Readonly<Record<string, string>> = {}): Promise<Viewer> {
  const leaving = new AbortController();
  onTestFinished(() => leaving.abort());
  const response = await fetch(`${url}api/events`, { headers, signal: leaving.signal });
  return readViewer(response);
}

/** The same, of an answer that is there. */
export function readViewer(response: Response): Viewer {
  let text = '';
  const read = async (): Promise<void> => {
    for await (const piece of (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream())) {
      text += piece;
    }
  };
  const ended = read().catch(() => undefined);
  const versions = () =>
    Array.from(text.matchAll(/^event: changed\ndata: (.+)$/gm), ([, version]) => version as string);
  return {
    text: () => text,
    versions,
    nextVersion: async (what, withinMs) => {
      const before = versions().length;
      await until(what, () => versions().length > before, withinMs);
      return versions().at(-1) as string;
    },
    ended,
  };
}

const MINUTE_MS = 60_000;

/** Names that a small site has; a large one has the same for each of its customers. */
const usual = [
  '15min/check-mailbox',
  'hourly/import-orders',
  'hourly/clean-uploads',
  'daily/backup-database',
  'daily/send-newsletter',
];

const periods: Readonly<Record<string, number>> = { '15min': 15, hourly: 60, daily: 24 * 60 };

interface HistoryOptions {
  /** Default 5. */
  readonly scripts?: number;
  /** Passes of each tier, the newest a few minutes ago. Default 20. */
  readonly passes?: number;
  /** What of these fails in the newest pass, and how. */
  readonly failing?: Readonly<Record<string, Partial<FinishedRun>>>;
  /** Runs now, begun so many milliseconds ago. */
  readonly running?: Readonly<Record<string, number>>;
}

export interface History {
  readonly root: string;
  readonly log: WrittenLog;
  readonly scripts: readonly string[];
}

/** Names of so many scripts. */
function nameScripts(count: number): string[] {
  return Array.from({ length: count }, (_, index) => {
    const name = usual[index % usual.length] as string;
    const customer = Math.floor(index / usual.length);
    return customer === 0 ? name : `${name}-${String(customer).padStart(3, '0')}`;
  });
}

/** How the error of an import reads, with a stack and output that fit it. */
export const brokenImport: Partial<FinishedRun> = {
  ...{ outcome: 'failed', exit_code: 1, reason: 'exit code 1', error_name: 'Error' },
  error_message: 'orders.csv:3 does not have 3 columns',
  error_stack: 'Error: orders.csv:3 does not have 3 columns\n    at jobs/hourly/import-orders.ts:9:26',
  output: 'reading orders.csv\n',
};

/** A root whose scripts have run for a while, as they do: some slower than others, some failing now. */
export async function writeHistory(options: HistoryOptions = {}): Promise<History> {
  const { scripts: count = 5, passes = 20, failing = {}, running: open = {} } = options;
  const scripts = nameScripts(count);
  const file = executable('#!/bin/sh\nexit 0\n');
  const root = makeTemporaryRoot(Object.fromEntries(scripts.map((name) => [`jobs/${name}.sh`, file])));
  const log = await writeLog(root);
  const now = Date.now();
  for (let pass = passes; pass > 0; pass -= 1) {
    for (const [tier, minutes] of Object.entries(periods)) {
      const at = now - (pass - 1) * minutes * MINUTE_MS - 4 * MINUTE_MS;
      const names = scripts.filter((name) => name.startsWith(`${tier}/`));
      await writePass(log, tier, { at, names, isLast: pass === 1, failing });
    }
  }
  for (const [script, forMs] of Object.entries(open)) {
    const [at, tier] = [now - forMs, script.split('/')[0] as string];
    const workerId = await log.addPass(tier, at, { state: 'running', kind: 'script', pid: process.pid });
    const here = { ...running, worker_id: workerId, pid: process.pid, max_rss_bytes: 64 * 1024 * 1024 };
    await log.addRun(script, at, here);
  }
  return { root, log, scripts };
}

interface WrittenPass {
  readonly at: number;
  readonly names: readonly string[];
  readonly isLast: boolean;
  readonly failing: Readonly<Record<string, Partial<FinishedRun>>>;
}

/** One pass with its runs, settled as a pass does it: incidents included. */
async function writePass(log: WrittenLog, tier: string, { at, names, isLast, failing }: WrittenPass): Promise<void> {
  if (names.length === 0) return;
  const workerId = await log.addPass(tier, at);
  await log.store.transaction(async (session) => {
    const ids = await session.scriptJobs.enqueue(names.map((name) => ({ name, tier, scheduledFor: at, at })));
    const claims = ids.map((id, index) => ({ id, token: `${workerId}.${index + 1}` }));
    await session.scriptJobs.claim(claims.map((claim) => ({ ...claim, state: 'running' as const, at })));
    const runs = names.map((script, index) => {
      const claim = claims[index] as (typeof claims)[number];
      // Within the second that the pass took.
      const startedAt = at + Math.floor((index * 900) / names.length);
      const failure = isLast ? failing[script] : undefined;
      const place = { jobId: claim.id, workerId, key: claim.token, script, contentHash: null };
      const start = { ...place, attempt: 1, scheduledFor: at, startedAt, timeoutMs: null };
      const end = { ...usualEnd(script, startedAt), ...failure };
      return { claim, start, runId: null, end, result: null, decision: null, isRetryable: true, policy: policyOf() };
    });
    await settleRuns(session, runs, { missedCap: 0 });
  }, 'soon');
}

/** Each script is as slow and as large as its name says, give or take a third: the same in each run of the tests. */
function usualEnd(script: string, startedAt: number): FinishedRun {
  const weight = hash(script);
  const duration = Math.round((40 + (weight % 97) ** 2) * (0.8 + (hash(`${script}${startedAt % 977}`) % 50) / 100));
  return makeFinishedRun({
    ...{ finished_at: startedAt + duration, duration_us: duration * 1000 },
    ...{ user_cpu_us: 1000 * Math.round(duration * 0.4), system_cpu_us: 1000 * Math.round(duration * 0.1) },
    max_rss_bytes: (20 + (weight % 120)) * 1024 * 1024,
  });
}

function hash(text: string): number {
  return [...text].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 100_003, 7);
}

/** What a report holds besides the page. */
export interface HeldAnswers {
  readonly answers: Readonly<Record<string, unknown>>;
  readonly runs: readonly { readonly id: number; readonly script: string }[];
  readonly details: Readonly<Record<string, unknown>>;
  readonly runsSince: string | null;
  readonly dueAt: string | null;
}

export function readReport(path: string): HeldAnswers {
  const [, packed = ''] = /<script[^>]* id="data">([^<]*)<\/script>/.exec(readFileSync(path, 'utf8')) ?? [];
  return JSON.parse(gunzipSync(Buffer.from(packed, 'base64')).toString());
}

/** An API of a root, asked within this process. */
export interface ReadApi {
  /** What a question is answered, which must be as the API's own document says. */
  ask(path: string): Promise<Body>;
  /** What a question is refused with: the problem, of which each error is `name: detail`. */
  refused(path: string): Promise<{ status: number; detail: string; errors: string[] }>;
  /** The text of an answer that is no JSON. */
  text(path: string): Promise<string>;
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers, whose types their schemas have checked
export type Body = any;

export function openReadApi(root: string, now: () => number = Date.now): ReadApi {
  const site = openSite({ root, env: process.env, version: '1.2.3', now, distFolder: root });
  onTestFinished(() => site.close());
  const api = createApi(site, { name: 'test', permission: 'read' });
  const get = async (path: string) => await api.request(path);
  return {
    ask: async (path) => {
      const response = await get(path);
      const body: Body = await response.json();
      expect({ path, status: response.status, body }).toMatchObject({ status: 200 });
      const checked = schemaOf(path).safeParse(body);
      expect({ path, issues: checked.error?.issues ?? [] }).toEqual({ path, issues: [] });
      return body;
    },
    refused: async (path) => {
      const response = await get(path);
      expect(response.headers.get('content-type')).toBe('application/problem+json');
      const { status, detail, errors = [] }: Body = await response.json();
      expect({ path, status: response.status }).toEqual({ path, status });
      return { status, detail, errors: errors.map(({ name, detail: text }: Body) => `${name}: ${text}`) };
    },
    text: async (path) => await (await get(path)).text(),
  };
}

/** The API's document. */
export const readDocument: Body = JSON.parse(
  JSON.stringify(apiDocument(createApi(null as never, { name: 'test', permission: 'read' }), '1.2.3')),
);

const schemas = new Map<string, z.ZodType>();

/** What the document says of a successful answer. Nothing else may be in it. */
function schemaOf(path: string): z.ZodType {
  const templates = Object.keys(readDocument.paths).filter((template) => fits(template, path.split('?', 1)[0] ?? ''));
  // The one with the fewest parameters is the one that answers: `jobs/counts`, not `jobs/{id}`.
  const [template = ''] = templates.toSorted((one, other) => one.split('{').length - other.split('{').length);
  const known = schemas.get(template);
  if (known !== undefined) return known;
  const { schema } = readDocument.paths[template].get.responses[200].content['application/json'];
  const whole = { ...schema, $defs: readDocument.components.schemas };
  const text = JSON.stringify(closed(whole)).replaceAll('#/components/schemas/', '#/$defs/');
  const made = z.fromJSONSchema(JSON.parse(text));
  schemas.set(template, made);
  return made;
}

function fits(template: string, path: string): boolean {
  const pattern = template.replaceAll(/\{(\w+)\}/g, (_, name) => (name === 'name' ? '.+' : '[^/]+'));
  return new RegExp(`^${pattern}$`).test(path);
}

/** A field that the document does not name is one too many. */
function closed(schema: Body): Body {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const entries = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]));
  const isOpen = entries.properties !== undefined && entries.additionalProperties === undefined;
  return isOpen && typeof entries.type === 'string' ? { ...entries, additionalProperties: false } : entries;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
}

export interface Asked {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** As it is told: unlike `fetch`, with whatever `Host` and on a connection of its own. */
export function ask(url: string, path: string, asked: Asked = {}): Promise<Answer> {
  const { hostname, port } = new URL(url);
  return send({ host: hostname.replace(/[[\]]/g, ''), port }, path, asked);
}

/** The same, at a socket. */
export function askAt(socketPath: string, path: string, asked: Asked = {}): Promise<Answer> {
  return send({ socketPath }, path, asked);
}

function send(to: RequestOptions, path: string, { method = 'GET', headers, body }: Asked): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({ ...to, path, method, headers: { ...headers }, agent: false }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk) => chunks.push(chunk));
      answer.on('end', () => {
        const { statusCode: status = 0, headers: told } = answer;
        resolve({ status, headers: told, body: Buffer.concat(chunks).toString() });
      });
      answer.on('error', reject);
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

export interface TestServer {
  readonly url: string;
  readonly listensAt: string;
  readonly root: string;
  /** UTC epoch milliseconds; a test moves it on. */
  readonly clock: { now: number };
  ask(path: string, asked?: Asked): Promise<Answer>;
  /** The token's text. */
  addToken(name: string, permission: TokenPermission, expiresAt?: number): Promise<string>;
  close(): Promise<void>;
}

/** A server within this process, of a root with a log, at any free port, until the test is over. */
export async function startTestServer(options: Partial<ServerPlace> = {}): Promise<TestServer> {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '' });
  const state = stateFolderOf(root);
  createStateFolder(state);
  const store = await openSqliteStore(state);
  onTestFinished(() => store.close());
  const clock = { now: Date.now() };
  const site = { root, env: process.env, version: '0', now: () => clock.now };
  const door = { kind: 'port', host: '127.0.0.1', port: 0 } as const;
  const own = { door, url: null, needsLogin: false, distFolder: dirname(commandPath) };
  const server = await startServer({ site, ...own, ...options });
  let closing: Promise<void> | null = null;
  const close = (): Promise<void> => (closing ??= server.close());
  onTestFinished(close);
  const addToken: TestServer['addToken'] = async (name, permission, expiresAt) => {
    const token = makeToken();
    const hash = hashOf(token);
    await apiTokensOf(store.statements).add({
      name,
      permission,
      hash,
      createdAt: clock.now,
      expiresAt: expiresAt ?? null,
    });
    return token;
  };
  const { url } = server;
  const listensAt = server.listensAt as string;
  return { url, listensAt, root, clock, ask: (path, asked) => ask(listensAt, path, asked), addToken, close };
}

export const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

const { lookup } = dns;

/** Browsers know that each name below `localhost` is this machine; the system of a test may not. */
dns.lookup = Object.assign(
  (name: string, ...rest: never[]) =>
    (lookup as (...args: unknown[]) => void)(/\.localhost$/i.test(name) ? '127.0.0.1' : name, ...rest),
  { __promisify__: lookup.__promisify__ },
) as typeof lookup;

/** As `ssh -L` does: whoever connects to the port of this machine that it resolves to is connected to the socket. */
export async function openTunnel(socketPath: string): Promise<number> {
  const tunnel = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({ path: socketPath, allowHalfOpen: true });
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.on('error', () => other.destroy()).on('close', () => other.destroy());
      one.pipe(other);
    }
  });
  await new Promise<void>((resolve) => tunnel.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void tunnel.close());
  return (tunnel.address() as { port: number }).port;
}
