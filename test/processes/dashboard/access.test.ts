import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { networkInterfaces, userInfo } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { shareConnections } from '../../../src/dashboard/access/connections.ts';
import { createSessions } from '../../../src/dashboard/access/session.ts';
import { apiDocument, createApi } from '../../../src/dashboard/api/api.ts';
import type { Demand } from '../../../src/dashboard/api/route.ts';
import type { ServerPlace } from '../../../src/dashboard/server.ts';
import { openQueue } from '../../../src/index.ts';
import { openSqliteStore } from '../../../src/store/sqlite/open.ts';
import { apiTokensOf } from '../../../src/store/statements/registers.ts';
import { permissionsWithin, tokenPermissions } from '../../../src/store/words.ts';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { runPassAgain } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import {
  type Answer,
  type Asked,
  ask,
  askAt,
  bearer,
  startTestServer,
  type TestServer,
} from '../../support/web/dashboard.ts';

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
    .map((each): TestedRoute => ({ ...each, demanded: 'wall' })),
];

const closed = routes.filter(({ demanded }) => demanded !== 'none');
const needing = (...permissions: Demand[]) => routes.filter(({ demanded }) => permissions.includes(demanded));

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
    await apiTokensOf(store.statements).remove('lost');
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

  test.each(tokenPermissions)('admits %s to what it includes, and refuses the rest', async (permission) => {
    const server = await startTestServer();
    const headers = { ...bearer(await server.addToken('t', permission)), accept: 'application/json' };
    const within = permissionsWithin(permission);
    const beyond = needing(...tokenPermissions.filter((each) => !within.includes(each)));
    expect(await askAll({ headers }, beyond, server)).toEqual(all(beyond, 403));
    const admitted = await askAll({ headers }, needing(...within), server);
    expect(Object.entries(admitted).filter(([, status]) => status === 401 || status === 403)).toEqual([]);
    const { body } = await server.ask('/api/session', { headers });
    expect(JSON.parse(body)).toMatchObject({ permission, may: within });
  });

  test('that changes something needs run or manage; a verb of a batch needs what it needs by itself', async () => {
    expect(routes.filter(({ method, path }) => method !== 'GET' && path !== '/api/session')).toEqual(
      needing('run', 'manage'),
    );
    const server = await startTestServer();
    const headers = { ...bearer(await server.addToken('worker', 'run')), 'content-type': 'application/json' };
    const batch = async (verb: string) => {
      const body = JSON.stringify({ verb, ids: [1] });
      return await server.ask('/api/jobs/batch', { method: 'POST', headers, body });
    };
    expect((await batch('kick')).status).toBe(200);
    const refused = await batch('delete');
    expect([refused.status, JSON.parse(refused.body).detail]).toEqual([
      403,
      'token worker has the permission run; this needs manage.',
    ]);
  });

  test('shows a wall neither data nor arguments, errors nor output, and nothing that could find them out', async () => {
    const server = await startTestServer();
    writeFileSync(join(server.root, 'jobs/hourly/a.sh'), 'echo geheim >&2; exit 3\n');
    writeFileSync(join(server.root, 'jobs/hourly/b.mjs'), 'throw new Error("geheim");\n');
    runPassAgain(server.root);
    server.clock.now = Date.now();
    const queue = await openQueue({ root: server.root });
    await queue.add('mail/welcome?customer=geheim', { to: 'geheim' });
    await queue.fail((await queue.claim('mail/*')) ?? 0, { reason: 'geheim' });
    await queue.add('mail/later?to=geheim', { to: 'geheim' }, { uniqueKey: 'geheim' });
    await queue.close();
    const asWall = { ...bearer(await server.addToken('wall', 'wall')), accept: 'application/json' };
    const asReader = { ...bearer(await server.addToken('reader', 'read')), accept: 'application/json' };
    const told: string[] = [];
    for (const { method, path } of needing('wall')) {
      if (method !== 'GET') continue;
      const asked = path.replace('/api/metrics/1', '/api/metrics/1h').replace('/api/tiers/1', '/api/tiers/hourly');
      const answer = await server.ask(asked, { headers: asWall });
      expect([asked, answer.status, answer.body.includes('geheim')]).toEqual([asked, 200, false]);
      if ((await server.ask(asked, { headers: asReader })).body.includes('geheim')) told.push(asked);
    }
    // Who may read sees it there: the secret does reach these answers.
    expect(told).toEqual(expect.arrayContaining(['/api/status', '/api/overview', '/api/incidents']));
  });

  test('that changes something refuses a session without the header', async () => {
    const server = await startTestServer();
    const { cookie, csrf } = await logIn(server, await server.addToken('laptop', 'manage'));
    const other = await logIn(server, await server.addToken('other', 'manage'));
    const changing = closed.filter(({ method }) => method !== 'GET');
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
    const { host } = new URL(server.listensAt);
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
    const { createAccess } = await import('../../../src/dashboard/access/access.ts');
    const { openSite } = await import('../../../src/dashboard/site.ts');
    const site = openSite({ distFolder: '', root: server.root, env: process.env, version: '0', now: Date.now });
    onTestFinished(() => site.close());
    const options = { url: null, names: ['localhost'], owner: null, key: null, connections: null };
    const app = createApi(site, createAccess(site, options));
    app.get('/api/new', (c) => c.text('secret'));
    const headers = { host: 'localhost', ...bearer(await server.addToken('laptop', 'manage')) };
    expect((await app.request('/api/session', { headers })).status).toBe(200);
    const answer = await app.request('/api/new', { headers });
    expect([answer.status, await answer.text()]).toEqual([404, expect.not.stringContaining('secret')]);
  });
});

describe('at the socket in the state folder', () => {
  const start = async (options: Partial<ServerPlace> = {}) => {
    const path = join(makeTemporaryRoot(), 's');
    const server = await startTestServer({ door: { kind: 'socket', path, mode: 0o600 }, ...options });
    const page = new URL(server.url).hostname;
    const ask = (headers: Record<string, string>, asked: Asked = {}) =>
      askAt(path, '/api/session', { ...asked, headers: { host: `${page}:8787`, ...asked.headers, ...headers } });
    return { path, page, ask, server };
  };

  test('the owner needs no credential, and the header where something is changed', async () => {
    const { path, ask } = await start();
    expect(statSync(path).mode & 0o777).toBe(0o600);
    for (const host of [{}, { host: 'owner.localhost' }]) {
      const answer = await ask(host);
      expect([answer.status, JSON.parse(answer.body)]).toEqual([
        200,
        {
          name: userInfo().username,
          permission: 'manage',
          may: [...tokenPermissions],
          csrf: expect.any(String),
          expiresAt: null,
          zone: expect.any(String),
          buttons: expect.arrayContaining([expect.objectContaining({ verb: 'cancel' })]),
        },
      ]);
      const { csrf } = JSON.parse(answer.body) as { csrf: string };
      expect((await ask(host, { method: 'DELETE' })).status).toBe(403);
      expect((await ask({ ...host, 'x-csrf-token': csrf }, { method: 'DELETE' })).status).toBe(204);
    }
  });

  test('what passes on requests of others, and pages under other names, are strangers', async () => {
    const { ask } = await start();
    const strangers: Record<string, string>[] = [
      // As nginx and Apache name what they pass on to.
      { host: 'localhost' },
      { host: '127.0.0.1:8787' },
      { 'x-forwarded-for': '1.2.3.4' },
      ...['forwarded', 'x-forwarded-host', 'via', 'x-real-ip', 'cf-connecting-ip'].map((name) => ({ [name]: 'x' })),
      { host: 'owner.localhost', 'sec-fetch-site': 'none' },
      { host: 'owner.localhost', cookie: 'a=b' },
      bearer('x'),
    ];
    for (const headers of strangers) expect([headers, (await ask(headers)).status]).toEqual([headers, 401]);
    for (const host of ['runner-0123456789abcdef.localhost:8787', 'example.org']) {
      expect([host, (await ask({ host })).status]).toEqual([host, 403]);
    }
  });

  test('everybody logs in where it is passed on, and where it is asked for', async () => {
    for (const more of [{ needsLogin: true }, { url: new URL('https://example.org/base') }]) {
      const { ask } = await start(more);
      for (const host of ['owner.localhost', 'localhost:8787']) expect((await ask({ host })).status).toBe(401);
    }
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
    const ended = await server.ask('/api/session', { headers: { cookie: again.cookie } });
    expect([ended.status, ended.headers['www-authenticate']]).toEqual([401, 'Bearer error="invalid_token"']);
    expect(JSON.parse(ended.body).detail).toContain('Your session has ended');
    expect((await server.ask('/api/session')).headers['www-authenticate']).toBe('Bearer');
  });

  test('is kept to https and to its path where there are any', async () => {
    const server = await startTestServer({ url: new URL('https://example.org/base') });
    const { answer } = await logIn(server, await server.addToken('laptop', 'manage'));
    expect(answer.headers['set-cookie']?.[0]).toMatch(
      /^__Secure-runner-\w+=.*; Path=\/base; .*; HttpOnly; Secure; SameSite/,
    );
    expect(answer.headers['strict-transport-security']).toBe('max-age=31536000');
  });

  test('is signed by a key that only this user can read, and goes on after a new start behind a web server', async () => {
    const url = new URL('http://example.org');
    const server = await startTestServer({ url });
    const token = await server.addToken('laptop', 'manage');
    const { cookie } = await logIn(server, token);
    const path = join(server.root, '.runner/web.key');
    const { mode, size } = statSync(path);
    expect([mode & 0o777, size]).toEqual([0o600, 32]);
    const log = readFileSync(stateFolderOf(server.root).database);
    expect([log.includes(token), log.includes(readFileSync(path))]).toEqual([false, false]);
    await server.close();
    const site = { root: server.root, env: process.env, version: '0', now: Date.now };
    const next = await startTestServer({ url, site });
    expect((await next.ask('/api/session', { headers: { cookie } })).status).toBe(200);
    // At an address of its own, whoever listens there next could send it.
    const own = await startTestServer({ site });
    expect((await own.ask('/api/session', { headers: { cookie } })).status).toBe(401);
  });

  test('is opened once by a key that was printed, and tells the browser to forget what was at its address', async () => {
    const first = await startTestServer();
    const key = /#key=(.*)$/.exec(first.url)?.[1] as string;
    const { cookie, answer } = await logIn(first, key);
    expect([answer.status, (await first.ask('/api/session', { headers: { cookie } })).status]).toEqual([200, 200]);
    expect((await first.ask('/api/session', { headers: bearer(key) })).status).toBe(401);
    expect(answer.headers['clear-site-data']).toBe('"cache", "storage"');
    const body = JSON.stringify({ token: key });
    const again = await first.ask('/api/session', {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/json' },
    });
    expect([again.status, again.headers['set-cookie']]).toEqual([401, undefined]);
    const other = await startTestServer();
    expect((await other.ask('/api/session', { headers: { cookie } })).status).toBe(401);
  });

  test('that was logged out stays so, whatever cookies others send along', async () => {
    const server = await startTestServer();
    const { cookie, csrf } = await logIn(server, await server.addToken('laptop', 'manage'));
    const out = await server.ask('/api/session', { method: 'DELETE', headers: { cookie, 'x-csrf-token': csrf } });
    expect(out.status).toBe(204);
    const reader = bearer(await server.addToken('reader', 'read'));
    const name = cookie.split('=')[0];
    for (let number = 0; number < 300; number += 1) {
      const made = `${name}=1.99999999999.${String(number).padStart(16, '0')}.${'x'.repeat(43)}`;
      const { status } = await server.ask('/api/session', { method: 'DELETE', headers: { ...reader, cookie: made } });
      expect(status).toBe(204);
    }
    expect((await server.ask('/api/session', { headers: { cookie } })).status).toBe(401);
    const sessions = createSessions(stateFolderOf(server.root), false);
    const opened = Array.from({ length: 20_000 }, () => sessions.open({ tokenId: 1, expiresAt: 2_000 }, 'h'));
    for (const each of opened) sessions.end(each, 1);
    expect(opened.filter((each) => sessions.read(each, 1) !== null)).toEqual([]);
  });

  test('is opened by one token only so often, and by another one still', async () => {
    const server = await startTestServer();
    const body = JSON.stringify({ token: await server.addToken('busy', 'read') });
    const asked = { method: 'POST', body, headers: { 'content-type': 'application/json' } };
    const answers = await Promise.all(Array.from({ length: 70 }, () => server.ask('/api/session', asked)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 429]));
    expect((await logIn(server, await server.addToken('laptop', 'read'))).answer.status).toBe(200);
  });

  test('notes the day on which a token was last used, and nothing finer', async () => {
    const server = await startTestServer();
    await server.ask('/api/session', { headers: bearer(await server.addToken('laptop', 'read')) });
    const store = await openSqliteStore(stateFolderOf(server.root));
    onTestFinished(() => store.close());
    const day = server.clock.now - (server.clock.now % 86_400_000);
    expect(await apiTokensOf(store.statements).list()).toMatchObject([{ name: 'laptop', lastUsedAt: day }]);
  });
});

describe('what comes too often or is too much', () => {
  const wrong = { method: 'POST', body: '{"token":"x"}', headers: { 'content-type': 'application/json' } };

  test('wrong tokens: who sends them waits, and a right one is let in from the same address', async () => {
    const server = await startTestServer();
    const right = await server.addToken('laptop', 'read');
    const key = /#key=(.*)$/.exec(server.url)?.[1] as string;
    const [{ cookie }, answers] = await Promise.all([
      logIn(server, right),
      Promise.all(Array.from({ length: 150 }, () => server.ask('/api/session', wrong))),
    ]);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([401, 429]));
    expect(answers.find(({ status }) => status === 429)?.headers['retry-after']).toBe('1');
    expect((await server.ask('/api/session', wrong)).status).toBe(429);
    for (const headers of [bearer(right), { cookie }]) {
      expect((await server.ask('/api/session', { headers })).status).toBe(200);
    }
    for (const token of [right, key]) expect((await logIn(server, token)).answer.status).toBe(200);
  });

  test('connections: who has the most of them loses the oldest, and the others none', async () => {
    const server = createServer((_, answer) => answer.end('here'));
    const connections = shareConnections(server, 20);
    onTestFinished(() => server.closeAllConnections());
    onTestFinished(() => void server.close());
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const open = async () => {
      const came = new Promise<Socket>((resolve) => server.once('connection', resolve));
      const near = connect(port, '127.0.0.1').on('error', () => {});
      onTestFinished(() => void near.destroy());
      return { near, far: await came };
    };
    const owner = await open();
    connections.noteCaller(owner.far, 'user 1000');
    const strangers: Awaited<ReturnType<typeof open>>[] = [];
    for (let number = 0; number < 40; number += 1) strangers.push(await open());
    await until('there is room', () => strangers.filter(({ near }) => !near.closed).length === 19);
    expect(strangers.slice(-19).every(({ near }) => !near.closed)).toBe(true);
    expect(owner.near.closed).toBe(false);
    expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe('here');
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
    const server = await startTestServer();
    const json = { 'content-type': 'application/json' };
    const long = JSON.stringify({ token: 'x'.repeat(70_000) });
    const post = (asked: Asked) => server.ask('/api/session', { method: 'POST', ...asked });
    expect((await post({ body: long, headers: json })).status).toBe(413);
    expect((await post({ body: long, headers: { ...json, 'transfer-encoding': 'chunked' } })).status).toBe(413);
    expect((await post({ body: 'token=x', headers: { 'content-type': 'text/plain' } })).status).toBe(415);
    expect((await server.ask('/', { headers: { 'x-long': 'x'.repeat(20_000) } })).status).toBe(431);
  });
});

test('a request with two hosts is refused', async () => {
  const { listensAt } = await startTestServer();
  const { host, port } = new URL(listensAt);
  for (const [hosts, status] of [
    [`Host: ${host}\r\n`, 200],
    [`Host: ${host}\r\nHost: evil.example\r\n`, 400],
    [`Host: ${host}\r\nhOST: ${host}\r\n`, 400],
  ] as const) {
    const socket = connect(Number(port), '127.0.0.1');
    let answer = '';
    socket.on('data', (chunk) => (answer += chunk));
    const ended = new Promise((resolve) => socket.once('close', resolve));
    socket.write(`GET / HTTP/1.1\r\n${hosts}Connection: close\r\n\r\n`);
    await ended;
    expect([hosts, answer.split(' ')[1]]).toEqual([hosts, String(status)]);
  }
});

test('at a port it answers at both addresses of loopback, and under no name of an earlier start', async () => {
  const server = await startTestServer();
  const { port, hostname } = new URL(server.url);
  const statusOf = async (address: string, host: string) =>
    (await ask(`http://${address}:${port}`, '/api/session', { headers: { host } })).status;
  expect(hostname).toMatch(/^runner-[0-9a-f]{16}\.localhost$/);
  expect(await statusOf('127.0.0.1', hostname)).toBe(401);
  expect(await statusOf('127.0.0.1', 'runner-0123456789abcdef.localhost')).toBe(403);
  expect(await statusOf('127.0.0.1', 'owner.localhost')).toBe(403);
  const hasIPv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === '::1'));
  if (hasIPv6) expect(await statusOf('[::1]', 'localhost')).toBe(401);
  else console.warn('NOT TESTED HERE: ::1, which this machine does not have.');
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
  const server = await startTestServer();
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
