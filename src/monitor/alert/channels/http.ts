import { Agent as HttpAgent, type IncomingMessage, type RequestOptions, STATUS_CODES } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import redirecting from 'follow-redirects';
import { errorCode } from '../../../system/base/errors.ts';
import { firstLine } from '../../../system/base/text.ts';
import type { Sent } from './sent.ts';

/** A request over node:https: `fetch` needs WebAssembly, which dies where the address space is limited. */
export interface HttpRequest {
  readonly url: string;
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  /** '' sends none. */
  readonly body: string;
  /** Ends it; whoever calls bounds its time by it. */
  readonly signal: AbortSignal;
  /** Of these the proxy is taken: `HTTPS_PROXY`, `NO_PROXY` … */
  readonly environment: NodeJS.ProcessEnv;
  /** Whether another address that the server names is asked instead. Not where the body holds a secret. */
  readonly followsRedirects: boolean;
}

/** What a server has answered. */
export interface HttpAnswer {
  readonly status: number;
  /** The beginning of its body. */
  readonly text: string;
  /** How long it wants to be left alone; null: it does not say. */
  readonly retryAfterMs: number | null;
}

const MOST_REDIRECTS = 5;

/** An answer is read for the sentence in it. */
const MOST_BYTES = 16 * 1024;

/**
 * Sends one request and reads the beginning of the answer. Redirects are followed, at most five, never from https
 * to http, and never where that would drop the body.
 *
 * @throws {Error} with a sentence that names the host and nothing else of the URL, which may be a secret
 */
export async function sendHttp(request: HttpRequest): Promise<HttpAnswer> {
  const { signal, environment } = request;
  const url = new URL(request.url);
  const proxied = { proxyEnv: environment } as object;
  const agents = { http: new HttpAgent(proxied), https: new HttpsAgent(proxied) };
  const options = {
    agents,
    signal,
    method: request.method,
    headers: { ...request.headers, ...lengthOf(request) },
    followRedirects: request.followsRedirects,
    maxRedirects: MOST_REDIRECTS,
    maxBodyLength: Number.POSITIVE_INFINITY,
    beforeRedirect: (next: RequestOptions) => refuseWorse(url, request, next),
  };
  try {
    return await new Promise<HttpAnswer>((resolve, reject) => {
      const take = (answer: IncomingMessage) => void readAnswer(answer).then(resolve, reject);
      const { http, https } = redirecting;
      const isSecure = url.protocol === 'https:';
      const outgoing = isSecure ? https.request(url, options, take) : http.request(url, options, take);
      outgoing.on('error', reject);
      outgoing.end(request.body);
    });
  } catch (error) {
    throw new Error(describeFailure(url, error, signal), { cause: error });
  } finally {
    agents.http.destroy();
    agents.https.destroy();
  }
}

function lengthOf({ method, body }: HttpRequest): Record<string, string> {
  return method === 'GET' ? {} : { 'content-length': String(Buffer.byteLength(body)) };
}

/** @throws {Error} where the redirect would show the message to others on the way, or leave it out */
function refuseWorse(from: URL, { method }: HttpRequest, next: RequestOptions): void {
  if (from.protocol === 'https:' && next.protocol !== 'https:') {
    throw new Error('it redirects to an address without TLS');
  }
  if (method !== next.method) {
    throw new Error('it redirects in a way that drops the message: set the address that it redirects to');
  }
}

async function readAnswer(answer: IncomingMessage): Promise<HttpAnswer> {
  const pieces: Buffer[] = [];
  let size = 0;
  try {
    for await (const piece of answer as AsyncIterable<Buffer>) {
      pieces.push(piece);
      size += piece.length;
      if (size >= MOST_BYTES) break;
    }
  } catch {
    // The status says whether it has taken the message; the rest is only words.
  }
  return {
    status: answer.statusCode ?? 0,
    text: Buffer.concat(pieces).subarray(0, MOST_BYTES).toString('utf8'),
    retryAfterMs: readRetryAfter(answer.headers['retry-after']),
  };
}

/** In seconds, or as a date. */
export function readRetryAfter(text: string | undefined, now = Date.now()): number | null {
  if (text === undefined) return null;
  if (/^\d{1,9}(?:\.\d+)?$/.test(text.trim())) return Math.ceil(Number(text) * 1000);
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}

/** What the network's errors mean. */
const failures: Readonly<Record<string, string>> = {
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'its address could not be looked up',
  ECONNREFUSED: 'it refuses the connection',
  ECONNRESET: 'it closed the connection without an answer',
  EPIPE: 'it closed the connection without an answer',
  ETIMEDOUT: 'it could not be reached',
  ENETUNREACH: 'it could not be reached',
  EHOSTUNREACH: 'it could not be reached',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is self-signed',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate could not be verified',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate could not be verified',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is of another host',
  ERR_FR_TOO_MANY_REDIRECTS: 'it redirects again and again',
};

/** Of any connection that failed: "mail.example.org: it refuses the connection (ECONNREFUSED)". */
export function describeNetworkFailure(host: string, error: unknown): string {
  const code = errorCode(error);
  const known = failures[code];
  const message = error instanceof Error ? firstLine(error.message) : String(error);
  return known === undefined ? `${host}: ${message}` : `${host}: ${known} (${code})`;
}

function describeFailure({ host }: URL, error: unknown, signal: AbortSignal): string {
  if (signal.aborted) return describeAborted(host, signal);
  const isOfLibrary = errorCode(error) === 'ERR_FR_REDIRECTION_FAILURE';
  return describeNetworkFailure(host, isOfLibrary ? (error as Error).cause : error);
}

/** "mail.example.org: no answer in time" */
export function describeAborted(host: string, { reason }: AbortSignal): string {
  const isLate = reason instanceof Error && reason.name === 'TimeoutError';
  return `${host}: ${isLate ? 'no answer in time' : 'given up, as the runner was told to stop'}`;
}

/** Whether what a server has answered means that it has the message. */
export function judgeAnswer(url: string, { status, text, retryAfterMs }: HttpAnswer): Sent {
  const { host } = new URL(url);
  const said = firstLine(text).slice(0, 200);
  const status_ = `${status} ${STATUS_CODES[status] ?? ''}`.trim();
  const answer = `${host} answered ${status_}${said === '' ? '' : `: ${said}`}`;
  if (status >= 200 && status < 300) return { ok: true, answer };
  const isPermanent = status >= 300 && status < 500 && status !== 408 && status !== 425 && status !== 429;
  return { ok: false, reason: answer, isPermanent, retryAfterMs };
}
