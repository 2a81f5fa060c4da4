import { randomBytes } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { StoreUnavailable } from '../store/failures.ts';
import { apiTokensOf } from '../store/statements/registers.ts';
import { type AccessOptions, createAccess } from './access/access.ts';
import { answerWorker, forgetOthers, nameOfAddress, secureAnswer } from './access/browsers.ts';
import { shareConnections } from './access/connections.ts';
import { makeToken } from './access/tokens.ts';
import { createApi } from './api/api.ts';
import { type Api, demand } from './api/route.ts';
import { type BuiltPage, readBuiltPage } from './built-page.ts';
import { type Door, hasLoopbackNames, type Listening, listenAt } from './listen.ts';
import { answerAlways } from './live/memo.ts';
import { type LiveSite, openSite } from './site.ts';

export interface ServerPlace {
  readonly site: Pick<LiveSite, 'root' | 'env' | 'version' | 'now'>;
  readonly door: Door;
  /** Public address with its base path; null: it is reached only at its own door. */
  readonly url: URL | null;
  /** Whether the owner has to log in at the socket, too. */
  readonly needsLogin: boolean;
  /** The folder of the built command and its page. */
  readonly distFolder: string;
  /** How long requests may take to come in; a test has less patience. */
  readonly patience?: Partial<Patience>;
}

export interface RunningServer {
  /**
   * The address to open in a browser, with a key that logs in once if a login is needed. For a socket its port is that
   * of the tunnel.
   */
  readonly url: string;
  /** The address it listens at: `http://127.0.0.1:8787/`, or a socket's path; null: Passenger has chosen it. */
  readonly listensAt: string | null;
  /** Sentences for the user: there is no log yet, nobody can log in … */
  readonly notes: readonly string[];
  /** Ends open connections, then the server. */
  close(): Promise<void>;
}

/**
 * Serves the dashboard and its API.
 *
 * @throws {UsageError} when the port or the socket is taken, the host is not this machine's, or no socket can be there
 */
export async function startServer(place: ServerPlace): Promise<RunningServer> {
  const site = openSite({ ...place.site, distFolder: place.distFolder });
  const page = readBuiltPage(place.distFolder);
  const log = await lookAtLog(site);
  let setApp: (app: Api) => void = () => {};
  const app = new Promise<Api>((resolve) => {
    setApp = resolve;
  });
  const server = makeServer(place, answerBy(place, app));
  const connections = shareConnections(server);
  const listening = await listenAt(server, place.door);
  const { names, owner, key } = chooseAccess(place, listening);
  setApp(createApp(site, page, { url: place.url, names, owner, key, connections }));
  return {
    url: urlOf(place, listening, names, key),
    listensAt: listening.at,
    notes: [...(log.note === null ? [] : [log.note]), ...describeLogin(log.tokens, owner !== null || key !== null)],
    close: async () => {
      // Ends the streams of viewers first, so that they notice.
      site.feed.close();
      await closeServer(server, listening);
      await site.close();
    },
  };
}

function answerBy({ url }: ServerPlace, app: Promise<Api>): Answer {
  const isHttps = url?.protocol === 'https:';
  return async (request, env) => {
    const worker = answerWorker(request);
    if (worker === null) return secureAnswer(await (await app).fetch(request, env), isHttps);
    if (url === null) for (const [name, value] of Object.entries(forgetOthers)) worker.headers.set(name, value);
    return secureAnswer(worker, isHttps);
  };
}

interface LogFound {
  /** How many are valid; null: it cannot be read just now. */
  readonly tokens: number | null;
  /** A sentence for the user; null: all is well. */
  readonly note: string | null;
}

/**
 * Checks the log for notes. With a broken log the dashboard still starts: it shows the fault, and goes on once the log
 * can be read.
 */
async function lookAtLog(site: LiveSite): Promise<LogFound> {
  const unread = (problem: string) => ({ tokens: null, note: `The activity log cannot be read. ${problem}` });
  try {
    return await site.read(async ({ store, problem, nowMs }) => {
      if (problem !== null) return unread(problem);
      if (store === null) return { tokens: 0, note: 'There is no activity log yet: the first pass makes it.' };
      const tokens = await apiTokensOf(store.statements).list();
      return { tokens: tokens.filter(({ expiresAt }) => (expiresAt ?? nowMs + 1) > nowMs).length, note: null };
    });
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    return unread(error.message);
  }
}

type Answer = Parameters<typeof getRequestListener>[0];

const LONGEST_SILENCE_MS = 300_000;

/** Cuts off clients that send slowly, too much, or nothing. A busy host may take seconds to read a request. */
const usualPatience = {
  headersTimeout: 30_000,
  requestTimeout: 60_000,
  connectionsCheckingInterval: 2_000,
  keepAliveTimeout: 10_000,
};

type Patience = typeof usualPatience;

const MOST_HEADER_BYTES = 16_384;

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
  server.setTimeout(LONGEST_SILENCE_MS);
  return server;
}

const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];

/** Host name for programs at the socket. Proxies that pass on requests do not send it by themselves. */
const PROGRAMS_NAME = 'owner.localhost';

type Chosen = Pick<AccessOptions, 'names' | 'owner' | 'key'>;

/**
 * Only a socket says who connects, and only while nothing passes on requests of others to it; everywhere else a
 * credential does.
 */
function chooseAccess({ door, url, needsLogin }: ServerPlace, { isOwnSocket }: Listening): Chosen {
  // Another one at each start: no other program has ever had it, so nothing of it is in any browser.
  const page = `runner-${randomBytes(8).toString('hex')}.localhost`;
  const isOwn = isOwnSocket && url === null;
  const owner = isOwn && !needsLogin ? { page, programs: PROGRAMS_NAME } : null;
  const key = needsLogin || (url === null && !isOwn) ? makeToken() : null;
  return { names: namesAt(door, page), owner, key };
}

/** The first one is the one to open. */
function namesAt(door: Door, page: string): string[] {
  if (door.kind === 'socket') return [page, PROGRAMS_NAME, ...LOOPBACK_NAMES];
  if (door.kind === 'loader') return LOOPBACK_NAMES;
  const own = nameOfAddress(door.host);
  return hasLoopbackNames(door.host) ? [page, ...LOOPBACK_NAMES, own] : [own];
}

/** Usual for a tunnel to a socket. */
const TUNNEL_PORT = 8787;

function urlOf({ url }: ServerPlace, { port }: Listening, [name]: readonly string[], key: string | null): string {
  const shown = url === null ? `http://${name}:${port ?? TUNNEL_PORT}/` : `${url.href.replace(/\/$/, '')}/`;
  return key === null ? shown : `${shown}#key=${key}`;
}

function describeLogin(tokens: number | null, canLogIn: boolean): string[] {
  if (canLogIn || tokens !== 0) return [];
  return ['Nobody can log in yet: make a token with `npx folder-runner web token add <name>`.'];
}

function createApp(site: LiveSite, page: BuiltPage, options: AccessOptions): Api {
  const api = createApi(site, createAccess(site, options));
  const headers = { 'content-type': 'text/html; charset=UTF-8', 'content-security-policy': policyOf(page) };
  api.get('/', demand('none'), answerAlways(page.html, headers));
  return api;
}

/** Content security policy of the served page. */
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

/** Longest time that an answer under way may still take. */
const CLOSE_MS = 500;

async function closeServer(server: Server, { stop }: Listening): Promise<void> {
  const closed = new Promise((resolve) => server.once('close', resolve));
  stop();
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), CLOSE_MS);
  await closed;
  clearTimeout(timer);
}
