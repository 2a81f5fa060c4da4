import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Context, MiddlewareHandler } from 'hono';
import { isOlder } from '../../system/base/log-version.ts';
import type { ApiEnv } from '../api/route.ts';

interface MemoLimits {
  /** As time passes in answers, too. */
  readonly maxAgeMs: number;
  readonly maxAnswers: number;
  readonly maxBytes: number;
}

const usualLimits: MemoLimits = { maxAgeMs: 2000, maxAnswers: 200, maxBytes: 16 * 1024 * 1024 };

interface Wanted {
  /** An answer of this version will do. */
  readonly enough: string | undefined;
}

/** An answer, whoever asked. */
interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
  /** The body's digest. */
  readonly tag: string;
  /** Made once somebody takes it so. */
  gzipped: Promise<Uint8Array<ArrayBuffer>> | null;
}

interface Kept extends Moment {
  readonly answer: Promise<Answer>;
  /** 0: it is not there yet. */
  bytes: number;
}

/** The state of the log and the server that an answer shows. */
interface Moment {
  readonly revision: string;
  /** The log's version, as viewers are told it; absent: nobody follows the log. */
  readonly version: string | undefined;
}

/** Paths with answers that differ between viewers, or never end. */
const own = /\/(?:events|session|output)$/;

/**
 * Computes the answer to the same question about the same log once, for all callers with the same rights. A viewer that
 * names the version it was told (`X-Version`) gets an answer of that version or a newer one, though the log may have
 * changed since: the viewer is told of that, too. A caller that has the answer already gets 304 (ETag). Long answers are
 * compressed.
 */
export function rememberAnswers(limits: MemoLimits = usualLimits): MiddlewareHandler<ApiEnv> {
  const memo = createMemo(limits);
  return async (c, next) => {
    const { site, caller } = c.var;
    if (c.req.method !== 'GET' || own.test(c.req.path)) return await next();
    // A log that cannot be looked at is for the route to tell of.
    const revision = await site.revision().catch(() => null);
    if (revision === null) return await next();
    const { pathname, search } = new URL(c.req.url);
    const key = [caller.permission, pathname + search, c.req.header('accept')].join('\n');
    const now = { revision, version: c.var.version };
    const found = memo.find(key, { ...now, enough: c.req.header('x-version') }, async () => {
      await next();
      return await readAnswer(c.res);
    });
    if (found.revision !== revision && found.version !== undefined) c.set('version', found.version);
    const answer = await found.answer;
    // Unset first: headers of the one before would stay.
    c.res = undefined;
    c.res = await respond(c, answer);
  };
}

function createMemo({ maxAgeMs, maxAnswers, maxBytes }: MemoLimits) {
  /** The oldest first. */
  const kept = new Map<string, Kept>();
  let bytes = 0;
  const drop = (key: string, one: Kept): void => {
    if (kept.get(key) !== one) return;
    kept.delete(key);
    bytes -= one.bytes;
  };
  const keep = (key: string, one: Kept, { status, body }: Answer): void => {
    if (kept.get(key) !== one) return;
    if (status !== 200) {
      drop(key, one);
      return;
    }
    setTimeout(drop, maxAgeMs, key, one).unref();
    // With as much again for what is compressed of it.
    one.bytes = 2 * body.length;
    bytes += one.bytes;
    for (const [other, older] of kept) {
      if (kept.size <= maxAnswers && bytes <= maxBytes) break;
      drop(other, older);
    }
  };
  const find = (key: string, { revision, version, enough }: Moment & Wanted, compute: () => Promise<Answer>): Kept => {
    const found = kept.get(key);
    if (found?.revision === revision) return found;
    if (found?.version !== undefined && enough !== undefined && !isOlder(found.version, enough)) return found;
    if (found !== undefined) drop(key, found);
    const one: Kept = { revision, version, answer: compute(), bytes: 0 };
    kept.set(key, one);
    one.answer.then(
      (answer) => keep(key, one, answer),
      () => drop(key, one),
    );
    return one;
  };
  return { find };
}

async function readAnswer(response: Response): Promise<Answer> {
  const body = new Uint8Array(await response.arrayBuffer());
  const tag = createHash('sha256').update(body).digest('base64url');
  return { status: response.status, headers: response.headers, body, tag, gzipped: null };
}

/** Shorter ones are not sent any sooner. */
const LEAST_COMPRESSED_BYTES = 1024;

async function respond(c: Context, answer: Answer): Promise<Response> {
  const headers = new Headers(answer.headers);
  if (answer.status !== 200) return new Response(answer.body, { status: answer.status, headers });
  const isCompressed = answer.body.length > LEAST_COMPRESSED_BYTES && takesGzip(c.req.header('accept-encoding'));
  headers.set('etag', isCompressed ? `"${answer.tag}-gzip"` : `"${answer.tag}"`);
  // Kept by whom it was given to alone, and never shown without asking whether it still holds.
  headers.set('cache-control', 'private, no-cache');
  headers.append('vary', 'accept-encoding');
  if (isKnown(c.req.header('if-none-match'), answer.tag)) return new Response(null, { status: 304, headers });
  if (!isCompressed) return new Response(answer.body, { headers });
  headers.set('content-encoding', 'gzip');
  headers.delete('content-length');
  answer.gzipped ??= compress(answer.body);
  return new Response(await answer.gzipped, { headers });
}

/** Whether the one who asks has the answer with that digest, in either form. */
export function isKnown(ifNoneMatch: string | undefined, tag: string): boolean {
  const known = ifNoneMatch?.split(',').map((each) => each.trim().replace(/^W\//, ''));
  return known?.some((each) => each === '*' || each === `"${tag}"` || each === `"${tag}-gzip"`) ?? false;
}

export function takesGzip(acceptEncoding = ''): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(?:\.0+)?\s*(?:,|$))/i.test(acceptEncoding);
}

async function compress(body: Uint8Array): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await promisify(gzip)(body));
}
