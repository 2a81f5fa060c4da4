import type { IncomingMessage, ServerResponse } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { type AccessOptions, createAccess } from './access/access.ts';
import { answerWorker, forgetOthers, secureAnswer } from './access/browsers.ts';
import { createApi } from './api/api.ts';
import { giveMemoryBackLater } from './give-memory-back.ts';
import { openSite, type SitePlace } from './site.ts';

/** The API of an open site, at a server. */
export interface App {
  readonly answer: (incoming: IncomingMessage, outgoing: ServerResponse) => unknown;
  /** Ends the streams of viewers, so that they notice. */
  endStreams(): void;
  close(): Promise<void>;
}

/** Opens the site, and answers all that is asked of its API. */
export function openApp(place: SitePlace, options: AccessOptions): App {
  const site = openSite(place);
  const api = createApi(site, createAccess(site, options));
  const { url } = options;
  const isHttps = url?.protocol === 'https:';
  const answer = getRequestListener(async (request, env) => {
    giveMemoryBackLater();
    const worker = answerWorker(request);
    if (worker === null) return secureAnswer(await api.fetch(request, env), isHttps);
    if (url === null) for (const [name, value] of Object.entries(forgetOthers)) worker.headers.set(name, value);
    return secureAnswer(worker, isHttps);
  });
  return { answer, endStreams: () => site.feed.close(), close: () => site.close() };
}
