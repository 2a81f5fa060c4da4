/** Counts `Host` headers: with several, a proxy may read another one than this server. */
export function countHosts(rawHeaders: readonly string[]): number {
  return rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'host').length;
}

/** Under which names the dashboard answers. */
export interface Address {
  /** From `--url`; null: the dashboard is reached at its own host and port, or at its socket. */
  readonly url: URL | null;
  /** As `Host` has them, without the port: `localhost`, `[::1]`. */
  readonly names: readonly string[];
}

/** Parts of a request that say where it comes from. */
export interface Origins {
  readonly method: string;
  readonly path: string;
  header(name: string): string | undefined;
  /** This end of the connection; undefined: a socket that has no address. */
  readonly localAddress: string | undefined;
}

/**
 * Refuses what a page of another origin has sent, be it by a name of its own that leads here (DNS rebinding).
 *
 * @returns why it is refused; null: it is not
 */
export function refuseForeign(request: Origins, { url, names }: Address): string | null {
  const asked = request.header('host')?.toLowerCase() ?? '';
  const name = nameOfHost(asked);
  const isOwn = names.includes(name) || name === ownAddress(request.localAddress);
  if (!isOwn && asked !== url?.host) return describeUnknown(name);
  const origin = request.header('origin');
  const origins = [url?.origin, ...(isOwn ? [`http://${asked}`, `https://${asked}`] : [])];
  if (origin !== undefined && !origins.includes(origin)) return 'Requests from pages of other origins are refused.';
  const site = request.header('sec-fetch-site');
  if (site === undefined || site === 'same-origin' || site === 'none') return null;
  return isLinkToPage(request) ? null : 'Requests from pages of other sites are refused.';
}

/** Through an SSH tunnel the port is any. */
export function nameOfHost(host: string): string {
  return host.toLowerCase().replace(/:\d{1,5}$/, '');
}

/** An address as `Host` has it. */
export function nameOfAddress(address: string): string {
  return address.includes(':') ? `[${address}]` : address.toLowerCase();
}

/** The connection's own address as a host name; null for loopback, which others may share. */
function ownAddress(local: string | undefined): string | null {
  const address = local?.replace(/^::ffff:/i, '') ?? '';
  return address === '' || isLoopback(address) ? null : nameOfAddress(address);
}

/** `127.0.0.1`, `::1`, `::ffff:127.1.2.3`. */
export function isLoopback(address: string): boolean {
  return address === '::1' || /^(?:::ffff:)?127\.\d+\.\d+\.\d+$/i.test(address);
}

function describeUnknown(name: string): string {
  return name.endsWith('.localhost')
    ? 'This address is not of this start of the dashboard. Open the one that `npx folder-runner web` has printed last.'
    : 'The dashboard does not accept this host name. Start it with --url and the address that you use here.';
}

/** A link from another site may open the page, which holds nothing yet. */
function isLinkToPage({ method, path, header }: Origins): boolean {
  return method === 'GET' && path === '/' && header('sec-fetch-mode') === 'navigate';
}

const forwarding =
  /^(?:forwarded|x-forwarded(?:-.*)?|via|x-real-ip|x-client-ip|x-cluster-client-ip|true-client-ip|cf-.*)$/;

/** Whether somebody passes on what others ask: then the connection says nothing of them. */
export function isForwarded(headerNames: readonly string[]): boolean {
  return headerNames.some((name) => forwarding.test(name));
}

const ofBrowsers = /^(?:sec-.*|origin|referer|cookie)$/;

/** Whether a browser seems to ask, whose requests any page can cause. */
export function isFromBrowser(headerNames: readonly string[]): boolean {
  return headerNames.some((name) => ofBrowsers.test(name));
}

/**
 * Clears the data in the browser that another program left at this address before: cached pages, and workers that would
 * answer instead. Not for an address that is shared with other pages of its owner.
 */
export const forgetOthers: Readonly<Record<string, string>> = { 'clear-site-data': '"cache", "storage"' };

/** The dashboard has no service worker: one that asks for its script was left by somebody else. */
const leavingWorker = `addEventListener('install', () => skipWaiting());
addEventListener('activate', (event) => event.waitUntil(leave()));
async function leave() {
  const windows = await clients.matchAll({ type: 'window' });
  await registration.unregister();
  for (const each of windows) each.navigate(each.url);
}
`;

/** A worker that removes itself, for whatever asks for the script of a worker; null: nothing does. */
export function answerWorker(request: Request): Response | null {
  if (request.headers.get('service-worker') !== 'script') return null;
  return new Response(leavingWorker, { headers: { 'content-type': 'text/javascript; charset=UTF-8' } });
}

const always: Readonly<Record<string, string>> = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-embedder-policy': 'require-corp',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=(), payment=(), usb=()',
  'x-robots-tag': 'noindex, nofollow',
};

const CLOSED = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const ONE_YEAR_S = 31_536_000;

/** Headers that make any answer safe in any browser. */
export function safeHeaders(isHttps: boolean): Readonly<Record<string, string>> {
  return isHttps ? { ...always, 'strict-transport-security': `max-age=${ONE_YEAR_S}` } : always;
}

/** Makes an answer safe in any browser. Headers that a route has set stay. */
export function secureAnswer(answer: Response, isHttps: boolean): Response {
  const { headers } = answer;
  for (const [name, value] of Object.entries(safeHeaders(isHttps))) headers.set(name, value);
  if (!headers.has('content-security-policy')) headers.set('content-security-policy', CLOSED);
  // An answer with a validator may be kept by the browser that asked, and is asked for again each time.
  if (!headers.has('cache-control'))
    headers.set('cache-control', headers.has('etag') ? 'private, no-cache' : 'no-store');
  return answer;
}
