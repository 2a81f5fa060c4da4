import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import { StoreUnavailable } from '../store/failures.ts';
import { errorCode, UsageError } from '../system/base/errors.ts';
import { type AccessOptions, createAccess } from './access/access.ts';
import { secureAnswer } from './access/browsers.ts';
import { canKnowPeers, isLoopback } from './access/peer.ts';
import { makeToken } from './access/tokens.ts';
import { createApi } from './api/api.ts';
import { type Api, demand } from './api/route.ts';
import { type BuiltPage, readBuiltPage } from './built-page.ts';
import { answerAlways } from './live/memo.ts';
import { openSite, type Site } from './site.ts';

export interface ServerPlace {
  readonly site: Pick<Site, 'root' | 'env' | 'version' | 'now'>;
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
  /** Where it is reached from outside, with its base path; null: only at its own host and port. */
  readonly url: URL | null;
  /** Whether this user's own connections have to log in, too. */
  readonly needsLogin: boolean;
  /** The folder of the built command and its page. */
  readonly distFolder: string;
  /** How long requests may take to come in; a test has less patience. */
  readonly patience?: Partial<Patience>;
}

export interface RunningServer {
  /** Where to look: `http://127.0.0.1:8787/`, with a key that logs in where one is needed. */
  readonly url: string;
  /** Where it listens: `http://127.0.0.1:8787/`; null: at a socket that Passenger has given it. */
  readonly listensAt: string | null;
  /** What its user is to know, in sentences: there is no log yet, nobody can log in … */
  readonly notes: readonly string[];
  /** Ends open connections, then the server. */
  close(): Promise<void>;
}

/**
 * Serves the dashboard and its API.
 *
 * @throws {UsageError} when the port is taken, the host is not this machine's, or others could reach it and nobody
 *   can log in
 */
export async function startServer(place: ServerPlace): Promise<RunningServer> {
  const site = openSite({ ...place.site, distFolder: place.distFolder });
  const page = readBuiltPage(place.distFolder);
  const log = await lookAtLog(site);
  if (log.tokens === 0 && !isOfThisMachine(place.host) && !place.needsLogin) throw noToken(place.host);
  let setApp: (app: Api) => void = () => {};
  const app = new Promise<Api>((resolve) => {
    setApp = resolve;
  });
  const isHttps = place.url?.protocol === 'https:';
  const server = makeServer(place, async (request, env) =>
    secureAnswer(await (await app).fetch(request, env), isHttps),
  );
  await listen(server, place);
  const access = await chooseAccess(server, place);
  setApp(createApp(site, page, access));
  const listensAt = describeAddress(server, place.host);
  return {
    url: urlOf(listensAt, access),
    listensAt,
    notes: [...(log.note === null ? [] : [log.note]), ...describeLogin(log.tokens, access)],
    close: async () => {
      // Viewers are told by the end of what they follow.
      site.feed.close();
      await closeServer(server);
      await site.close();
    },
  };
}

function isOfThisMachine(host: string): boolean {
  return host === 'localhost' || isLoopback(host);
}

function noToken(host: string): UsageError {
  return new UsageError(
    `Others can reach ${host}, and nobody could log in: make a token first, with \`npx folder-runner web token add <name>\`. ` +
      'Without --host only this machine can reach it.',
  );
}

interface LogFound {
  /** How many are valid; null: it cannot be read just now. */
  readonly tokens: number | null;
  /** What there is to be said of it; null: nothing. */
  readonly note: string | null;
}

/** Whatever is wrong with it, the dashboard is served: it shows what is wrong, and goes on once it can be read. */
async function lookAtLog(site: Site): Promise<LogFound> {
  const unread = (problem: string) => ({ tokens: null, note: `The activity log cannot be read. ${problem}` });
  try {
    return await site.read(async ({ store, problem, nowMs }) => {
      if (problem !== null) return unread(problem);
      if (store === null) return { tokens: 0, note: 'There is no activity log yet: the first pass makes it.' };
      const tokens = await store.tokens.list();
      return { tokens: tokens.filter(({ expiresAt }) => (expiresAt ?? nowMs + 1) > nowMs).length, note: null };
    });
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    return unread(error.message);
  }
}

type Answer = Parameters<typeof getRequestListener>[0];

const LONGEST_SILENCE_MS = 300_000;

/** Whoever sends slowly, or too much, or nothing, is cut off. */
const usualPatience = {
  headersTimeout: 10_000,
  requestTimeout: 60_000,
  connectionsCheckingInterval: 2_000,
  keepAliveTimeout: 10_000,
};

type Patience = typeof usualPatience;

const MOST_HEADER_BYTES = 16_384;

/** More than may follow changes. */
const MOST_CONNECTIONS = 1_500;

function makeServer({ url, patience }: ServerPlace, answer: Answer): Server {
  const base = url?.pathname.replace(/\/$/, '') ?? '';
  const listener = getRequestListener(answer);
  const server = createServer(
    { maxHeaderSize: MOST_HEADER_BYTES, ...usualPatience, ...patience },
    (incoming, outgoing) => {
      const { url: path = '/' } = incoming;
      // Proxies take the base path off, or leave it.
      if (base !== '' && path.startsWith(`${base}/`)) incoming.url = path.slice(base.length);
      // The page asks for what is beside it.
      if (base !== '' && path === base) return void outgoing.writeHead(308, { location: `${base}/` }).end();
      return listener(incoming, outgoing);
    },
  );
  server.maxConnections = MOST_CONNECTIONS;
  server.setTimeout(LONGEST_SILENCE_MS);
  return server;
}

async function listen(server: Server, place: ServerPlace): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(describeListenError(error, place)));
    server.listen(place.port, place.host, resolve);
  });
}

function describeListenError(error: Error, { host, port }: ServerPlace): Error {
  const code = errorCode(error);
  if (code === 'EADDRINUSE')
    return new UsageError(`Port ${port} of ${host} is in use; choose another one, or --port 0 for any that is free.`);
  if (code === 'EACCES') return new UsageError(`Port ${port} is reserved for root; choose one from 1024 on.`);
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return new UsageError(`${host} is not an address of this machine; 127.0.0.1 always is.`);
  }
  return error;
}

/** Where it is passed on by a proxy, connections say nothing of who asks. Passenger listens at a socket of its own. */
async function chooseAccess(server: Server, { url, host, needsLogin }: ServerPlace): Promise<AccessOptions> {
  const address = addressOf(server);
  const isLocal = url === null && address !== null && isLoopback(address.address);
  const isOwnTrusted = isLocal && !needsLogin && (await canKnowPeers(address.address, address.port));
  const key = needsLogin || (isLocal && !isOwnTrusted) ? makeToken() : null;
  return { url, host, isOwnTrusted, key };
}

/** Null: a socket without address; LiteSpeed's loader answers by nothing at all. */
function addressOf(server: Server): AddressInfo | null {
  const address: AddressInfo | string | null | undefined = server.address();
  return typeof address === 'object' ? address : null;
}

function describeAddress(server: Server, host: string): string | null {
  const address = addressOf(server);
  if (address === null) return null;
  return `http://${host.includes(':') ? `[${host}]` : host}:${address.port}/`;
}

function urlOf(listensAt: string | null, { url, key }: AccessOptions): string {
  const shown = url === null ? (listensAt ?? '') : `${url.href.replace(/\/$/, '')}/`;
  return key === null ? shown : `${shown}#key=${key}`;
}

function describeLogin(tokens: number | null, { isOwnTrusted, key }: AccessOptions): string[] {
  if (isOwnTrusted || key !== null || tokens !== 0) return [];
  return ['Nobody can log in yet: make a token with `npx folder-runner web token add <name>`.'];
}

function createApp(site: Site, page: BuiltPage, options: AccessOptions): Api {
  const api = createApi(site, createAccess(site, options));
  const headers = { 'content-type': 'text/html; charset=UTF-8', 'content-security-policy': policyOf(page) };
  api.get('/', demand('none'), answerAlways(page.html, headers));
  return api;
}

/** What the page may do where it is served. */
function policyOf({ sources }: BuiltPage): string {
  const more = [
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  return [...sources, ...more].join('; ');
}

/** So long may an answer that is under way still take. */
const CLOSE_MS = 500;

async function closeServer(server: Server): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve));
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), CLOSE_MS);
  await closed;
  clearTimeout(timer);
}
