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
 *   body     the JSON to post, which is posted as it was given (default {})
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

interface Answer {
  readonly status: number;
  /** The beginning of its body, on one line. */
  readonly text: string;
  /** How long it asks to wait. */
  readonly retryAfterSeconds: number | null;
}

export default (async ({ id, scheduledFor, data, dataText, signal, log, retry, fail }) => {
  if (!isAddress(data?.url)) fail(`data.url expects an address with http: or https:, found ${JSON.stringify(data)}`);
  const body = memberText(dataText, 'body') ?? '{}';
  // The same for each try, and for no other job: a receiver can tell a delivery that it has had before.
  const delivery = `job-${id}-${scheduledFor?.getTime() ?? 0}`;
  const { status, text, retryAfterSeconds } = await post(data, body, delivery, signal);
  const answer = `${data.url} answered ${status}`;
  log(text === '' ? answer : `${answer}: ${text}`);
  if (status >= 200 && status < 300) return { status };
  // Sent once more it would be refused once more.
  if (status < 500 && ![408, 425, 429].includes(status)) fail(answer);
  const waitSeconds = retryAfterSeconds ?? (status === 429 ? 600 : null);
  if (waitSeconds !== null) retry({ delay: `${waitSeconds}s`, failure: answer });
  throw new Error(answer);
}) satisfies Handler<Webhook>;

function isAddress(url: unknown): boolean {
  return typeof url === 'string' && URL.canParse(url) && /^https?:$/.test(new URL(url).protocol);
}

/** A member of a JSON object as it stands there: printed anew, long numbers would lose digits, and keys their order. */
function memberText(json: string, name: string): string | undefined {
  let found: string | undefined;
  let [depth, key, start, previous] = [0, '', 0, ''];
  for (const { 0: token, index } of json.matchAll(/"(?:[^"\\]+|\\.)*"|[{}[\],:]/g)) {
    if (depth === 1 && token === ':') [key, start] = [JSON.parse(previous), index + 1];
    if (depth === 1 && (token === ',' || token === '}') && key === name) found = json.slice(start, index).trim();
    if (token === '{' || token === '[') depth += 1;
    if (token === '}' || token === ']') depth -= 1;
    previous = token;
  }
  return found;
}

const MOST_CHARACTERS = 500;
const LONGEST_WAIT_SECONDS = 86_400;

function post({ url, headers = {} }: Webhook, body: string, delivery: string, signal: AbortSignal): Promise<Answer> {
  const request = url.startsWith('https:') ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    request(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'idempotency-key': delivery,
        ...headers,
      },
      signal,
    })
      .on('error', reject)
      .on('response', (response) => {
        let text = '';
        const end = () => {
          const line = text.slice(0, MOST_CHARACTERS).replace(/\s+/g, ' ').trim();
          const retryAfterSeconds = readRetryAfter(response.headers['retry-after']);
          resolve({ status: response.statusCode ?? 0, text: line, retryAfterSeconds });
        };
        response.setEncoding('utf8').on('data', (piece: string) => {
          text = (text + piece).slice(0, MOST_CHARACTERS);
        });
        // The status is what counts, also if the rest does not come.
        response.on('end', end).on('error', end).on('aborted', end);
      })
      .end(body);
  });
}

/** In seconds, or as a date. */
function readRetryAfter(text: string | undefined): number | null {
  if (text === undefined) return null;
  const seconds = /^\d+$/.test(text.trim()) ? Number(text) : Math.ceil((Date.parse(text) - Date.now()) / 1000);
  return Number.isNaN(seconds) ? null : Math.min(Math.max(seconds, 0), LONGEST_WAIT_SECONDS);
}
