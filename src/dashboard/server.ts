import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createAdaptorServer } from '@hono/node-server';
import { errorCode, PackageIncomplete, UsageError } from '../system/base/errors.ts';
import { createApi } from './api/api.ts';
import type { Api } from './api/route.ts';
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
  const app = createApp(site, readPage(place.distFolder));
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
      await new Promise<void>((resolve) => {
        server.close(() => resolve());
        if ('closeAllConnections' in server) server.closeAllConnections();
      });
      site.close();
    },
  };
}

function createApp(site: Site, page: Page): Api {
  const api = createApi(site, { name: 'anybody', permission: 'manage' });
  api.get('/', (c) => c.html(page.html, 200, { 'content-security-policy': page.policy }));
  return api;
}

interface Page {
  readonly html: string;
  readonly policy: string;
}

/** One file with all it needs, of which the policy lets just its own script and styles take effect. */
export function readPage(distFolder: string): Page {
  const path = join(distFolder, 'dashboard.html');
  let html: string;
  try {
    html = readFileSync(path, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') throw new PackageIncomplete(`${path} is missing`);
    throw error;
  }
  const hashesOf = (tag: string): string =>
    [...html.matchAll(new RegExp(`<${tag}[^>]*>([\\s\\S]*?)</${tag}>`, 'g'))]
      .map(([, text = '']) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`)
      .join(' ');
  const policy = [
    "default-src 'none'",
    `script-src ${hashesOf('script')}`,
    `style-src ${hashesOf('style')}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  return { html, policy: policy.join('; ') };
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
