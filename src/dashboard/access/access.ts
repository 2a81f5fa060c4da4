import { createHash } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Context } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { HTTPException } from 'hono/http-exception';
import type { HashedToken } from '../../store/contract/registers.ts';
import type { Store } from '../../store/contract/store.ts';
import { isLogFailure, StoreUnavailable } from '../../store/failures.ts';
import type { Access, ApiEnv, Caller, Demand, Refusal, SessionInfo } from '../api/route.ts';
import type { Site } from '../site.ts';
import { type Address, isForwarded, refuseForeign } from './browsers.ts';
import { isLoopback, uidOfPeer } from './peer.ts';
import { createSessions, type Sessions } from './session.ts';
import { clientOf, createLoginThrottle, createRateLimit } from './throttle.ts';
import { hashOf, isSame, isTokenLike } from './tokens.ts';

export interface AccessOptions extends Address {
  /** Whether this user's own connections within this machine need no credential. */
  readonly isOwnTrusted: boolean;
  /** What logs in without a token, as long as this process lives; null: nothing does. */
  readonly key: string | null;
}

type Request = Context<ApiEnv>;

/** Who was found to ask, and by what. */
interface Known extends Caller {
  /** Of a session; null: another credential, or the connection itself. */
  readonly cookie: string | null;
  /** A browser sends it along by itself, whoever's page has made it ask. */
  readonly isAmbient: boolean;
  readonly expiresAt: number | null;
}

const SESSION_MS = 7 * 86_400_000;

/** Enough for many pages that are watched; a page asks a few things each second. */
const RATE = { perSecond: 200, burst: 1_000 };
const STRANGERS_RATE = { perSecond: 20, burst: 100 };

const NOBODY: Caller = { name: 'nobody', permission: 'read' };

const WRONG = 'This token is not valid: it is not known here, has expired, or was revoked.';

/** Lets in who has a token, a session, or a connection that is this user's own. */
export function createAccess(site: Site, options: AccessOptions): Access {
  const state: AccessState = {
    site,
    options,
    sessions: createSessions(site.state),
    cookieName: nameCookie(site.root, options),
    logins: createLoginThrottle(),
    callers: createRateLimit(RATE),
    strangers: createRateLimit(STRANGERS_RATE),
    own: new WeakMap(),
    known: new WeakMap(),
    noted: new Map(),
  };
  return {
    admit: (c, demanded) => admit(state, c, demanded),
    login: (c, token) => login(state, c, token),
    logout: (c) => logout(state, c),
    session: (c) => describe(state, state.known.get(c.req.raw) as Known),
  };
}

interface AccessState {
  readonly site: Site;
  readonly options: AccessOptions;
  readonly sessions: Sessions;
  readonly cookieName: string;
  readonly logins: ReturnType<typeof createLoginThrottle>;
  readonly callers: ReturnType<typeof createRateLimit>;
  readonly strangers: ReturnType<typeof createRateLimit>;
  /** Connections, and whether they are this user's own. */
  readonly own: WeakMap<Socket, Promise<boolean>>;
  readonly known: WeakMap<globalThis.Request, Known>;
  /** Tokens, and the day on which their use was noted. */
  readonly noted: Map<number, number>;
}

/** Two sites of one host would log each other's viewers out. */
function nameCookie(root: string, { url }: AccessOptions): string {
  const name = `runner-${createHash('sha256').update(root).digest('hex').slice(0, 8)}`;
  return url?.protocol === 'https:' ? `__Secure-${name}` : name;
}

async function admit(state: AccessState, c: Request, demanded: Demand | null): Promise<Caller | Refusal> {
  const foreign = refuseForeign(originsOf(c), state.options);
  if (foreign !== null) return { status: 403, detail: foreign };
  if (demanded === null) return { status: 404, detail: 'There is nothing at this address.' };
  const nowMs = state.site.now();
  const known = demanded === 'none' ? null : await identify(state, c);
  // The page is the same for all, and costs nothing.
  if (demanded === 'none' && c.req.method === 'GET') return NOBODY;
  const tooMany = limitRate(state, c, known, nowMs);
  if (tooMany !== null) return tooMany;
  if (!isBodyJson(c)) return { status: 415, detail: 'The body must be JSON, with the content type application/json.' };
  if (demanded === 'none') return NOBODY;
  if (known === null) return refuseStranger(state, c, nowMs);
  if (demanded === 'manage' && known.permission !== 'manage') {
    return { status: 403, detail: `${known.name} has permission to read, not to change anything.` };
  }
  const changes = demanded === 'manage' || !['GET', 'HEAD'].includes(c.req.method);
  if (changes && known.isAmbient && !isSame(c.req.header('x-csrf-token') ?? '', csrfOf(state, known))) {
    const detail =
      'Requests that change something need the header X-CSRF-Token, as GET /api/session tells it, or a token.';
    return { status: 403, detail };
  }
  state.known.set(c.req.raw, known);
  return known;
}

function originsOf(c: Request) {
  return {
    method: c.req.method,
    path: c.req.path,
    header: (name: string) => c.req.header(name),
    localAddress: socketOf(c)?.localAddress,
  };
}

function socketOf(c: Request): Socket | undefined {
  return c.env?.incoming?.socket;
}

function limitRate(state: AccessState, c: Request, known: Known | null, nowMs: number): Refusal | null {
  // This user's own connections can do no more harm than the user.
  if (known?.isAmbient && known.cookie === null) return null;
  const client = clientOf(addressOf(state, c));
  const limit = known === null ? state.strangers : state.callers;
  const retryAfterS = limit.check(known === null ? client : `${known.name} ${client}`, nowMs);
  return retryAfterS === null ? null : { status: 429, detail: 'Too many requests; ask more slowly.', retryAfterS };
}

/** Whose requests are counted together. A proxy tells it last in `X-Forwarded-For`. */
function addressOf({ options }: AccessState, c: Request): string | undefined {
  const remote = socketOf(c)?.remoteAddress;
  const isProxied = options.url !== null && (remote === undefined || isLoopback(remote));
  const told = isProxied ? c.req.header('x-forwarded-for')?.split(',').at(-1)?.trim() : undefined;
  return told || remote;
}

function isBodyJson(c: Request): boolean {
  const hasBody = Number(c.req.header('content-length') ?? 0) > 0 || c.req.header('transfer-encoding') !== undefined;
  return !hasBody || /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(c.req.header('content-type') ?? '');
}

/** Who sends a wrong token is told so, ever more rarely. */
function refuseStranger(state: AccessState, c: Request, nowMs: number): Refusal {
  if (c.req.header('authorization') === undefined) return { status: 401, detail: 'Log in, or send a token.' };
  const client = clientOf(addressOf(state, c));
  const waitS = state.logins.check(client, nowMs) ?? state.logins.noteFailure(client, nowMs);
  return waitS === null ? { status: 401, detail: WRONG } : refuseForNow(waitS);
}

function refuseForNow(retryAfterS: number): Refusal {
  return { status: 429, detail: 'Too many wrong tokens were sent; wait before you send another one.', retryAfterS };
}

async function identify(state: AccessState, c: Request): Promise<Known | null> {
  const header = c.req.header('authorization');
  if (header !== undefined) {
    const [, text = ''] = /^Bearer +(\S+)$/i.exec(header) ?? [];
    const token = await findToken(state, text);
    return token && { ...callerOf(token), cookie: null, isAmbient: false, expiresAt: token.expiresAt };
  }
  const cookie = getCookie(c, state.cookieName);
  const known = cookie === undefined ? null : await readSession(state, cookie);
  return known ?? ((await isOwnConnection(state, c)) ? ownCaller() : null);
}

function callerOf({ name, permission }: HashedToken): Caller {
  return { name: `token ${name}`, permission };
}

function ownCaller(): Known {
  const name = `user ${process.geteuid?.()}`;
  return { name, permission: 'manage', cookie: null, isAmbient: true, expiresAt: null };
}

async function findToken(state: AccessState, text: string): Promise<HashedToken | null> {
  if (!isTokenLike(text)) return null;
  return await useTokens(state, (tokens) => tokens.byHash(hashOf(text)));
}

/** Null: there is no such token, or its time is over. That it is used is noted once a day. */
async function useTokens(
  state: AccessState,
  find: (tokens: Store['tokens']) => Promise<HashedToken | null>,
): Promise<HashedToken | null> {
  try {
    return await state.site.read(async ({ store, problem, nowMs }) => {
      if (problem !== null) throw cannotCheck();
      const token = store === null ? null : await find(store.tokens);
      if (store === null || token === null || (token.expiresAt !== null && token.expiresAt <= nowMs)) return null;
      const day = nowMs - (nowMs % 86_400_000);
      if (token.lastUsedAt !== day && state.noted.get(token.id) !== day && !store.isReadOnly) {
        state.noted.set(token.id, day);
        await noteUse(store, token.id, day);
      }
      return token;
    });
  } catch (error) {
    throw error instanceof StoreUnavailable ? cannotCheck() : error;
  }
}

/** What is wrong with the log is nothing for strangers. */
function cannotCheck(): HTTPException {
  return new HTTPException(503, { message: 'The activity log cannot be read just now, so no token can be checked.' });
}

/** A log that is busy or full keeps nobody out: the day is only for whoever looks through the tokens. */
async function noteUse(store: Store, id: number, day: number): Promise<void> {
  try {
    await store.tokens.noteUse(id, day);
  } catch (error) {
    if (!isLogFailure(error)) throw error;
  }
}

async function readSession(state: AccessState, cookie: string): Promise<Known | null> {
  const { sessions, options, site } = state;
  const session = sessions.read(cookie, site.now());
  if (session === null) return null;
  const { tokenId, expiresAt } = session;
  if (tokenId === 0) {
    const isSound = options.key !== null && sessions.isSigned(cookie, hashOf(options.key));
    return isSound ? { ...ownCaller(), cookie, expiresAt } : null;
  }
  const token = await useTokens(state, (tokens) => tokens.byId(tokenId));
  if (token === null || !sessions.isSigned(cookie, token.hash)) return null;
  return { ...callerOf(token), cookie, isAmbient: true, expiresAt };
}

/** Asked of the kernel once for each connection. */
async function isOwnConnection({ options, own }: AccessState, c: Request): Promise<boolean> {
  const { incoming } = c.env ?? {};
  // What asks in an older way than each browser is a proxy that passes on what others ask.
  if (!options.isOwnTrusted || incoming === undefined || incoming.httpVersion !== '1.1') return false;
  if (isForwarded(Object.keys(incoming.headers))) return false;
  const { socket } = incoming;
  let found = own.get(socket);
  if (found === undefined) {
    const { remoteAddress, remotePort, localAddress, localPort } = socket;
    found = uidOfPeer({ remoteAddress, remotePort, localAddress, localPort }).then(
      (uid) => uid === process.geteuid?.(),
    );
    own.set(socket, found);
  }
  return await found;
}

function csrfOf({ sessions }: AccessState, { cookie }: Pick<Known, 'cookie'>): string {
  return sessions.csrfOf(cookie);
}

function describe(state: AccessState, known: Known): SessionInfo {
  const { name, permission, expiresAt, isAmbient } = known;
  return { name, permission, expiresAt, csrf: isAmbient ? csrfOf(state, known) : null };
}

async function login(state: AccessState, c: Request, text: string): Promise<SessionInfo | Refusal> {
  const nowMs = state.site.now();
  const client = clientOf(addressOf(state, c));
  const waitS = state.logins.check(client, nowMs);
  if (waitS !== null) return refuseForNow(waitS);
  const found = await findLogin(state, text.trim());
  if (found === null) {
    const nextS = state.logins.noteFailure(client, nowMs);
    return nextS === null ? { status: 401, detail: WRONG } : refuseForNow(nextS);
  }
  state.logins.noteSuccess(client);
  const { tokenId, hash, caller } = found;
  const expiresAt = Math.min(nowMs + SESSION_MS, found.expiresAt ?? Number.POSITIVE_INFINITY);
  const cookie = state.sessions.open({ tokenId, expiresAt }, hash);
  setCookie(c, state.cookieName, cookie, { ...cookieOptions(state), expires: new Date(expiresAt) });
  return describe(state, { ...caller, cookie, isAmbient: true, expiresAt });
}

interface FoundLogin {
  readonly tokenId: number;
  readonly hash: string;
  readonly expiresAt: number | null;
  readonly caller: Caller;
}

async function findLogin(state: AccessState, text: string): Promise<FoundLogin | null> {
  const { key } = state.options;
  if (key !== null && isSame(text, key)) return { tokenId: 0, hash: hashOf(key), expiresAt: null, caller: ownCaller() };
  const token = await findToken(state, text);
  return token && { tokenId: token.id, hash: token.hash, expiresAt: token.expiresAt, caller: callerOf(token) };
}

function cookieOptions({ options: { url } }: AccessState) {
  const path = url?.pathname.replace(/\/$/, '') || '/';
  return { path, httpOnly: true, sameSite: 'Strict', secure: url?.protocol === 'https:' } as const;
}

function logout(state: AccessState, c: Request): void {
  const cookie = getCookie(c, state.cookieName);
  if (cookie === undefined) return;
  state.sessions.end(cookie, state.site.now());
  deleteCookie(c, state.cookieName, cookieOptions(state));
}
