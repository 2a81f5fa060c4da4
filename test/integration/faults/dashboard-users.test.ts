import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, lchownSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { commandPath, cronPlace } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

/** In no file of the machine. */
const ALICE = 4711;
const BOB = 4712;

function makeRootOf(uid: number): string {
  const root = makeTemporaryRoot({ 'jobs/hourly/a.sh': '' });
  chmodSync(root, 0o755);
  for (const path of readdirSync(root, { recursive: true, encoding: 'utf8' })) lchownSync(join(root, path), uid, uid);
  lchownSync(root, uid, uid);
  return root;
}

/** What it prints once it listens. */
async function serveAs(uid: number, root: string, ...options: readonly string[]): Promise<string> {
  const [web, before] = [
    options.filter((each) => each !== '--as-root'),
    options.filter((each) => each === '--as-root'),
  ];
  const args = [commandPath, '--root', root, ...before, 'web', ...web];
  return await startAs(uid, args, /(?:http:\S+|listens at \S+)\n/, cronPlace(root).env);
}

async function startAs(uid: number, args: readonly string[], sign: RegExp, env?: NodeJS.ProcessEnv): Promise<string> {
  const child = spawn(process.execPath, args, { uid, gid: uid, cwd: '/', env: env ?? {} });
  onTestFinished(() => void child.kill('SIGKILL'));
  let printed = '';
  child.stdout.on('data', (chunk) => (printed += chunk));
  child.stderr.on('data', (chunk) => (printed += chunk));
  await until('it is there', () => sign.test(printed));
  return printed;
}

const nameOf = (printed: string): string => new URL(/http:\S+/.exec(printed)?.[0] ?? '').hostname;
const portOf = (printed: string): number => Number(/http:[^\s/]*\/\/[^\s/]+:(\d+)/.exec(printed)?.[1]);

/** What a process of this user is answered, by all names that may count: the statuses, each once. */
function askAs(uid: number, to: { readonly socketPath: string } | { readonly port: number }, page: string): string {
  const code = `
    const { request } = require('node:http');
    const names = ${JSON.stringify([page, 'owner.localhost', 'localhost', '127.0.0.1'])};
    const ask = (host) => new Promise((resolve) => request(
      { ...${JSON.stringify(to)}, host: '127.0.0.1', path: '/api/session', headers: { host: host + ':8787' } },
      (answer) => resolve(answer.resume().statusCode),
    ).on('error', (error) => resolve(error.code)).end());
    Promise.all(names.map(ask)).then((found) => console.log([...new Set(found)].join(' ')));`;
  const { stdout } = spawnSync(process.execPath, ['-e', code], { uid, gid: uid, cwd: '/', encoding: 'utf8' });
  return stdout.trim();
}

/** Connects whoever comes to a port to the dashboard, as `ssh -L`, socat and HAProxy do. */
const relay = (to: number) => `
  const net = require('node:net');
  const server = net.createServer((near) => {
    const far = net.connect(${to}, '127.0.0.1');
    near.on('error', () => {}).pipe(far).on('error', () => {}).pipe(near);
  });
  server.listen(0, '127.0.0.1', () => console.log('at http://127.0.0.1:' + server.address().port + '/'));`;

test('nobody but the owner opens the socket in the state folder', async () => {
  const root = makeRootOf(ALICE);
  const page = nameOf(await serveAs(ALICE, root));
  const to = { socketPath: join(root, '.runner/web.sock') };
  expect([askAs(ALICE, to, page), askAs(BOB, to, page)]).toEqual(['200 401', 'EACCES']);
  mkdirSync(join(root, 'shared'));
  chmodSync(join(root, 'shared'), 0o755);
  lchownSync(join(root, 'shared'), ALICE, ALICE);
  const elsewhere = { socketPath: join(root, 'shared/s') };
  const other = nameOf(await serveAs(ALICE, root, '--socket', elsewhere.socketPath));
  expect([askAs(ALICE, elsewhere, other), askAs(BOB, elsewhere, other)]).toEqual(['200 401', 'EACCES']);
});

test('at a port nobody is let in without the key: not the owner, not root, and no relay of theirs', async () => {
  for (const owner of [ALICE, 0]) {
    const printed = await serveAs(owner, makeRootOf(owner), '--port', '0');
    const page = nameOf(printed);
    const to = { port: portOf(printed) };
    const refused = '401 403';
    for (const uid of [ALICE, BOB, 0]) expect([owner, uid, askAs(uid, to, page)]).toEqual([owner, uid, refused]);
    for (const by of [owner, 0]) {
      const relayed = { port: portOf(await startAs(by, ['-e', relay(to.port)], /http:\S+\n/)) };
      for (const uid of [ALICE, BOB, 0]) expect([by, uid, askAs(uid, relayed, page)]).toEqual([by, uid, refused]);
    }
  }
});

test('root that serves a user’s site has become that user: with --as-root, and not without', async () => {
  const root = makeRootOf(ALICE);
  const page = nameOf(await serveAs(0, root, '--as-root'));
  const to = { socketPath: join(root, '.runner/web.sock') };
  expect([askAs(ALICE, to, page), askAs(BOB, to, page)]).toEqual(['200 401', 'EACCES']);
  const { status, stderr } = spawnSync(process.execPath, [commandPath, 'web', '--root', root], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([
    2,
    expect.stringContaining('root does nothing in another user’s site'.replace('’', "'")),
  ]);
});

test('a port that another user holds is told with its holder, and not to log in there', async () => {
  const squatter = `const s = require('net').createServer().listen(0, '127.0.0.1', () => console.log('http://127.0.0.1:' + s.address().port + '/'))`;
  const port = portOf(await startAs(BOB, ['-e', squatter], /http:\S+\n/));
  const root = makeRootOf(ALICE);
  const options = { uid: ALICE, gid: ALICE, cwd: '/', env: cronPlace(root).env, encoding: 'utf8' } as const;
  const args = [commandPath, '--root', root, 'web', '--port', String(port)];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, options);
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  expect(stderr).toMatch(
    `Port ${port} of 127.0.0.1 is in use, by another user of this machine, uid ${BOB}: do not log in`,
  );
  expect(stderr).toContain("clear your browser's data for that address");
});

test('the other address of loopback is another user’s: the port is not taken', async () => {
  const squatter = `const s = require('net').createServer().listen(0, '::1', () => console.log('http://127.0.0.1:' + s.address().port + '/')).on('error', () => console.log('http://none:1/'))`;
  const printed = await startAs(BOB, ['-e', squatter], /http:\S+\n/);
  if (printed.includes('none')) return console.warn('NOT TESTED HERE: ::1, which this machine does not have.');
  const root = makeRootOf(ALICE);
  const options = { uid: ALICE, gid: ALICE, cwd: '/', env: cronPlace(root).env, encoding: 'utf8' } as const;
  const args = [commandPath, '--root', root, 'web', '--port', String(portOf(printed))];
  const { status, stderr } = spawnSync(process.execPath, args, options);
  expect([status, stderr]).toEqual([2, expect.stringMatching(/^runner: Port \d+ of ::1 is in use, by another user/)]);
});
