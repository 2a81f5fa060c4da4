import { signal } from '@preact/signals';
import createClient, { type MaybeOptionalInit } from 'openapi-fetch';
import type { PathsWithMethod } from 'openapi-typescript-helpers';
import { useEffect, useRef, useState } from 'preact/hooks';
import { isOlder } from '../../system/base/log-version.ts';
import type { paths } from '../client/paths.ts';
import { leftPlace } from './left-places.ts';
import { answerFromPage, CUT, embedded } from './source/embedded.ts';
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

/** Answers with sentences, whose times are asked for in the viewer's zone. A report has those of its server. */
const hasSentences = /\/api\/(?:failures|runs(?:\/\d+)?|scripts\/.+)$/;

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

/** Rises each time the viewer has changed something: all that is shown is asked for again. */
export const changes = signal(0);

/** The version of the log that the server told last: what was answered at another one is asked for again. */
const newest = signal('');

/** Whether the server is there: to be shown, as what is on the page grows old without it. */
export const connection = signal<LiveState>('online');

if (!isStatic) {
  followChanges(`${base}/api/events`, {
    onChange: (version) => {
      newest.value = version;
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

/** The frame shows this while there is no connection, once for the whole page. */
export const UNREACHABLE = 'The server cannot be reached.';

export interface Asked<Body> {
  readonly data: Body | null;
  /** Why there is no newer answer; null: there is. */
  readonly problem: string | null;
}

/**
 * An answer of the server, asked for again after each change; the last answer stays until there is a newer one. Of
 * another path, or of another thing in it, nothing is shown until there is an answer.
 */
export function useQuery<P extends GetPath>(path: P, init: MaybeOptionalInit<paths[P], 'get'>): Asked<Answer<P>> {
  const { params } = init as { readonly params?: { readonly path?: unknown } };
  const subject = JSON.stringify([path, params?.path]);
  return useAsked(subject, JSON.stringify([path, init]), (round) => get(path, { ...init }, round));
}

/** Lists that answer piece by piece. */
type ListPath = { [P in GetPath]: Answer<P> extends Page<unknown> ? P : never }[GetPath];

interface Page<Item> {
  readonly items: readonly Item[];
  readonly next: string | null;
}

type ItemOf<P extends ListPath> = Answer<P> extends Page<infer Item> ? Item : never;

export interface List<Item, Body = unknown> {
  /** In their order; null: not known yet. */
  readonly items: readonly Item[] | null;
  /** The answers that they come from; of a log, the newest one alone. */
  readonly pages: readonly Body[];
  readonly problem: string | null;
  /** Asks for further ones; null: no more can be had. */
  readonly more: (() => void) | null;
  /** A report does not hold the rest. */
  readonly isCut: boolean;
}

/**
 * A list, as far as the viewer has asked for it; all of that is asked for again after each change.
 *
 * @param isLog only the newest page is asked for again: older rows stay as they were, though newer ones push them off
 */
export function useList<P extends ListPath>(
  path: P,
  query: Readonly<Record<string, string | number | undefined>>,
  isLog = false,
): List<ItemOf<P>, Answer<P>> {
  const question = JSON.stringify([path, query]);
  const { counts } = leftPlace();
  const [wanted, setWanted] = useState({ question, count: counts.get(question) ?? 1 });
  const count = wanted.question === question ? wanted.count : 1;
  const { data, problem } = useAsked<Read>(question, `${question} ${count}`, async (round, last) => {
    const read: ReadPage = (cursor) =>
      get(path, { params: { query: { ...query, ...(cursor !== null && { cursor }) } } }, round) as Promise<
        Page<unknown>
      >;
    return isLog && last !== null ? await readOn(last, count, read) : await readPages(last, count, read);
  });
  const next = data?.next ?? null;
  const ask = (): void => {
    counts.set(question, count + 1);
    setWanted({ question, count: count + 1 });
  };
  const more = next === null || next === CUT ? null : ask;
  const { items = null, pages = [] } = data ?? {};
  return { items, pages, problem, more, isCut: next === CUT } as List<ItemOf<P>, Answer<P>>;
}

interface Read extends Page<unknown> {
  readonly pages: readonly Page<unknown>[];
  readonly count: number;
}

type ReadPage = (cursor: string | null) => Promise<Page<unknown>>;

async function readPages(last: Read | null, count: number, read: ReadPage): Promise<Read> {
  const pages: Page<unknown>[] = [];
  let next: string | null = null;
  do {
    const page = await read(next);
    pages.push(page);
    next = page.next;
  } while (pages.length < count && next !== null && next !== CUT);
  if (last?.pages.length === pages.length && pages.every((page, index) => page === last.pages[index])) return last;
  return { pages, items: pages.flatMap(({ items }) => items), next, count };
}

/** Reads the newest page of a log again, or the one after those that are known. */
async function readOn(last: Read, count: number, read: ReadPage): Promise<Read> {
  const isFurther = count > last.count;
  const page = await read(isFurther ? last.next : null);
  if (page === last.pages[0]) return last;
  if (isFurther) {
    const known = new Set(last.items.map(idOf));
    const further = page.items.filter((item) => !known.has(idOf(item)));
    return { pages: last.pages, items: [...last.items, ...further], next: page.next, count };
  }
  // Behind the last item of the new page, what is known goes on; where it is not known, items between are missing.
  const end = last.items.findIndex((item) => idOf(item) === idOf(page.items.at(-1)));
  if (page.items.length === 0 || end === -1) return { pages: [page], items: page.items, next: page.next, count };
  return { pages: [page], items: [...page.items, ...last.items.slice(end + 1)], next: last.next, count };
}

function idOf(item: unknown): unknown {
  return (item as { readonly id?: unknown } | undefined)?.id;
}

/** One round of questions, with the answers of the round before by their digests. */
interface Round {
  readonly signal: AbortSignal;
  /** An answer of this version of the log will do; null: the viewer may have changed something since. */
  readonly enough: string | null;
  /** At which versions of the log they were answered. */
  readonly versions: Set<string | null>;
  readonly before: ReadonlyMap<string, unknown>;
  readonly now: Map<string, unknown>;
}

/**
 * An answer that is as it was the last time is the same object, so that nothing needs to be drawn anew.
 *
 * @throws {Error} in words for the viewer
 */
async function get<P extends GetPath>(path: P, init: object, round: Round): Promise<Answer<P>> {
  const { signal, enough, versions, before, now } = round;
  const headers = enough === null ? {} : { 'x-version': enough };
  const { data, error, response } = await client.GET(path, { ...init, signal, headers } as never).catch(() => {
    throw new Error(UNREACHABLE);
  });
  versions.add(response.headers.get('x-version'));
  if (error !== undefined) {
    throw new Error((error as { detail?: string }).detail || `The server answered ${response.status}.`);
  }
  const tag = response.headers.get('etag');
  const answer = (tag === null ? undefined : before.get(tag)) ?? data;
  if (tag !== null) now.set(tag, answer);
  return answer as Answer<P>;
}

function useAsked<Body>(
  subject: string,
  question: string,
  read: (round: Round, last: Body | null) => Promise<Body>,
): Asked<Body> {
  const [asked, setAsked] = useState<Asked<Body> & { readonly subject: string }>({ ...unasked, subject });
  const latest = useRef(asked);
  useEffect(() => {
    let before: ReadonlyMap<string, unknown> = new Map();
    return askAfterChanges(async (signal, enough) => {
      const round = { signal, enough, versions: new Set<string | null>(), before, now: new Map() };
      const last = latest.current.subject === subject ? latest.current : { ...unasked, subject };
      const news = await read(round, last.data).then(
        (data) => ({ data, problem: null, subject }),
        ({ message }: Error) => ({ ...last, problem: message }),
      );
      if (signal.aborted) return null;
      before = round.now;
      if (news.data !== last.data || news.problem !== last.problem) {
        latest.current = news;
        setAsked(news);
      }
      return oldestOf([...round.versions]);
    });
  }, [question]);
  if (asked.subject !== subject) return unasked;
  const isToldByFrame = asked.problem === UNREACHABLE && connection.value !== 'online';
  return isToldByFrame ? { ...asked, problem: null } : asked;
}

const unasked = { data: null, problem: null };

/** Null: one of them is not known, or not of the same server. */
function oldestOf(versions: readonly (string | null)[]): string | null {
  return versions.find((one) => one !== null && versions.every((other) => !isOlder(other, one))) ?? null;
}

/**
 * Asks now and after each change, once at a time: what changes meanwhile is asked for afterwards, or a slow server would
 * never be heard out.
 *
 * @param ask resolves to the oldest version of the log that answered; null: none
 * @returns what ends it
 */
function askAfterChanges(ask: (signal: AbortSignal, enough: string | null) => Promise<string | null>): () => void {
  const abort = new AbortController();
  let [isAsking, isStale] = [false, true];
  let answered: string | null = null;
  let told = newest.peek();
  const isOld = (): boolean => isStale || (told !== newest.peek() && isOlder(answered, newest.peek()));
  const begin = async () => {
    if (isAsking) return;
    isAsking = true;
    while (isOld() && !abort.signal.aborted) {
      const enough = isStale ? null : newest.peek();
      isStale = false;
      told = newest.peek();
      answered = await ask(abort.signal, enough);
    }
    isAsking = false;
  };
  const ends = [
    changes.subscribe(() => {
      isStale = true;
      void begin();
    }),
    newest.subscribe(() => void begin()),
  ];
  return () => {
    for (const end of ends) end();
    abort.abort();
  };
}
