import { setTimeout as wait } from 'node:timers/promises';
import { z } from '@hono/zod-openapi';
import type { MiddlewareHandler } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { type SSEStreamingApi, streamSSE } from 'hono/streaming';
import type { ChangeFeed } from '../live/feed.ts';
import { type Api, type ApiEnv, defineRoute } from './route.ts';

const versionSchema = z.object({ version: z.string().openapi({ example: 'm9x2k1a.17' }) }).openapi('Version');

const eventsRoute = defineRoute('wall', {
  operationId: 'followChanges',
  method: 'get',
  path: '/api/events',
  summary: 'A stream of `changed` events, at most one a second, until you disconnect',
  description:
    'The `id` and `data` of an event are a version, which is another one after each change. If the request asks for ' +
    'JSON (`Accept: application/json`), the answer is the current version: for use where a proxy holds streams back.',
  responses: {
    200: {
      description: 'The stream, or the current version',
      content: {
        'text/event-stream': {
          schema: z.string().openapi({ example: 'event: changed\nid: m9x2k1a.17\ndata: m9x2k1a.17\n\n' }),
        },
        'application/json': { schema: versionSchema },
      },
    },
  },
});

/** Tells at which version of the log something was answered: whoever follows changes then knows what is older. */
export const markVersion: MiddlewareHandler<ApiEnv> = async (c, next) => {
  const isFollowed = c.req.method === 'GET' && c.env?.incoming !== undefined && !c.req.path.endsWith('/output');
  // Looked at first: an answer is at least as new as its mark.
  if (isFollowed) c.set('version', await c.var.site.feed.look());
  await next();
  const { version } = c.var;
  if (version !== undefined) c.res.headers.set('x-version', version);
};

/** With one token, or as the owner: more are no people, and others follow, too. */
const MOST_STREAMS = 200;

/** @param patienceMs who has not read an event by then is gone */
export function addEventRoutes(api: Api, patienceMs = 20_000): void {
  const streams = new Map<string, number>();
  api.openapi(eventsRoute, async (c) => {
    const { feed } = c.var.site;
    if (/\bjson\b/.test(c.req.header('accept') ?? '')) {
      return c.json({ version: await feed.look() }, 200, { 'cache-control': 'no-store' });
    }
    const { name } = c.var.caller;
    if ((streams.get(name) ?? 0) >= MOST_STREAMS) {
      throw new HTTPException(503, { message: `Too many viewers follow changes as ${name}; try again later.` });
    }
    const count = (by: 1 | -1): void => void streams.set(name, (streams.get(name) ?? 0) + by);
    count(1);
    const response = streamSSE(c, async (stream) => {
      await tellViewer(stream, feed, patienceMs).finally(() => count(-1));
      // A connection that is full would stay for as long as its reader likes.
      if (stream.aborted) (c.env as Partial<NodeBindings> | undefined)?.outgoing?.destroy();
    });
    response.headers.set('cache-control', 'no-cache, no-transform');
    // nginx and Passenger would else keep events back until they make a page.
    response.headers.set('x-accel-buffering', 'no');
    return response;
  });
}

interface NodeBindings {
  readonly outgoing: { destroy(): void };
}

/** A proxy takes a connection for dead that is quiet for longer. */
const HEARTBEAT_MS = 20_000;

const RETRY_MS = 2000;

/** Until the viewer goes, or the server ends. Versions that a slow viewer has missed are left out. */
async function tellViewer(stream: SSEStreamingApi, feed: ChangeFeed, patienceMs: number): Promise<void> {
  let version = '';
  let sent = '';
  let wake = new AbortController();
  const wakeUp = (): void => wake.abort();
  const stop = feed.follow((newest) => {
    version = newest;
    wakeUp();
  });
  stream.onAbort(wakeUp);
  feed.over.addEventListener('abort', wakeUp);
  try {
    const found = await feed.look();
    // A version that arrived meanwhile is newer.
    version ||= found;
    while (!stream.aborted && !feed.over.aborted) {
      wake = new AbortController();
      const writing =
        version === sent
          ? stream.write(': still there\n\n')
          : stream.writeSSE({ event: 'changed', id: version, data: version, retry: RETRY_MS });
      sent = version;
      if (!(await isDoneWithin(patienceMs, writing))) return stream.abort();
      if (version === sent) await wait(HEARTBEAT_MS, undefined, { signal: wake.signal }).catch(() => undefined);
    }
  } finally {
    stop();
    feed.over.removeEventListener('abort', wakeUp);
  }
}

async function isDoneWithin(ms: number, work: Promise<unknown>): Promise<boolean> {
  const timeout = new AbortController();
  const late = wait(ms, false, { signal: timeout.signal, ref: false }).catch(() => false);
  const isDone = await Promise.race([work.then(() => true), late]);
  timeout.abort();
  return isDone;
}
