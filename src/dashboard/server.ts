import type { AddressInfo } from 'node:net';
import { createAdaptorServer } from '@hono/node-server';
import { errorCode, UsageError } from '../system/base/errors.ts';
import { createApi } from './api/api.ts';
import type { Api } from './api/route.ts';
import { type BuiltPage, readBuiltPage } from './built-page.ts';
import { openSite, type Site } from './site.ts';

export interface ServerPlace {
  readonly site: Pick<Site, 'root' | 'env' | 'version' | 'now'>;
  readonly host: string;
  /** 0: any that is free. */
  readonly port: number;
  /** The folder of the built command and its page. */
  readonly distFolder: string;
}

export interface RunningServer {
  /** `http://127.0.0.1:8787/` */
  readonly url: string;
  /** Ends open connections, then the server. */
  close(): Promise<void>;
}

/**
 * Serves the dashboard and its API.
 *
 * @throws {UsageError} when the port is taken, or the host is not this machine's
 */
export async function startServer(place: ServerPlace): Promise<RunningServer> {
  const site = openSite(place.site);
  const app = createApp(site, readBuiltPage(place.distFolder));
  const server = createAdaptorServer({ fetch: app.fetch });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(describeListenError(error, place)));
    server.listen(place.port, place.host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  const host = place.host.includes(':') ? `[${place.host}]` : place.host;
  return {
    url: `http://${host}:${port}/`,
    close: async () => {
      // Viewers are told by the end of what they follow.
      site.feed.close();
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        if ('closeAllConnections' in server) server.closeAllConnections();
      });
      site.close();
    },
  };
}

function createApp(site: Site, page: BuiltPage): Api {
  const api = createApi(site, { name: 'anybody', permission: 'manage' });
  const policy = policyOf(page);
  api.get('/', (c) => c.html(page.html, 200, { 'content-security-policy': policy }));
  return api;
}

/** What the page may do where it is served. */
function policyOf({ sources }: BuiltPage): string {
  const more = [
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  return [...sources, ...more].join('; ');
}

function describeListenError(error: Error, { host, port }: ServerPlace): Error {
  const code = errorCode(error);
  if (code === 'EADDRINUSE')
    return new UsageError(`Port ${port} of ${host} is in use; choose another one, or --port 0 for any that is free.`);
  if (code === 'EACCES') return new UsageError(`Port ${port} is reserved for root; choose one from 1024 on.`);
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return new UsageError(`${host} is no address of this machine; 127.0.0.1 always is.`);
  }
  return error;
}
