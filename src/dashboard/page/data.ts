import { signal } from '@preact/signals';
import createClient, { type MaybeOptionalInit } from 'openapi-fetch';
import type { PathsWithMethod } from 'openapi-typescript-helpers';
import { useEffect, useState } from 'preact/hooks';
import type { paths } from '../client/paths.ts';
import { answerFromPage, embedded } from './source/embedded.ts';
import { followChanges, type LiveState } from './source/live.ts';

/** Whether this page was written into a file, where nothing changes and nothing can be managed. */
export const isStatic = embedded !== null;

/** Its folder: a proxy that removes a path may serve the page at `/runner`, without a slash. */
const base = `${location.origin}${location.pathname.replace(/\/$/, '')}`;

export const client = createClient<paths>(
  isStatic ? { baseUrl: 'http://static.invalid', fetch: answerFromPage } : { baseUrl: base },
);

/** The viewer's own zone: `Europe/Berlin`. */
export const viewerZone: string = new Intl.DateTimeFormat().resolvedOptions().timeZone;

/** What answers with sentences gives the times in them by the viewer's clock. A report has those of its server. */
const hasSentences = /\/api\/(?:runs(?:\/\d+)?|why\/.+)$/;

if (!isStatic) {
  client.use({
    onRequest: ({ request }) => {
      const url = new URL(request.url);
      if (request.method !== 'GET' || !hasSentences.test(url.pathname)) return undefined;
      url.searchParams.set('zone', viewerZone);
      return new Request(url, request);
    },
  });
}

/** Rises each time something may have changed: whoever shows something of it asks again. */
export const changes = signal(0);

/** Whether the server is there: to be shown, as what is on the page grows old without it. */
export const connection = signal<LiveState>('online');

if (!isStatic) {
  followChanges(`${base}/api/events`, {
    onChange: () => {
      changes.value += 1;
    },
    onConnection: (state) => {
      connection.value = state;
    },
  });
}

type GetPath = PathsWithMethod<paths, 'get'>;
type Answer<P extends GetPath> = paths[P] extends {
  get: { responses: { 200: { content: { 'application/json': infer Body } } } };
}
  ? Body
  : never;

export interface Asked<Body> {
  readonly data: Body | null;
  /** Why there is no newer answer; null: there is. */
  readonly problem: string | null;
}

const UNASKED = { data: null, problem: null };

/**
 * What the server answers, asked again after each change; the last answer stays until there is a newer one. Of
 * another path, or of another thing in it, nothing is shown until there is an answer.
 */
export function useAnswer<P extends GetPath>(path: P, init: MaybeOptionalInit<paths[P], 'get'>): Asked<Answer<P>> {
  const [asked, setAsked] = useState<Asked<Answer<P>> & { readonly subject: string }>({ ...UNASKED, subject: '' });
  const { params } = init as { readonly params?: { readonly path?: unknown } };
  const subject = JSON.stringify([path, params?.path]);
  const question = JSON.stringify([path, init]);
  useEffect(() => {
    const abort = new AbortController();
    const ask = createAsker(path, init, abort.signal, (news) =>
      setAsked((last) => ({ ...(last.subject === subject ? last : UNASKED), ...news, subject })),
    );
    // Asks at once, too.
    const end = changes.subscribe(ask);
    return () => {
      end();
      abort.abort();
    };
  }, [question]);
  return asked.subject === subject ? asked : UNASKED;
}

/** Asks once at a time: what changes meanwhile is asked for afterwards, or a slow server would never be heard out. */
function createAsker<P extends GetPath>(
  path: P,
  init: MaybeOptionalInit<paths[P], 'get'>,
  signal: AbortSignal,
  tell: (news: Partial<Asked<Answer<P>>>) => void,
): () => void {
  let isAsking = false;
  let isStale = false;
  let tag: string | null = null;
  const askOnce = async (): Promise<void> => {
    const { data, error, response } = await client.GET(path, { ...init, signal } as never);
    if (signal.aborted) return;
    if (error !== undefined) {
      tag = null;
      tell({ problem: (error as { detail?: string }).detail || `The server answered ${response.status}.` });
      return;
    }
    const newTag = response.headers.get('etag');
    // Nothing needs to be drawn anew.
    if (newTag !== null && newTag === tag) return;
    tag = newTag;
    tell({ data: data as Answer<P>, problem: null });
  };
  const ask = async (): Promise<void> => {
    isStale = true;
    if (isAsking) return;
    isAsking = true;
    while (isStale && !signal.aborted) {
      isStale = false;
      await askOnce().catch(() => {
        tag = null;
        if (!signal.aborted) tell({ problem: 'The server cannot be reached.' });
      });
    }
    isAsking = false;
  };
  return () => void ask();
}
