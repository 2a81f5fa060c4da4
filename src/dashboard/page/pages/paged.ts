import { useEffect, useState } from 'preact/hooks';
import type { paths } from '../../client/paths.ts';
import { changes, client } from '../data.ts';
import { CUT } from '../source/embedded.ts';

/** Lists that answer piece by piece. */
type ListPath = {
  [P in keyof paths]: paths[P] extends { get: { responses: { 200: { content: { 'application/json': Page } } } } }
    ? P
    : never;
}[keyof paths];

interface Page {
  readonly items: readonly unknown[];
  readonly next: string | null;
}

type PageOf<P extends ListPath> = paths[P] extends {
  get: { responses: { 200: { content: { 'application/json': infer Body extends Page } } } };
}
  ? Body
  : never;

export interface Pages<Body extends Page> {
  /** In their order, one after the other; null: not known yet. */
  readonly pages: readonly Body[] | null;
  readonly problem: string | null;
  /** Asks for the next one; null: there is none to be had. */
  readonly more: (() => void) | null;
  /** A report does not hold the rest. */
  readonly isCut: boolean;
}

interface Found<Body> {
  readonly key: string;
  readonly pages: readonly Body[] | null;
  readonly problem: string | null;
}

/** A list, as far as the viewer has asked for it; all of that is asked for again after each change. */
export function usePages<P extends ListPath>(
  path: P,
  query: Readonly<Record<string, string | number | undefined>>,
): Pages<PageOf<P>> {
  type Body = PageOf<P>;
  const key = JSON.stringify([path, query]);
  const [wanted, setWanted] = useState({ key, pages: 1 });
  const [found, setFound] = useState<Found<Body>>({ key, pages: null, problem: null });
  const count = wanted.key === key ? wanted.pages : 1;
  useEffect(() => {
    const abort = new AbortController();
    let [isAsking, isStale] = [false, false];
    const tell = (news: Partial<Found<Body>>) =>
      setFound((last) => ({ ...(last.key === key ? last : { key, pages: null, problem: null }), ...news }));
    const ask = async () => {
      isStale = true;
      if (isAsking) return;
      isAsking = true;
      while (isStale && !abort.signal.aborted) {
        isStale = false;
        const news = await readPages<Body>(path, query, count, abort.signal);
        if (!abort.signal.aborted) tell(news);
      }
      isAsking = false;
    };
    // Asks at once, too.
    const end = changes.subscribe(() => void ask());
    return () => {
      end();
      abort.abort();
    };
  }, [key, count]);
  const { pages, problem } = found.key === key ? found : { pages: null, problem: null };
  const next = pages?.at(-1)?.next ?? null;
  const isCut = next === CUT;
  const more = next === null || isCut ? null : () => setWanted({ key, pages: count + 1 });
  return { pages, problem, more, isCut };
}

async function readPages<Body extends Page>(
  path: ListPath,
  query: object,
  count: number,
  signal: AbortSignal,
): Promise<Partial<Found<Body>>> {
  const pages: Body[] = [];
  let cursor: string | null = null;
  while (pages.length < count) {
    const asked = { params: { query: { ...query, ...(cursor !== null && { cursor }) } }, signal } as never;
    const answer = await client.GET(path, asked).catch(() => null);
    if (answer === null) return { problem: 'The server cannot be reached.' };
    const { data, error, response } = answer as { data?: Body; error?: { detail?: string }; response: Response };
    if (data === undefined) return { problem: error?.detail || `The server answered ${response.status}.` };
    pages.push(data);
    cursor = data.next;
    if (cursor === null || cursor === CUT) break;
  }
  return { pages, problem: null };
}
