import createFetchClient, { type Client as FetchClient, type Middleware } from 'openapi-fetch';
import { AT_SOCKET, fetchAt } from './fetch-at-socket.ts';
import type { components, paths } from './paths.ts';

/** Address of the dashboard, and credentials of the caller. */
export type ClientOptions = ClientAtUrl | ClientAtSocket;

export interface ClientAtUrl {
  /** The address of the dashboard, with the base path: `https://example.org/runner/`. */
  readonly url: string | URL;
  readonly socket?: never;
  /** As `npx folder-runner web token add` has printed it. Default: none, for a page of the dashboard's own origin. */
  readonly token?: string;
  /** Default: the global `fetch`. */
  readonly fetch?: (request: Request) => Promise<Response>;
}

/** In Node, on the same machine. */
export interface ClientAtSocket {
  /** The path that `npx folder-runner web` prints: `/home/me/site/.runner/web.sock`. */
  readonly socket: string;
  readonly url?: never;
  /** Default: none, as the socket in the state folder is the owner's own. */
  readonly token?: string;
  readonly fetch?: never;
}

/**
 * All routes of the REST API, with the types of their parameters and answers. Each method resolves to
 * `{ data, error, response }`: `error` is a problem as RFC 9457 has it, and undefined where `data` is there.
 */
export type Client = FetchClient<paths>;

/** Answers by name: `Schemas['Job']`. */
export type Schemas = components['schemas'];

/**
 * A typed client of the REST API, for Node and browsers.
 *
 * @throws {TypeError} if the URL is none
 *
 * @example
 * ```ts
 * import { createClient } from 'folder-runner/client';
 *
 * const runner = createClient({ url: 'https://example.org/runner/', token: process.env.RUNNER_TOKEN ?? '' });
 * const { data, error } = await runner.POST('/api/jobs', { body: { name: 'mail/welcome', data: { to: 'a@b.c' } } });
 * if (error) throw new Error(error.detail);
 * console.log(data.items[0]?.id);
 * ```
 */
export function createClient(options: ClientOptions): Client {
  const { token } = options;
  const base = new URL(options.url ?? AT_SOCKET);
  const fetch = options.socket === undefined ? options.fetch : fetchAt(options.socket);
  const client = createFetchClient<paths>({
    baseUrl: base.origin + base.pathname.replace(/\/$/, ''),
    ...(fetch !== undefined && { fetch }),
    pathSerializer: fillPath,
  });
  client.use(token === undefined ? withCsrf(client) : withToken(token));
  return client;
}

/** Names have slashes, which some servers refuse when they are encoded. */
function fillPath(path: string, values: Readonly<Record<string, unknown>>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(values[name])).replaceAll('%2F', '/'),
  );
}

function withToken(token: string): Middleware {
  return {
    onRequest: ({ request }) => {
      request.headers.set('authorization', `Bearer ${token}`);
      return request;
    },
  };
}

/** A browser's session, or the owner at the socket, says that it was no other page that has asked. */
function withCsrf(client: Client): Middleware {
  let asked: Promise<string | null> | null = null;
  const ask = async (): Promise<string | null> => (await client.GET('/api/session')).data?.csrf ?? null;
  return {
    onRequest: async ({ request, schemaPath }) => {
      const isLogin = schemaPath === '/api/session' && request.method === 'POST';
      if (isLogin || request.method === 'GET') return;
      asked ??= ask();
      const csrf = await asked;
      if (csrf !== null) request.headers.set('x-csrf-token', csrf);
      return request;
    },
    onResponse: ({ response }) => {
      // Another session may have begun: it has another one.
      if (response.status === 401 || response.status === 403) asked = null;
    },
  };
}
