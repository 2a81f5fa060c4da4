import { signal } from '@preact/signals';
import createClient, { type MaybeOptionalInit } from 'openapi-fetch';
import type { PathsWithMethod } from 'openapi-typescript-helpers';
import { useEffect, useState } from 'preact/hooks';
import type { paths } from '../client/paths.ts';

/** Answers that the static report carries within it, by path and query; null: there is a server. */
const embedded: Readonly<Record<string, unknown>> | null = readEmbedded();

function readEmbedded(): Readonly<Record<string, unknown>> | null {
  const text = document.getElementById('data')?.textContent;
  return text ? JSON.parse(text) : null;
}

/** Whether this page was written into a file, where nothing changes and nothing can be managed. */
export const isStatic = embedded !== null;

async function answerFromPage(request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url);
  const answer = embedded?.[pathname + search] ?? embedded?.[pathname];
  if (answer !== undefined) return Response.json(answer);
  return Response.json({ type: 'about:blank', title: 'Not in this report', status: 404 }, { status: 404 });
}

export const client = createClient<paths>(
  isStatic
    ? { baseUrl: 'http://static.invalid', fetch: answerFromPage }
    : { baseUrl: new URL('.', location.href).href.replace(/\/$/, '') },
);

/** Rises each time the log has changed: whoever shows something of it asks again. */
export const changes = signal(0);

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

/** What the server answers, asked again after each change; the last answer stays until there is a newer one. */
export function useAnswer<P extends GetPath>(path: P, init: MaybeOptionalInit<paths[P], 'get'>): Asked<Answer<P>> {
  const [asked, setAsked] = useState<Asked<Answer<P>>>({ data: null, problem: null });
  const key = JSON.stringify(init);
  const change = changes.value;
  useEffect(() => {
    const abort = new AbortController();
    const ask = async () => {
      const options = { ...init, signal: abort.signal } as never;
      const { data, error } = await client.GET(path, options);
      if (error) setAsked((last) => ({ ...last, problem: (error as { detail?: string }).detail ?? 'refused' }));
      else setAsked({ data: data as Answer<P>, problem: null });
    };
    ask().catch((error: unknown) => {
      if (!abort.signal.aborted) setAsked((last) => ({ ...last, problem: String(error) }));
    });
    return () => abort.abort();
  }, [path, key, change]);
  return asked;
}
