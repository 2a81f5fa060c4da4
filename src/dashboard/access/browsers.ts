/** Under which names the dashboard answers. */
export interface Address {
  /** Of `--url`; null: it is reached at its own host and port. */
  readonly url: URL | null;
  /** The host that it listens on. */
  readonly host: string;
}

/** What of a request says where it comes from. */
export interface Origins {
  readonly method: string;
  readonly path: string;
  header(name: string): string | undefined;
  /** This end of the connection; undefined: a socket that has no address. */
  readonly localAddress: string | undefined;
}

const ownNames = ['localhost', '127.0.0.1', '[::1]'];

/**
 * Refuses what a page of another origin has sent, be it by a name of its own that leads here (DNS rebinding).
 *
 * @returns why it is refused; null: it is not
 */
export function refuseForeign(request: Origins, { url, host }: Address): string | null {
  const asked = request.header('host')?.toLowerCase() ?? '';
  const names = [...ownNames, ...namesOf(host), ...namesOf(request.localAddress?.replace(/^::ffff:/i, ''))];
  // Through an SSH tunnel the port is any.
  const isOwn = names.includes(asked.replace(/:\d{1,5}$/, ''));
  if (!isOwn && asked !== url?.host) {
    return 'This name is not known as one of the dashboard. Start it with --url and the address that you use here.';
  }
  const origin = request.header('origin');
  const origins = [url?.origin, ...(isOwn ? [`http://${asked}`, `https://${asked}`] : [])];
  if (origin !== undefined && !origins.includes(origin)) return 'Requests from pages of other origins are refused.';
  const site = request.header('sec-fetch-site');
  if (site === undefined || site === 'same-origin' || site === 'none') return null;
  return isLinkToPage(request) ? null : 'Requests from pages of other sites are refused.';
}

/** A name as `Host` has it. */
function namesOf(address: string | undefined): string[] {
  if (address === undefined) return [];
  return [address.includes(':') ? `[${address}]` : address.toLowerCase()];
}

/** Whoever follows a link gets the page, in which there is nothing yet. */
function isLinkToPage({ method, path, header }: Origins): boolean {
  return method === 'GET' && path === '/' && header('sec-fetch-mode') === 'navigate';
}

const forwarding =
  /^(?:forwarded|x-forwarded(?:-.*)?|via|x-real-ip|x-client-ip|x-cluster-client-ip|true-client-ip|cf-.*)$/;

/** Whether somebody passes on what others ask: then the connection says nothing of them. */
export function isForwarded(headerNames: readonly string[]): boolean {
  return headerNames.some((name) => forwarding.test(name));
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

/** Makes an answer safe in whatever shows it. What a route has said of its own stays. */
export function secureAnswer(answer: Response, isHttps: boolean): Response {
  const { headers } = answer;
  for (const [name, value] of Object.entries(always)) headers.set(name, value);
  if (!headers.has('content-security-policy')) headers.set('content-security-policy', CLOSED);
  // An answer with a validator may be kept by the browser that asked, and is asked for again each time.
  if (!headers.has('cache-control'))
    headers.set('cache-control', headers.has('etag') ? 'private, no-cache' : 'no-store');
  if (isHttps) headers.set('strict-transport-security', `max-age=${ONE_YEAR_S}`);
  return answer;
}
