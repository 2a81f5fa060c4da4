import { type RequestOptions, request } from 'node:http';
import { dirname } from 'node:path';
import { onTestFinished } from 'vitest';
import { hashOf, makeToken } from '../../../src/dashboard/access/tokens.ts';
import { type ServerPlace, startServer } from '../../../src/dashboard/server.ts';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import { apiTokensOf } from '../../../src/store/statements/registers.ts';
import type { TokenPermission } from '../../../src/store/words.ts';
import { createStateFolder, stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { commandPath } from '../calls/run-command.ts';
import { makeTemporaryRoot } from '../places/temporary-root.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
}

export interface Asked {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** As it is told: unlike `fetch`, with whatever `Host` and on a connection of its own. */
export function ask(url: string, path: string, asked: Asked = {}): Promise<Answer> {
  const { hostname, port } = new URL(url);
  return send({ host: hostname.replace(/[[\]]/g, ''), port }, path, asked);
}

/** The same, at a socket. */
export function askAt(socketPath: string, path: string, asked: Asked = {}): Promise<Answer> {
  return send({ socketPath }, path, asked);
}

function send(to: RequestOptions, path: string, { method = 'GET', headers, body }: Asked): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({ ...to, path, method, headers: { ...headers }, agent: false }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk) => chunks.push(chunk));
      answer.on('end', () => {
        const { statusCode: status = 0, headers: told } = answer;
        resolve({ status, headers: told, body: Buffer.concat(chunks).toString() });
      });
      answer.on('error', reject);
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

export interface TestServer {
  readonly url: string;
  readonly listensAt: string;
  readonly root: string;
  /** UTC epoch milliseconds; a test moves it on. */
  readonly clock: { now: number };
  ask(path: string, asked?: Asked): Promise<Answer>;
  /** The token's text. */
  addToken(name: string, permission: TokenPermission, expiresAt?: number): Promise<string>;
  close(): Promise<void>;
}

/** A server within this process, of a root with a log, at any free port, until the test is over. */
export async function startTestServer(options: Partial<ServerPlace> = {}): Promise<TestServer> {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '' });
  const state = stateFolderOf(root);
  createStateFolder(state);
  const store = await openSqliteStore(state);
  onTestFinished(() => store.close());
  const clock = { now: Date.now() };
  const site = { root, env: process.env, version: '0', now: () => clock.now };
  const door = { kind: 'port', host: '127.0.0.1', port: 0 } as const;
  const own = { door, url: null, needsLogin: false, distFolder: dirname(commandPath) };
  const server = await startServer({ site, ...own, ...options });
  let closing: Promise<void> | null = null;
  const close = (): Promise<void> => (closing ??= server.close());
  onTestFinished(close);
  const addToken: TestServer['addToken'] = async (name, permission, expiresAt) => {
    const token = makeToken();
    const hash = hashOf(token);
    await apiTokensOf(store.statements).add({
      name,
      permission,
      hash,
      createdAt: clock.now,
      expiresAt: expiresAt ?? null,
    });
    return token;
  };
  const { url } = server;
  const listensAt = server.listensAt as string;
  return { url, listensAt, root, clock, ask: (path, asked) => ask(listensAt, path, asked), addToken, close };
}

export const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
