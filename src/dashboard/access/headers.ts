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
