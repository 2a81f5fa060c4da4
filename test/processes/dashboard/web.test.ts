import { chmodSync, existsSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { commandPath, cronPlace, runner, startNode, startProcess } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import { askAt, bearer, startDashboard, startTestServer } from '../../support/web/dashboard.ts';

const makeRoot = () => makeTemporaryRoot({ 'jobs/hourly/a.sh': '' });

describe('runner web', () => {
  test('ends at a signal without waiting for those who still look', async () => {
    const { url, stop } = await startDashboard(makeRoot());
    const viewer = await fetch(new URL('api/events', url));
    const silent = connect(Number(new URL(url).port), '127.0.0.1');
    silent.on('error', () => {});
    onTestFinished(() => void silent.destroy());
    await until('a second one is connected', () => silent.readyState === 'open');
    const before = performance.now();
    await stop();
    // Who looks would keep it for half a minute or for ever; a busy machine takes its time to end a process.
    expect(performance.now() - before).toBeLessThan(10_000);
    await viewer.text().catch(() => '');
  });

  test('says what is wrong with how it was called, and how to cure it', async () => {
    const root = makeRoot();
    const taken = createServer();
    onTestFinished(() => void taken.close());
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const { port } = taken.address() as { port: number };
    mkdirSync(join(root, 'open'));
    chmodSync(join(root, 'open'), 0o777);
    const cases: readonly [string, string][] = [
      [
        `--port ${port}`,
        `Port ${port} of 127.0.0.1 is in use by another program of yours; choose another one, or --port 0`,
      ],
      ['--port x', '--port must be a number from 0 to 65535, found "x".'],
      ['--port 8787 --socket s', '--socket and --port cannot be combined.'],
      ['--host 127.0.0.1', '--host goes with --port: add --port 8787, or leave --host out.'],
      [`--socket ${root}/${'x'.repeat(120)}`, 'The path of a socket may have 107 bytes, and '],
      [`--socket ${root}/nowhere/s`, `There is no folder ${root}/nowhere for the socket s; make it first.`],
      [`--socket ${root}/jobs`, `${root}/jobs is there, and is no socket; name another path with --socket.`],
      [`--socket ${root}/open/s`, `${root}/open can be written by anybody (mode 0777), who could put another socket`],
      ['--port 0 --host 192.0.2.1', '192.0.2.1 is not an address of this machine; 127.0.0.1 always is.'],
      [
        '--url example.org/runner',
        '--url must be the address that a browser asks for, such as https://example.org/runner',
      ],
      ['--url https://example.org/?a', '--url must be the address that a browser asks for'],
      ['--url https://example.org/a%2Fb', '--url must be the address that a browser asks for'],
      ['token add', 'Missing <name>'],
      [
        'token add a/b',
        'A token\'s name has 1 to 64 letters, digits or any of . @ + - _ , such as laptop; found "a/b".',
      ],
      ['token add x --expires soon', '--expires must be a duration such as 12h or 90d, found "soon".'],
      ['token add x --read --manage', '--read and --manage cannot be combined'],
      ['token revoke x', 'There is no token "x"; there are none.'],
    ];
    for (const [args, sentence] of cases) {
      const { status, stdout, stderr } = runner(root, 'web', ...args.split(' '));
      expect([args, status, stdout, stderr]).toEqual([args, 2, '', expect.stringContaining(`runner: ${sentence}`)]);
    }
  });

  test('serves without a log, and with one that cannot be read, and says so', async () => {
    const missing = await startDashboard(makeRoot());
    expect((await missing.ask('api/overview')).status).toBe(200);
    const root = makeRoot();
    mkdirSync(join(root, '.runner'), { mode: 0o700 });
    writeFileSync(join(root, '.runner/activity.db'), 'no database');
    const started = startNode([...commandOf(root)], cronPlace(root));
    await until('it says what is wrong', () => /activity\.db seems to be damaged/.test(started.printed()));
    expect(started.printed()).toMatch(/^http:\S+#key=\S+\nThe activity log cannot be read\. /);
    started.kill('SIGTERM');
    expect(await started.ended).toMatchObject({ status: 0, stderr: '' });
  });

  test('makes, lists and revokes tokens, each of which is printed once', () => {
    const root = makeRoot();
    const added = runner(root, 'web', 'token', 'add', 'laptop', '--manage', '--expires', '90d');
    expect(added).toMatchObject({ status: 0, stderr: '', stdout: expect.stringMatching(/^frt_[\w-]{43}\n/) });
    expect(JSON.parse(runner(root, 'web', 'token', 'add', 'grafana', '--json').stdout)).toMatchObject({
      ...{ name: 'grafana', permission: 'read', expiresAt: null, lastUsed: null },
      token: expect.stringMatching(/^frt_/),
    });
    expect(runner(root, 'web', 'token', 'add', 'laptop')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('There is a token laptop already'),
    });
    const listed = runner(root, 'web', 'token', 'list');
    expect(listed.stdout).toMatch(
      /^grafana {2}read {4}never used {2}until it is revoked\nlaptop {3}manage {2}never used {2}until /,
    );
    expect(listed.stdout).not.toContain('frt_');
    expect(runner(root, 'web', 'token', 'revoke', 'laptop')).toMatchObject({ status: 0, stderr: '' });
    const { tokens } = JSON.parse(runner(root, 'web', 'token', 'list', '--json').stdout) as { tokens: unknown[] };
    expect(tokens).toMatchObject([{ name: 'grafana' }]);
  });

  test('prints the socket and the way to it; at a port, an address with a key that logs in once', async () => {
    const root = makeRoot();
    const socket = join(root, '.runner/web.sock');
    const started = startNode([commandPath, '--root', root, 'web'], cronPlace(root));
    await until('it listens', () => /http:\S+\n/.test(started.printed()));
    const lines = started.printed().split('\n');
    expect(lines[0]).toBe(`The dashboard listens at ${socket}.`);
    expect(lines).toContainEqual(expect.stringMatching(`^ {2}ssh -N -L 8787:${socket} \\S+@\\S+$`));
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}http:\/\/runner-[0-9a-f]{16}\.localhost:8787\/$/));
    expect(runner(root, 'web')).toMatchObject({
      status: 2,
      stderr: `runner: A program listens at ${socket} already, probably another \`npx folder-runner web\`.\n`,
    });
    started.kill('SIGTERM');
    expect(await started.ended).toMatchObject({ status: 0, stderr: '' });
    expect(existsSync(socket)).toBe(false);
    const killed = startNode([commandPath, '--root', root, 'web'], cronPlace(root));
    await until('it listens', () => /http:\S+\n/.test(killed.printed()));
    killed.kill('SIGKILL');
    await killed.ended;
    expect(existsSync(socket)).toBe(true);
    const again = startNode([...commandOf(root)], cronPlace(root));
    const { url } = await startDashboard(root);
    expect((await fetch(new URL('api/session', url))).status).toBe(200);
    await until('it listens', () => /http:\S+\n/.test(again.printed()));
    const [address = '', token] = String(/http:\S+/.exec(again.printed())?.[0]).split('#key=');
    expect((await fetch(new URL('api/session', address))).status).toBe(401);
    const asked = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token }),
    };
    const opened = await fetch(new URL('api/session', address), asked);
    const cookie = String(opened.headers.get('set-cookie')).split(';')[0] as string;
    expect((await fetch(new URL('api/session', address), { headers: { cookie } })).status).toBe(200);
    expect((await fetch(new URL('api/session', address), asked)).status).toBe(401);
  });

  test('at a socket for a web server, anybody may connect, and everybody logs in', async () => {
    const root = makeRoot();
    const socket = join(root, 's');
    const args = ['--root', root, 'web', '--socket', socket, '--url', 'https://example.org/runner'];
    const started = startNode([commandPath, ...args], cronPlace(root));
    await until('it listens', () => /It listens at \S+\.\n/.test(started.printed()));
    expect(started.printed()).toContain(`https://example.org/runner/\nIt listens at ${socket}.\n`);
    expect(started.printed()).toContain('Nobody can log in yet');
    expect(statSync(socket).mode & 0o777).toBe(0o666);
    for (const host of ['owner.localhost', 'localhost', 'example.org']) {
      expect((await askAt(socket, '/runner/api/session', { headers: { host } })).status).toBe(401);
    }
    started.kill('SIGTERM');
    expect(await started.ended).toMatchObject({ status: 0, stderr: '' });
  });
});

const commandOf = (root: string) => [commandPath, ...['--root', root, 'web', '--port', '0']];

/** What Passenger does: it takes over where the first server listens, and says of all requests that they are local. */
const passenger = (socket: string) => `
  const { Server } = require('node:http');
  const listen = Server.prototype.listen;
  Server.prototype.listen = function (...args) {
    const others = this.listeners('request');
    this.removeAllListeners('request');
    this.on('request', (request) => {
      Object.defineProperty(request.socket, 'remoteAddress', { get: () => '127.0.0.1', configurable: true });
      Object.defineProperty(request.socket, 'remotePort', { get: () => 0, configurable: true });
    });
    for (const other of others) this.on('request', other);
    listen.call(this, ${JSON.stringify(socket)}, () => {
      if (typeof args.at(-1) === 'function') this.once('listening', args.at(-1));
      this.emit('listening');
    });
    return this;
  };
  require(process.cwd() + '/app.js');
`;

test('a Node app of Passenger is one line, serves under its path, and trusts no connection', async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a.sh': '',
    'app.js': "require('folder-runner/web')({ root: __dirname, url: 'https://example.org/runner' });\n",
    'node_modules/x': '',
  });
  symlinkSync(new URL('../../..', import.meta.url).pathname, join(root, 'node_modules/folder-runner'));
  const token = JSON.parse(runner(root, 'web', 'token', 'add', 'laptop', '--json').stdout).token as string;
  const socketPath = join(root, 's');
  const loader = join(root, 'loader.js');
  writeFileSync(loader, passenger(socketPath));
  const app = startProcess(process.execPath, [loader], { ...cronPlace(root), cwd: root });
  const ask = (path: string, headers: Record<string, string> = {}): Promise<{ status: number; location?: string }> =>
    new Promise((resolve, reject) => {
      const asked = request({ socketPath, path, headers: { host: 'example.org', ...headers } }, (answer) => {
        answer.resume().on('end', () => {
          const { statusCode: status = 0, headers: told } = answer;
          resolve({ status, ...(told.location === undefined ? {} : { location: told.location }) });
        });
      });
      asked.on('error', reject).end();
    });
  await until('it listens', () =>
    ask('/runner/').then(
      () => true,
      () => false,
    ),
  );
  expect(await ask('/runner')).toEqual({ status: 308, location: '/runner/' });
  // Some take the path off.
  for (const path of ['/runner/', '/']) expect(await ask(path)).toEqual({ status: 200 });
  expect(await ask('/runner/api/session')).toEqual({ status: 401 });
  for (const path of ['/runner/api/session', '/api/session']) {
    expect(await ask(path, bearer(token))).toEqual({ status: 200 });
  }
  expect(await ask('/runner/api/session', { ...bearer(token), host: 'evil.example' })).toEqual({ status: 403 });
  app.kill('SIGTERM');
  expect((await app.ended).status).toBe(0);
});

/** As Apache and nginx do without further settings: the host is that of what they pass on to. */
async function startProxy(): Promise<{ url: string; passOnTo(url: string): void }> {
  let target = '';
  const proxy = createServer((incoming, outgoing) => {
    const headers = { ...incoming.headers, host: new URL(target).host, 'x-forwarded-for': '198.51.100.1' };
    const passed = request(new URL(incoming.url ?? '/', target), { method: incoming.method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    passed.on('error', () => outgoing.destroy());
    outgoing.on('close', () => passed.destroy());
    incoming.pipe(passed);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  const { port } = proxy.address() as { port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    passOnTo: (url) => {
      target = url;
    },
  };
}

test('behind a reverse proxy a page logs in, follows changes and changes something, and nobody else does', async () => {
  const proxy = await startProxy();
  const url = new URL('/base', proxy.url);
  const server = await startTestServer({ url });
  proxy.passOnTo(server.listensAt);
  const at = (path: string) => `${proxy.url}/base/${path}`;
  expect(await fetch(at('')).then((answer) => answer.text())).toContain('<!doctype html>');
  expect((await fetch(at('api/session'))).status).toBe(401);
  const own = { origin: proxy.url, 'sec-fetch-site': 'same-origin' };
  const opened = await fetch(at('api/session'), {
    method: 'POST',
    headers: { ...own, 'content-type': 'application/json' },
    body: JSON.stringify({ token: await server.addToken('laptop', 'manage') }),
  });
  const { csrf } = (await opened.json()) as { csrf: string };
  const cookie = String(opened.headers.get('set-cookie')).split(';')[0] as string;
  const viewer = await fetch(at('api/events'), { headers: { ...own, cookie } });
  const reader = viewer.body?.getReader();
  expect(new TextDecoder().decode((await reader?.read())?.value)).toContain('event: changed');
  await reader?.cancel();
  const change = (headers: Record<string, string>) =>
    fetch(at('api/session'), { method: 'DELETE', headers: { cookie, 'x-csrf-token': csrf, ...headers } });
  expect((await change({ origin: 'http://evil.example' })).status).toBe(403);
  expect((await change(own)).status).toBe(204);
});
