import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { toldPlainly } from '../store/describe-failure.ts';
import { StoreUnavailable } from '../store/failures.ts';
import { apiTokensOf } from '../store/statements/registers.ts';
import { stateFolderOf } from '../system/place/state-folder.ts';
import type { AccessOptions } from './access/access.ts';
import { nameOfAddress, safeHeaders } from './access/browsers.ts';
import { shareConnections } from './access/connections.ts';
import { makeToken } from './access/tokens.ts';
import type { App } from './app.ts';
import { readBuiltPage } from './built-page.ts';
import { type Door, hasLoopbackNames, type Listening, listenAt } from './listen.ts';
import { openLogIfAny } from './open-log.ts';
import { servePage } from './serve-page.ts';
import type { SitePlace } from './site.ts';

export interface ServerPlace {
  readonly site: Omit<SitePlace, 'distFolder'>;
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
 * Serves the dashboard and its API. Most servers wait for a viewer most of the time: all that the API needs is loaded
 * once somebody asks for more than the page.
 *
 * @throws {UsageError} when the port or the socket is taken, the host is not this machine's, or no socket can be there
 */
export async function startServer(place: ServerPlace): Promise<RunningServer> {
  const page = readBuiltPage(place.distFolder);
  const log = await lookAtLog(place.site);
  const { promise: answering, resolve: begin } = Promise.withResolvers<Answer>();
  const server = makeServer(place, async (incoming, outgoing) => await (await answering)(incoming, outgoing));
  const connections = shareConnections(server);
  const listening = await listenAt(server, place.door);
  const { url } = place;
  const { names, owner, key } = chooseAccess(place, listening);
  const site = { ...place.site, distFolder: place.distFolder };
  let app: Promise<App> | undefined;
  const open = async (): Promise<App> => {
    const { openApp } = await import('./app.ts');
    return openApp(site, { url, names, owner, key, connections });
  };
  const hasServed = servePage(page, { url, names });
  begin(async (incoming, outgoing) => {
    if (hasServed(incoming, outgoing)) return;
    app ??= open();
    await app.then(
      ({ answer }) => answer(incoming, outgoing),
      (error: Error) => refuseAll(outgoing, error),
    );
  });
  return {
    url: urlOf(place, listening, names, key),
    listensAt: listening.at,
    notes: [...(log.note === null ? [] : [log.note]), ...describeLogin(log.tokens, owner !== null || key !== null)],
    close: async () => {
      const opened = await app?.catch(() => undefined);
      opened?.endStreams();
      await closeServer(server, listening);
      await opened?.close();
    },
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
async function lookAtLog({ root, env, now }: ServerPlace['site']): Promise<LogFound> {
  const state = stateFolderOf(root, env);
  const { store, problem, watch } = await openLogIfAny(root, state);
  watch?.close();
  if (store === null && problem === null) {
    return { tokens: 0, note: 'There is no activity log yet: the first pass makes it.' };
  }
  if (store === null) return describeUnread(problem);
  try {
    const tokens = await toldPlainly(state, () => apiTokensOf(store.statements).list());
    return {
      tokens: tokens.filter(({ expiresAt }) => (expiresAt ?? Number.POSITIVE_INFINITY) > now()).length,
      note: null,
    };
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    return describeUnread(error.message);
  } finally {
    await store.close();
  }
}

function describeUnread(problem: string | null): LogFound {
  return { tokens: null, note: `The activity log cannot be read. ${problem}` };
}

type Answer = (incoming: IncomingMessage, outgoing: ServerResponse) => Promise<void>;

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
  const server = createServer(
    { maxHeaderSize: MOST_HEADER_BYTES, ...usualPatience, ...patience },
    (incoming, outgoing) => {
      const { url: path = '/' } = incoming;
      // Proxies take the base path off, or leave it.
      if (base !== '' && path.startsWith(`${base}/`)) incoming.url = path.slice(base.length);
      // The page asks for what is beside it.
      if (base !== '' && path === base) return void outgoing.writeHead(308, { location: `${base}/` }).end();
      void answer(incoming, outgoing);
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

/** For a server whose package was replaced before anybody asked. */
function refuseAll(outgoing: ServerResponse, error: Error): void {
  process.stderr.write(`runner: the API cannot be loaded: ${error.message}\n`);
  const detail = 'The package of this server has changed since it was started: start `npx folder-runner web` again.';
  const problem = { type: 'about:blank', title: 'The server is incomplete', status: 503, detail };
  outgoing.writeHead(503, { ...safeHeaders(false), 'content-type': 'application/problem+json' });
  outgoing.end(JSON.stringify(problem));
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
