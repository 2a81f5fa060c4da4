/**
 * @description Posts JSON to an address, and tries again later if that may help.
 * @timeout 1m
 * @retries 5
 * @retry-delay exponential 30s 2h
 * @tags site
 *
 * It runs once for each job of this name:
 *   npx folder-runner add post-webhook '{"url": "https://example.org/hook", "body": {"order": 12}}'
 *
 *   url      the address to post to
 *   body     the JSON to post (default {})
 *   headers  further headers: {"authorization": "Bearer …"}
 *
 * It posts from this machine, so also to services that only this machine reaches: do not pass on addresses from
 * strangers (SSRF) without a list of the hosts that you allow.
 */
import { request as requestHttp } from 'node:http';
// Not fetch: it needs WebAssembly, which fails under the memory limits of some hosts.
import { request as requestHttps } from 'node:https';
import type { Handler } from 'folder-runner';

interface Webhook {
  readonly url: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export default (async ({ data, signal, log, retry, fail }) => {
  if (!URL.canParse(data?.url)) fail(`data.url expects an address, found ${JSON.stringify(data)}`);
  const status = await post(data, signal);
  log(`${data.url} answered ${status}`);
  if (status === 429) retry({ delay: '10m' });
  if (status >= 500) throw new Error(`${data.url} answered ${status}`);
  // Sent once more it would be refused once more.
  if (status >= 300) fail(`${data.url} answered ${status}`);
  return { status };
}) satisfies Handler<Webhook>;

function post({ url, body = {}, headers = {} }: Webhook, signal: AbortSignal): Promise<number> {
  const text = JSON.stringify(body);
  const request = url.startsWith('https:') ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    request(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(text),
        ...headers,
      },
      signal,
    })
      .on('error', reject)
      .on('response', (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      })
      .end(text);
  });
}
