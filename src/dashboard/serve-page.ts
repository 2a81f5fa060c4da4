import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { type Address, countHosts, refuseForeign, safeHeaders } from './access/browsers.ts';
import type { BuiltPage } from './built-page.ts';
import { isKnown, takesGzip } from './live/memo.ts';

/**
 * Answers requests for the page, which is the same for all and holds nothing of the site: nothing that the API needs is
 * loaded for it.
 *
 * @returns a function that returns false for a request that the API has to answer or to refuse
 */
export function servePage(
  { gzipped, sources }: Pick<BuiltPage, 'gzipped' | 'sources'>,
  address: Address,
): (incoming: IncomingMessage, outgoing: ServerResponse) => boolean {
  const tag = createHash('sha256').update(gzipped).digest('base64url');
  const headers = {
    ...safeHeaders(address.url?.protocol === 'https:'),
    'content-type': 'text/html; charset=UTF-8',
    'content-security-policy': [...sources, ...morePolicy].join('; '),
    // Never shown without asking whether it still holds.
    'cache-control': 'private, no-cache',
    vary: 'accept-encoding',
  };
  const answer = async ({ method, headers: asked }: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const isCompressed = takesGzip(asked['accept-encoding']?.toString());
    const etag = isCompressed ? `"${tag}-gzip"` : `"${tag}"`;
    if (isKnown(asked['if-none-match'], tag)) return void outgoing.writeHead(304, { ...headers, etag }).end();
    const body = isCompressed ? gzipped : await promisify(gunzip)(gzipped);
    const form = {
      ...(isCompressed && { 'content-encoding': 'gzip' }),
      'content-length': body.length,
    };
    outgoing.writeHead(200, { ...headers, etag, ...form }).end(method === 'HEAD' ? undefined : body);
  };
  return (incoming, outgoing) => {
    if (!asksForPage(incoming, address)) return false;
    void answer(incoming, outgoing);
    return true;
  };
}

const morePolicy = [
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
];

/** Whether it is a request for the page that nobody refuses. */
function asksForPage(
  { method = '', url = '', headers, rawHeaders, socket }: IncomingMessage,
  address: Address,
): boolean {
  const [path = ''] = url.split('?');
  // A request for a service worker's script gets a script that unregisters the worker.
  if (path !== '/' || !['GET', 'HEAD'].includes(method) || headers['service-worker'] !== undefined) return false;
  if (countHosts(rawHeaders) > 1) return false;
  const header = (name: string) => headers[name]?.toString();
  return refuseForeign({ method, path, header, localAddress: socket.localAddress }, address) === null;
}
