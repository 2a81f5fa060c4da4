import { spawn } from 'node:child_process';
import { Agent as HttpAgent, type IncomingMessage, type RequestOptions, STATUS_CODES } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import redirecting from 'follow-redirects';
import type { Settings } from '../../settings/settings.ts';
import { errorCode } from '../../system/base/errors.ts';
import { firstLine, lastLine } from '../../system/base/text.ts';
import { userEnvironment } from '../../system/process/programs.ts';

/** Whether a message has arrived, or why not. */
export type Sent =
  | {
      readonly ok: true;
      /** The answer of the other side. */
      readonly answer: string;
      /** The addresses that were refused, while others have it: a second try would bring it to those twice. */
      readonly refused?: string;
    }
  | {
      readonly ok: false;
      /** One sentence, without secrets. */
      readonly reason: string;
      /** Whether a second try would be refused, too. */
      readonly isPermanent: boolean;
      /** How long the other side asks to wait, in milliseconds; null: it does not say. */
      readonly retryAfterMs: number | null;
    };

export function failed(reason: string, isPermanent = false): Sent {
  return { ok: false, reason, isPermanent, retryAfterMs: null };
}

/** The root, version and environment from which messages are sent. */
export interface SendPlace {
  readonly root: string;
  readonly version: string;
  /** The caller's environment; {@link ownEnvironment} adds the variables of the site's files. */
  readonly environment: NodeJS.ProcessEnv;
  readonly settings: Pick<Settings, 'env' | 'secrets'> & Partial<Pick<Settings, 'given'>>;
  /** Aborted when the time is over, or the runner must stop. */
  readonly signal: AbortSignal;
}

/** A request over node:https: `fetch` needs WebAssembly, which dies where the address space is limited. */
export interface HttpRequest {
  readonly url: string;
  readonly method: 'GET' | 'POST';
  readonly headers: Readonly<Record<string, string>>;
  /** '' sends none. */
  readonly body: string;
  /** Ends the request; the caller bounds its time by it. */
  readonly signal: AbortSignal;
  /** Holds the proxy: `HTTPS_PROXY`, `NO_PROXY` … */
  readonly environment: NodeJS.ProcessEnv;
  /** Whether a redirect is followed. Never with a secret in the body. */
  readonly followsRedirects: boolean;
}

/** A server's answer. */
export interface HttpAnswer {
  readonly status: number;
  /** The beginning of its body. */
  readonly text: string;
  /** How long the server asks to wait, in milliseconds; null: it does not say. */
  readonly retryAfterMs: number | null;
}

const MOST_REDIRECTS = 5;

/** Most bytes of an answer that are read: the first sentence is shown. */
const LONGEST_ANSWER = 16 * 1024;

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
      if (size >= LONGEST_ANSWER) break;
    }
  } catch {
    // The status says whether it has taken the message; the rest is only words.
  }
  return {
    status: answer.statusCode ?? 0,
    text: Buffer.concat(pieces).subarray(0, LONGEST_ANSWER).toString('utf8'),
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

/** Words for the network's errors. */
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

/** Describes a connection that failed: "mail.example.org: it refuses the connection (ECONNREFUSED)". */
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

/** A program that is given a message on stdin. */
interface FedProgram {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  readonly input: string | Buffer;
  readonly signal: AbortSignal;
}

interface ProgramEnd {
  /** Null: it was ended by a signal, or could not be started. */
  readonly exitCode: number | null;
  /** Why it failed, with the last line of its output; null: it succeeded. */
  readonly reason: string | null;
  /** The last line of its output. */
  readonly said: string;
}

/** Most characters of a program's output that are kept for that line. */
const LONGEST_OUTPUT = 8 * 1024;

/** Runs a program in a process group of its own, which is killed as a whole. */
export async function feedProgram(request: FedProgram): Promise<ProgramEnd> {
  const { command, args, cwd, env, input, signal } = request;
  if (signal.aborted) return { exitCode: null, reason: describeAborted(command, signal), said: '' };
  let output = '';
  const child = spawn(command, args, { cwd, env, stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  const end = () => killGroup(child.pid);
  signal.addEventListener('abort', end);
  const keep = (piece: Buffer) => {
    output = (output + piece.toString('utf8')).slice(-LONGEST_OUTPUT);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  // A program need not read its input.
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  try {
    // Programs that it has left running may hold its output open for ever.
    const ended = await new Promise<{ code: number | null; cause: string | null }>((resolve) => {
      child.on('error', ({ message }) => resolve({ code: null, cause: firstLine(message) }));
      child.on('exit', (code, by) =>
        setImmediate(() => resolve({ code, cause: by === null ? null : `ended by ${by}` })),
      );
    });
    return judgeEnd(request, ended, output);
  } finally {
    signal.removeEventListener('abort', end);
    for (const stream of [child.stdout, child.stderr]) stream.destroy();
  }
}

function judgeEnd(
  { command, signal }: FedProgram,
  { code, cause }: { readonly code: number | null; readonly cause: string | null },
  output: string,
): ProgramEnd {
  const said = lastLine(output).slice(0, 300);
  if (code === 0) return { exitCode: 0, reason: null, said };
  if (signal.aborted) return { exitCode: code, reason: describeAborted(command, signal), said };
  const how = cause ?? `exit code ${code}`;
  return { exitCode: code, reason: `${command}: ${how}${said === '' ? '' : `: ${said}`}`, said };
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has just ended.
  }
}

/** The environment of scripts, the same for all callers, with no secret but the named ones. */
export function environmentFor(environment: NodeJS.ProcessEnv, names: readonly string[] = []): NodeJS.ProcessEnv {
  const passed = Object.entries(environment).filter(([name]) => name === 'TZ' || names.includes(name));
  return { ...userEnvironment(environment), ...Object.fromEntries(passed) };
}
