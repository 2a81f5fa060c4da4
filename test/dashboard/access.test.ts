import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { uidOfPeer } from '../../src/dashboard/access/peer.ts';
import { createApi } from '../../src/dashboard/api/api.ts';
import { apiDocument } from '../../src/dashboard/api/document.ts';
import type { Demand } from '../../src/dashboard/api/route.ts';
import { openSqliteStore } from '../../src/store/sqlite/open.ts';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { type Answer, type Asked, bearer, startTestServer, type TestServer } from '../support/web-server.ts';

interface TestedRoute {
  readonly method: string;
  readonly path: string;
  readonly demanded: Demand;
}

const api = createApi(null as never, null as never);

/** `/api/jobs/{id}`, `/api/jobs/:id{.+}` → `/api/jobs/1` */
const fill = (path: string): string => path.replace(/:\w+(?:\{[^}]+\})?|\{[^}]+\}/g, '1');

/** Of the document, with what its `security` says. */
const described: readonly TestedRoute[] = Object.entries(apiDocument(api, '0').paths ?? {}).flatMap(([path, item]) =>
  Object.entries(item as Record<string, { security?: { token?: Demand[] }[] }>).map(([method, { security = [] }]) => ({
    method: method.toUpperCase(),
    path: fill(path),
    demanded: security[0]?.token?.[0] ?? 'none',
  })),
);

/** What the app answers, whether it is in the document or not. */
const answered = api.routes
  .filter(({ method }) => method !== 'ALL')
  .map(({ method, path }) => ({ method, path: fill(path) }));

const routes: readonly TestedRoute[] = [
  ...described,
  ...answered
    .filter((each) => !described.some(({ method, path }) => method === each.method && path === each.path))
    .map((each): TestedRoute => ({ ...each, demanded: 'read' })),
];

const closed = routes.filter(({ demanded }) => demanded !== 'none');
const managing = routes.filter(({ demanded }) => demanded === 'manage');

const LONG_MS = 3_600_000;

/** Each route in turn, on a server of its own; so late after the one before that no limit counts. */
async function askAll(
  asked: Asked,
  of: readonly TestedRoute[] = closed,
  server?: TestServer,
): Promise<Record<string, number>> {
  const { ask, clock } = server ?? (await startTestServer());
  const statuses: Record<string, number> = {};
  for (const { method, path } of of) {
    statuses[`${method} ${path}`] = (await ask(path, { method, ...asked })).status;
    clock.now += LONG_MS;
  }
  return statuses;
}

const all = (of: readonly TestedRoute[], status: number) =>
  Object.fromEntries(of.map(({ method, path }) => [`${method} ${path}`, status]));

async function logIn({ ask }: TestServer, token: string): Promise<{ cookie: string; csrf: string; answer: Answer }> {
  const body = JSON.stringify({ token });
  const answer = await ask('/api/session', { method: 'POST', body, headers: { 'content-type': 'application/json' } });
  const cookie = String(answer.headers['set-cookie']).split(';')[0] as string;
  return { cookie, csrf: (JSON.parse(answer.body) as { csrf: string }).csrf, answer };
}

describe('each route', () => {
  test('says whom it is for; only logging in is for anybody', () => {
    expect(routes.filter(({ demanded }) => demanded === 'none')).toEqual([
      { method: 'POST', path: '/api/session', demanded: 'none' },
    ]);
    expect(closed.length).toBeGreaterThan(3);
  });

  test('refuses who has no credential', async () => {
    expect(await askAll({})).toEqual(all(closed, 401));
  });

  test('refuses a token that is unknown, malformed, expired or revoked', async () => {
    const server = await startTestServer();
    const unknown = `frt_${'x'.repeat(43)}`;
    expect(await askAll({ headers: bearer(unknown) }, closed, server)).toEqual(all(closed, 401));
    const token = await server.addToken('old', 'manage', server.clock.now + 1_000);
    expect((await server.ask('/api/session', { headers: bearer(token) })).status).toBe(200);
    server.clock.now += 1_000;
    expect(await askAll({ headers: bearer(token) }, closed, server)).toEqual(all(closed, 401));
    const revoked = await server.addToken('lost', 'manage');
    const { cookie } = await logIn(server, revoked);
    const store = await openSqliteStore(stateFolderOf(server.root));
    await store.tokens.remove('lost');
    await store.close();
    for (const headers of [bearer(revoked), { cookie }]) {
      expect(await askAll({ headers }, closed, server)).toEqual(all(closed, 401));
    }
    const sound = await server.addToken('sound', 'manage');
    const malformed = [
      'Bearer',
      'Bearer ',
      `Basic ${sound}`,
      sound,
      `Bearer ${sound}x`,
      `Bearer x ${sound}`,
      'Bearer %',
    ];
    for (const authorization of malformed) {
      expect([authorization, (await server.ask('/api/session', { headers: { authorization } })).status]).toEqual([
        authorization,
        401,
      ]);
      server.clock.now += LONG_MS;
    }
  });

  test('that changes something refuses who may read, and a session without the header', async () => {
    const server = await startTestServer();
    const reader = bearer(await server.addToken('reader', 'read'));
    expect(await askAll({ headers: reader }, managing, server)).toEqual(all(managing, 403));
    const { cookie, csrf } = await logIn(server, await server.addToken('laptop', 'manage'));
    const other = await logIn(server, await server.addToken('other', 'manage'));
    server.clock.now -= managing.length * LONG_MS;
    const changing = closed.filter(({ method, demanded }) => demanded === 'manage' || method !== 'GET');
    for (const headers of [{ cookie }, { cookie, 'x-csrf-token': 'x' }, { cookie, 'x-csrf-token': other.csrf }]) {
      const { clock } = server;
      const before = clock.now;
      expect(await askAll({ headers }, changing, server)).toEqual(all(changing, 403));
      clock.now = before;
    }
    const headers = { cookie, 'x-csrf-token': csrf };
    expect((await server.ask('/api/session', { method: 'DELETE', headers })).status).toBe(204);
  });

  test('refuses foreign names, and pages of other origins', async () => {
    const server = await startTestServer();
    const token = await server.addToken('laptop', 'manage');
    const { host } = new URL(server.url);
    const foreign = [
      { host: 'evil.example' },
      { host: `evil.example:${new URL(server.url).port}` },
      { host: '127.0.0.1.evil.example' },
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { origin: 'http://127.0.0.1:1' },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
    ];
    for (const headers of foreign) {
      const asked = { headers: { host, ...bearer(token), ...headers } };
      expect(await askAll(asked, routes, server)).toEqual(all(routes, 403));
    }
    for (const path of ['/', '/nothing']) {
      expect((await server.ask(path, { headers: { host: 'evil.example' } })).status).toBe(403);
    }
    const own = { ...bearer(token), origin: `http://${host}`, 'sec-fetch-site': 'same-origin' };
    expect((await server.ask('/api/session', { headers: own })).status).toBe(200);
    for (const name of ['localhost:9000', '[::1]:9000', '127.0.0.1']) {
      expect((await server.ask('/api/session', { headers: { ...bearer(token), host: name } })).status).toBe(200);
    }
  });

  test('that says nothing of whom it is for is refused', async () => {
    const server = await startTestServer();
    const { createAccess } = await import('../../src/dashboard/access/access.ts');
    const { openSite } = await import('../../src/dashboard/site.ts');
    const site = openSite({ distFolder: '', root: server.root, env: {}, version: '0', now: Date.now });
    onTestFinished(() => site.close());
    const app = createApi(site, createAccess(site, { url: null, host: '127.0.0.1', isOwnTrusted: false, key: null }));
    app.get('/api/new', (c) => c.text('secret'));
    const headers = { host: 'localhost', ...bearer(await server.addToken('laptop', 'manage')) };
    expect((await app.request('/api/session', { headers })).status).toBe(200);
    const answer = await app.request('/api/new', { headers });
    expect([answer.status, await answer.text()]).toEqual([404, expect.not.stringContaining('secret')]);
  });
});

describe('a connection of this user’s own', () => {
  test('needs no credential, and the header where it changes something', async () => {
    const { ask } = await startTestServer({ needsLogin: false });
    const answer = await ask('/api/session');
    expect([answer.status, JSON.parse(answer.body)]).toEqual([
      200,
      { name: `user ${process.geteuid?.()}`, permission: 'manage', csrf: expect.any(String), expiresAt: null },
    ]);
    expect((await ask('/api/session', { method: 'DELETE' })).status).toBe(403);
    const { csrf } = JSON.parse(answer.body) as { csrf: string };
    expect((await ask('/api/session', { method: 'DELETE', headers: { 'x-csrf-token': csrf } })).status).toBe(204);
  });

  test('is a stranger’s where it passes on what others ask', async () => {
    const forwarded = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'via', 'x-real-ip', 'cf-connecting-ip'];
    for (const name of forwarded) {
      const server = await startTestServer({ needsLogin: false });
      expect([name, await askAll({ headers: { [name]: '1.2.3.4' } }, closed, server)]).toEqual([
        name,
        all(closed, 401),
      ]);
    }
  });

  test('is a stranger’s where a wrong token is sent along, and behind an address of a proxy', async () => {
    const { ask } = await startTestServer({ needsLogin: false });
    expect((await ask('/api/session', { headers: bearer('x') })).status).toBe(401);
    const behind = await startTestServer({ needsLogin: false, url: new URL('https://example.org/base') });
    expect((await ask('/api/session')).status).toBe(200);
    expect((await behind.ask('/api/session', { headers: { host: 'example.org' } })).status).toBe(401);
  });

  test.each(['127.0.0.1', '::1', '::ffff:127.0.0.1'])('is known by %s', async (address) => {
    const server = createServer();
    onTestFinished(() => void server.close());
    const isThere = await new Promise((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(0, address === '127.0.0.1' ? address : '::', () => resolve(true));
    });
    // A machine without IPv6.
    if (!isThere) return;
    const { port } = server.address() as { port: number };
    const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
    const client = connect(port, address);
    onTestFinished(() => void client.destroy());
    const socket = await accepted;
    expect(await uidOfPeer(socket)).toBe(process.geteuid?.());
    const { remoteAddress, remotePort, localAddress, localPort } = socket;
    const ends = { remoteAddress, remotePort, localAddress, localPort };
    // The kernel says of a connection that nobody has any more that it is root's.
    socket.on('error', () => {}).resume();
    const ended = new Promise((resolve) => socket.once('end', resolve));
    client.destroy();
    await ended;
    expect(await uidOfPeer(ends)).toBe(null);
    // As Passenger's loader tells it of its own socket.
    expect(await uidOfPeer({ remoteAddress: '127.0.0.1', remotePort: 0 })).toBe(null);
  });
});

describe('a session', () => {
  test('is opened by a token, has its permission, and ends with it, by logging out, and with its time', async () => {
    const server = await startTestServer();
    const { clock } = server;
    const token = await server.addToken('laptop', 'read', clock.now + 3_600_000);
    const { cookie, csrf, answer } = await logIn(server, token);
    expect([answer.status, answer.headers['set-cookie']?.[0]]).toEqual([
      200,
      expect.stringMatching(/^runner-[0-9a-f]{8}=[^;]+; Path=\/; Expires=[^;]+; HttpOnly; SameSite=Strict$/),
    ]);
    const whoIs = async (value = cookie) => (await server.ask('/api/session', { headers: { cookie: value } })).status;
    const told = JSON.parse((await server.ask('/api/session', { headers: { cookie } })).body);
    expect(told).toMatchObject({ name: 'token laptop', permission: 'read', csrf });
    expect(new Date(told.expiresAt).getTime()).toBeLessThanOrEqual(clock.now + 3_600_000);
    const [name, value = ''] = cookie.split('=');
    const [id, seconds, random, signature] = value.split('.');
    const forged = [
      [id, Number(seconds) + 1_000, random, signature],
      [2, seconds, random, signature],
      [id, seconds, random, `${signature?.slice(0, -1)}${signature?.endsWith('A') ? 'B' : 'A'}`],
    ];
    for (const parts of forged) expect(await whoIs(`${name}=${parts.join('.')}`)).toBe(401);
    expect(
      (await server.ask('/api/session', { method: 'DELETE', headers: { cookie, 'x-csrf-token': csrf } })).status,
    ).toBe(204);
    expect(await whoIs()).toBe(401);
    const again = await logIn(server, token);
    clock.now += 3_600_000;
    expect(await whoIs(again.cookie)).toBe(401);
  });

  test('is kept to https and to its path where there are any', async () => {
    const server = await startTestServer({ url: new URL('https://example.org/base') });
    const { answer } = await logIn(server, await server.addToken('laptop', 'manage'));
    expect(answer.headers['set-cookie']?.[0]).toMatch(
      /^__Secure-runner-\w+=.*; Path=\/base; .*; HttpOnly; Secure; SameSite/,
    );
    expect(answer.headers['strict-transport-security']).toBe('max-age=31536000');
  });

  test('is signed by a key that only this user can read, and goes on after a new start', async () => {
    const server = await startTestServer();
    const token = await server.addToken('laptop', 'manage');
    await logIn(server, token);
    const path = join(server.root, '.runner/web.key');
    const { mode, size } = statSync(path);
    expect([mode & 0o777, size]).toEqual([0o600, 32]);
    const log = readFileSync(stateFolderOf(server.root).database);
    expect([log.includes(token), log.includes(readFileSync(path))]).toEqual([false, false]);
  });

  test('of a key that was printed ends with the process', async () => {
    const first = await startTestServer();
    const key = /#key=(.*)$/.exec(first.url)?.[1] as string;
    const { cookie, answer } = await logIn(first, key);
    expect([answer.status, (await first.ask('/api/session', { headers: { cookie } })).status]).toEqual([200, 200]);
    expect((await first.ask('/api/session', { headers: bearer(key) })).status).toBe(401);
    await first.close();
  });

  test('notes the day on which a token was last used, and nothing finer', async () => {
    const server = await startTestServer();
    await server.ask('/api/session', { headers: bearer(await server.addToken('laptop', 'read')) });
    const store = await openSqliteStore(stateFolderOf(server.root));
    onTestFinished(() => store.close());
    const day = server.clock.now - (server.clock.now % 86_400_000);
    expect(await store.tokens.list()).toMatchObject([{ name: 'laptop', lastUsedAt: day }]);
  });
});

describe('what comes too often or is too much', () => {
  const wrong = { method: 'POST', body: '{"token":"x"}', headers: { 'content-type': 'application/json' } };

  test('wrong tokens: who sends them waits ever longer, and nobody else does', async () => {
    const server = await startTestServer({ url: new URL('http://example.org') });
    const from = (address: string) => ({ ...wrong, headers: { ...wrong.headers, 'x-forwarded-for': address } });
    const waits: unknown[] = [];
    for (let tries = 0; tries < 9; tries += 1) {
      const { status } = await server.ask('/api/session', from('198.51.100.1'));
      const { headers } = await server.ask('/api/session', from('198.51.100.1'));
      waits.push([status, headers['retry-after']]);
      server.clock.now += Number(headers['retry-after'] ?? 0) * 1_000;
    }
    expect(waits.slice(-3)).toEqual([
      [401, '16'],
      [401, '32'],
      [401, '64'],
    ]);
    await server.ask('/api/session', from('198.51.100.1'));
    const right = JSON.stringify({ token: await server.addToken('laptop', 'read') });
    const login = (address: string) => server.ask('/api/session', { ...from(address), body: right });
    expect((await login('198.51.100.1')).status).toBe(429);
    expect((await login('spoofed, 198.51.100.2')).status).toBe(200);
  });

  test('wrong tokens of many addresses are told no more, and a right one is let in', async () => {
    const server = await startTestServer({ url: new URL('http://example.org') });
    const statuses: number[] = [];
    for (let address = 1; address <= 70; address += 1) {
      const headers = { ...wrong.headers, 'x-forwarded-for': `198.51.100.${address}` };
      statuses.push((await server.ask('/api/session', { ...wrong, headers })).status);
    }
    expect([statuses[0], statuses.at(-1)]).toEqual([401, 429]);
    const body = JSON.stringify({ token: await server.addToken('laptop', 'read') });
    expect((await server.ask('/api/session', { ...wrong, body })).status).toBe(200);
  });

  test('requests of one client', async () => {
    const { ask, clock } = await startTestServer();
    const answers = await Promise.all(Array.from({ length: 110 }, () => ask('/api/session')));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401, 429]));
    expect(answers.find(({ status }) => status === 429)?.headers['retry-after']).toBe('1');
    clock.now += 1_000;
    expect((await ask('/api/session')).status).toBe(401);
  });

  test('the page, to which no limit applies, as it is the same for all', async () => {
    const { ask } = await startTestServer();
    const answers = await Promise.all(Array.from({ length: 110 }, () => ask('/')));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });

  test('requests that come in too slowly', async () => {
    const patience = { headersTimeout: 100, requestTimeout: 200, connectionsCheckingInterval: 20 };
    const { listensAt } = await startTestServer({ patience });
    const beginnings = [
      '',
      'GET / HTTP/1.1\r\nHost: x',
      'POST /api/session HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{',
    ];
    for (const beginning of beginnings) {
      const socket = connect(Number(new URL(listensAt).port), '127.0.0.1');
      onTestFinished(() => void socket.destroy());
      let answer = '';
      socket.on('data', (chunk) => (answer += chunk));
      const closed = new Promise((resolve) => socket.once('close', resolve));
      socket.write(beginning);
      await closed;
      expect([beginning, answer.split('\r\n')[0]]).toEqual([beginning, expect.stringMatching(/^HTTP\/1.1 40[38] /)]);
    }
  });

  test('bodies and headers that are too long, and bodies that are no JSON', async () => {
    const server = await startTestServer({ needsLogin: false });
    const { csrf } = JSON.parse((await server.ask('/api/session')).body) as { csrf: string };
    const json = { 'content-type': 'application/json', 'x-csrf-token': csrf };
    const long = JSON.stringify({ token: 'x'.repeat(70_000) });
    const post = (asked: Asked) => server.ask('/api/session', { method: 'POST', ...asked });
    expect((await post({ body: long, headers: json })).status).toBe(413);
    expect((await post({ body: long, headers: { ...json, 'transfer-encoding': 'chunked' } })).status).toBe(413);
    expect((await post({ body: 'token=x', headers: { 'content-type': 'text/plain' } })).status).toBe(415);
    expect((await server.ask('/', { headers: { 'x-long': 'x'.repeat(20_000) } })).status).toBe(431);
  });
});

test('a log that cannot be read is told, and not that the token is wrong', async () => {
  const server = await startTestServer();
  const token = await server.addToken('laptop', 'read');
  expect((await server.ask('/api/session', { headers: bearer(token) })).status).toBe(200);
  const { database } = stateFolderOf(server.root);
  renameSync(database, `${database}.away`);
  writeFileSync(database, 'no database');
  const answer = await server.ask('/api/session', { headers: bearer(token) });
  expect([answer.status, JSON.parse(answer.body).detail]).toEqual([
    503,
    'The activity log cannot be read just now, so no token can be checked.',
  ]);
  expect((await server.ask('/api/session')).status).toBe(401);
});

test('each answer is safe in whatever shows it', async () => {
  const server = await startTestServer({ needsLogin: false });
  for (const path of ['/', '/api/session', '/api/nothing', '/../../etc/passwd', '/dashboard.html']) {
    const { headers, body } = await server.ask(path);
    expect([path, headers]).toMatchObject([
      path,
      {
        'content-security-policy': expect.stringMatching(/^default-src 'none';.*frame-ancestors 'none'/),
        'x-content-type-options': 'nosniff',
        'x-frame-options': 'DENY',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
        'permissions-policy': expect.stringContaining('camera=()'),
        'cache-control': path === '/' ? 'private, no-cache' : 'no-store',
      },
    ]);
    expect([headers['strict-transport-security'], headers['access-control-allow-origin']]).toEqual([
      undefined,
      undefined,
    ]);
    if (path === '/') expect(body).toContain('<!doctype html>');
  }
});
