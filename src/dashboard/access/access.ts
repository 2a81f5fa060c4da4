import { createHash } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Context } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { HTTPException } from 'hono/http-exception';
import { isLogFailure, StoreUnavailable } from '../../store/failures.ts';
import { apiTokensOf, type HashedToken } from '../../store/statements/registers.ts';
import type { Store } from '../../store/store.ts';
import { permissionsWithin } from '../../store/words.ts';
import { userName } from '../../system/process/user.ts';
import {
  type Access,
  type ApiEnv,
  type Caller,
  type Demand,
  type Refusal,
  refuseCaller,
  type SessionInfo,
} from '../api/route.ts';
import type { LiveSite } from '../site.ts';
import {
  type Address,
  countHosts,
  forgetOthers,
  isForwarded,
  isFromBrowser,
  isLoopback,
  nameOfHost,
  refuseForeign,
} from './browsers.ts';
import type { Connections } from './connections.ts';
import { createSessions, type Sessions } from './session.ts';
import { hashOf, isSame, isTokenLike } from './tokens.ts';

export interface AccessOptions extends Address {
  /**
   * The names by which the owner asks without a credential, where nobody else can connect; null: all need one.
   * They say that it is meant so: what passes on requests of others asks by the names of its own.
   */
  readonly owner: OwnerNames | null;
  /** A key that logs in once without a token; null: none. */
  readonly key: string | null;
  /** Null: nobody counts them. */
  readonly connections: Connections | null;
}

export interface OwnerNames {
  /** Another one at each start: nothing is left under it in a browser. */
  readonly page: string;
  /** For what is no browser. */
  readonly programs: string;
}

type Request = Context<ApiEnv>;

/** A caller, and the credential that was found. */
interface Known extends Caller {
  /** Cookie of a session; null: another credential, or none for the owner at the socket. */
  readonly cookie: string | null;
  /** This user, by the socket or the key: can do no more harm than the user. */
  readonly isOwner: boolean;
  /** A browser sends it along by itself, whoever's page has made it ask. */
  readonly isAmbient: boolean;
  readonly expiresAt: number | null;
}

const SESSION_MS = 7 * 86_400_000;

/** Enough for many pages that are watched; a page asks a few things each second. */
const RATE = { perSecond: 200, burst: 1_000 };
const STRANGERS_RATE = { perSecond: 20, burst: 100 };

/** More is no person; each of them is remembered once it has logged out. */
const LOGINS_RATE = { perSecond: 0.1, burst: 60 };

const NOBODY: Caller = { name: 'nobody', permission: 'read' };

const WRONG = 'This token is not valid: it is not known here, has expired, or was revoked.';

const ENDED = 'Your session has ended: its time is over, its token was revoked or has expired, or you have logged out.';

/** Lets in who has a token or a session, and the owner at a socket that nobody else can open. */
export function createAccess(site: LiveSite, options: AccessOptions): Access {
  const state: AccessState = {
    site,
    options,
    // At an address of its own a session is of no use after the next start, but to who listens there by then.
    sessions: createSessions(site.state, options.url !== null),
    cookieName: nameCookie(site.root, options),
    callers: createRateLimit(RATE),
    strangers: createRateLimit(STRANGERS_RATE),
    logins: createRateLimit(LOGINS_RATE),
    isKeyUsed: false,
    known: new WeakMap(),
    noted: new Map(),
  };
  return {
    admit: (c, demanded) => admit(state, c, demanded),
    login: (c, token) => login(state, c, token),
    logout: (c) => logout(state, c),
    session: (c) => describe(state, state.known.get(c) as Known),
  };
}

interface AccessState {
  readonly site: LiveSite;
  readonly options: AccessOptions;
  readonly sessions: Sessions;
  readonly cookieName: string;
  readonly callers: Throttle;
  readonly strangers: Throttle;
  /** By token. */
  readonly logins: Throttle;
  isKeyUsed: boolean;
  readonly known: WeakMap<Request, Known>;
  /** Tokens, and the day on which their use was noted. */
  readonly noted: Map<number, number>;
}

/** Two sites of one host would log each other's viewers out. */
function nameCookie(root: string, { url }: AccessOptions): string {
  const name = `runner-${createHash('sha256').update(root).digest('hex').slice(0, 8)}`;
  return url?.protocol === 'https:' ? `__Secure-${name}` : name;
}

async function admit(state: AccessState, c: Request, demanded: Demand | null): Promise<Caller | Refusal> {
  if (countHosts(c.env?.incoming?.rawHeaders ?? []) > 1)
    return { status: 400, detail: 'A request must have one Host header, not several.' };
  const foreign = refuseForeign(originsOf(c), state.options);
  if (foreign !== null) return { status: 403, detail: foreign };
  if (demanded === null) return { status: 404, detail: 'There is nothing at this address.' };
  // A login is refused once its credential is known to be wrong.
  if (demanded === 'none') return isBodyJson(c) ? NOBODY : NO_JSON;
  const known = await identify(state, c);
  if (known === null) return refuseStranger(state, c, describeWrong(state, c));
  noteConnection(state, c, known);
  const tooMany = limitRate(state, c, known);
  if (tooMany !== null) return tooMany;
  if (!isBodyJson(c)) return NO_JSON;
  const refused = refuseCaller(known, demanded);
  if (refused !== null) return { status: 403, detail: refused };
  const changes = permissionsWithin(demanded).includes('run') || !['GET', 'HEAD'].includes(c.req.method);
  if (changes && known.isAmbient && !isSame(c.req.header('x-csrf-token') ?? '', csrfOf(state, known))) {
    const detail =
      'Requests that change something need the header X-CSRF-Token, as GET /api/session tells it, or a token.';
    return { status: 403, detail };
  }
  state.known.set(c, known);
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

const NO_JSON: Refusal = { status: 415, detail: 'The body must be JSON, with the content type application/json.' };

function socketOf(c: Request): Socket | undefined {
  return c.env?.incoming?.socket;
}

function noteConnection({ options }: AccessState, c: Request, { name }: Known): void {
  const socket = socketOf(c);
  if (socket !== undefined) options.connections?.noteCaller(socket, name);
}

function limitRate(state: AccessState, c: Request, known: Known): Refusal | null {
  if (known.isOwner) return null;
  const waitS = state.callers.check(`${known.name} ${clientOf(addressOf(state, c))}`, state.site.now());
  return waitS === null ? null : refuseForNow(waitS);
}

function refuseForNow(retryAfterS: number): Refusal {
  return { status: 429, detail: 'Too many requests; ask more slowly.', retryAfterS };
}

/** Why the credential of a request is of no use; null: it has none. */
function describeWrong({ cookieName }: AccessState, c: Request): string | null {
  if (c.req.header('authorization') !== undefined) return WRONG;
  return getCookie(c, cookieName) === undefined ? null : ENDED;
}

/**
 * Only who has no valid credential is ever refused for what others have sent.
 *
 * @param wrong why a credential that was sent is of no use; null: none was
 */
function refuseStranger(state: AccessState, c: Request, wrong: string | null): Refusal {
  const waitS = state.strangers.check(clientOf(addressOf(state, c)), state.site.now());
  if (waitS !== null) return refuseForNow(waitS);
  if (wrong === null) return { status: 401, detail: 'Log in, or send a token.' };
  return { status: 401, detail: wrong, isWrongCredential: true };
}

/** The address whose requests are counted together. A proxy puts it last in `X-Forwarded-For`. */
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

async function identify(state: AccessState, c: Request): Promise<Known | null> {
  const header = c.req.header('authorization');
  if (header !== undefined) {
    const [, text = ''] = /^Bearer +(\S+)$/i.exec(header) ?? [];
    const token = await findToken(state, text);
    return token && { ...callerOf(token), cookie: null, isOwner: false, isAmbient: false, expiresAt: token.expiresAt };
  }
  const cookie = getCookie(c, state.cookieName);
  const known = cookie === undefined ? null : await readSession(state, cookie);
  return known ?? (isOwner(state, c) ? ownCaller() : null);
}

function callerOf({ name, permission }: HashedToken): Caller {
  return { name: `token ${name}`, permission };
}

function ownCaller(): Known {
  return { name: userName(), permission: 'manage', cookie: null, isOwner: true, isAmbient: true, expiresAt: null };
}

async function findToken(state: AccessState, text: string): Promise<HashedToken | null> {
  if (!isTokenLike(text)) return null;
  return await useTokens(state, (tokens) => tokens.byHash(hashOf(text)));
}

/** Returns null if the token is unknown or has expired. Its use is noted once a day. */
async function useTokens(
  state: AccessState,
  find: (tokens: ReturnType<typeof apiTokensOf>) => Promise<HashedToken | null>,
): Promise<HashedToken | null> {
  try {
    return await state.site.read(async ({ store, problem, nowMs }) => {
      if (problem !== null) throw cannotCheck();
      const token = store === null ? null : await find(apiTokensOf(store.statements));
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

/** Strangers do not learn why the log cannot be read. */
function cannotCheck(): HTTPException {
  return new HTTPException(503, { message: 'The activity log cannot be read just now, so no token can be checked.' });
}

/** A log that is busy or full keeps nobody out: the day is only for whoever looks through the tokens. */
async function noteUse(store: Store, id: number, day: number): Promise<void> {
  try {
    await apiTokensOf(store.statements).noteUse(id, day);
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
  return { ...callerOf(token), cookie, isOwner: false, isAmbient: true, expiresAt };
}

/** Whether the owner asks, at a socket that nobody else can open, and not what passes on requests of others. */
function isOwner({ options: { owner } }: AccessState, c: Request): boolean {
  const { incoming } = c.env ?? {};
  if (owner === null || incoming === undefined || incoming.httpVersion !== '1.1') return false;
  const headers = Object.keys(incoming.headers);
  if (isForwarded(headers)) return false;
  const name = nameOfHost(incoming.headers.host ?? '');
  return name === owner.page || (name === owner.programs && !isFromBrowser(headers));
}

function csrfOf({ sessions }: AccessState, { cookie }: Pick<Known, 'cookie'>): string {
  return sessions.csrfOf(cookie);
}

function describe(state: AccessState, known: Omit<Known, 'isOwner'>): SessionInfo {
  const { name, permission, expiresAt, isAmbient } = known;
  return { name, permission, expiresAt, csrf: isAmbient ? csrfOf(state, known) : null };
}

async function login(state: AccessState, c: Request, text: string): Promise<SessionInfo | Refusal> {
  const nowMs = state.site.now();
  const found = await findLogin(state, text.trim());
  if (found === null) return refuseStranger(state, c, `${WRONG} A key that was printed logs in once.`);
  const { tokenId, hash, caller } = found;
  const waitS = state.logins.check(String(tokenId), nowMs);
  if (waitS !== null) return refuseForNow(waitS);
  const expiresAt = Math.min(nowMs + SESSION_MS, found.expiresAt ?? Number.POSITIVE_INFINITY);
  const cookie = state.sessions.open({ tokenId, expiresAt }, hash);
  setCookie(c, state.cookieName, cookie, { ...cookieOptions(state), expires: new Date(expiresAt) });
  if (state.options.url === null) for (const [name, value] of Object.entries(forgetOthers)) c.header(name, value);
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
  if (key !== null && !state.isKeyUsed && isSame(text, key)) {
    state.isKeyUsed = true;
    return { tokenId: 0, hash: hashOf(key), expiresAt: null, caller: ownCaller() };
  }
  const token = await findToken(state, text);
  return token && { tokenId: token.id, hash: token.hash, expiresAt: token.expiresAt, caller: callerOf(token) };
}

function cookieOptions({ options: { url } }: AccessState) {
  const path = url?.pathname.replace(/\/$/, '') || '/';
  return { path, httpOnly: true, sameSite: 'Strict', secure: url?.protocol === 'https:' } as const;
}

/** Ends the caller's own session: a cookie that was never checked is not worth remembering. */
function logout(state: AccessState, c: Request): void {
  const cookie = state.known.get(c)?.cookie ?? null;
  if (cookie === null) return;
  state.sessions.end(cookie, state.site.now());
  deleteCookie(c, state.cookieName, cookieOptions(state));
}

/** Refuses what comes too often; null: it may come, else after how many seconds it may come again. */
interface Throttle {
  check(client: string, now: number): number | null;
}

/** As many clients as are remembered; of more, those that were not heard of for longest are forgotten. */
const MOST_CLIENTS = 10_000;

interface Rate {
  readonly perSecond: number;
  /** How many at once. */
  readonly burst: number;
}

/** Limits each client to a rate, with a burst. */
function createRateLimit({ perSecond, burst }: Rate): Throttle {
  const clients = new Map<string, { readonly left: number; readonly at: number }>();
  return {
    check: (client, now) => {
      const last = clients.get(client) ?? { left: burst, at: now };
      const left = Math.min(burst, last.left + (Math.max(0, now - last.at) / 1_000) * perSecond);
      clients.delete(client);
      clients.set(client, { left: left < 1 ? left : left - 1, at: now });
      if (clients.size > MOST_CLIENTS) clients.delete(clients.keys().next().value as string);
      return left < 1 ? Math.ceil((1 - left) / perSecond) : null;
    },
  };
}

/** The client that a request counts for: an IPv4 address, or the IPv6 network that one customer gets. */
function clientOf(address: string | undefined): string {
  if (address === undefined) return 'socket';
  const plain = address.replace(/^::ffff:/i, '');
  if (!plain.includes(':')) return plain;
  const [head = '', tail] = plain.split('::');
  const groups = head.split(':');
  const filled = tail === undefined ? groups : [...groups, ...Array(8).fill('0')];
  return filled.slice(0, 4).join(':');
}
