import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { chmodSync, lchownSync, readdirSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { uidOfPeer } from '../../src/dashboard/access/peer.ts';
import { cronPlace } from '../support/cron-place.ts';
import { commandPath } from '../support/run-command.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';
import { until } from '../support/until.ts';

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

async function serveAs(uid: number, root: string, ...options: readonly string[]): Promise<string> {
  const args = [commandPath, '--root', root, ...options, 'web', '--port', '0'];
  const child = spawn(process.execPath, args, { uid, gid: uid, cwd: '/', env: cronPlace(root).env });
  onTestFinished(() => void child.kill('SIGKILL'));
  let printed = '';
  child.stdout.on('data', (chunk) => (printed += chunk));
  await until('it listens', () => /http:\S+\n/.test(printed));
  return /http:\S+/.exec(printed)?.[0] as string;
}

/** What a process of this user is answered. */
function askAs(uid: number, url: string): string {
  const code = `fetch(${JSON.stringify(new URL('api/session', url))}).then(async (a) => console.log(a.status, (await a.json()).name))`;
  const { stdout } = spawnSync(process.execPath, ['-e', code], { uid, gid: uid, cwd: '/', encoding: 'utf8' });
  return stdout.trim();
}

test('a user’s own connections get in, those of nobody else: not of another user’s, nor of root', async () => {
  const url = await serveAs(ALICE, makeRootOf(ALICE));
  expect([ALICE, BOB, 0].map((uid) => askAs(uid, url))).toEqual([
    `200 user ${ALICE}`,
    '401 undefined',
    '401 undefined',
  ]);
});

test('root that serves a user’s site has become that user: with --as-root, and not without', async () => {
  const root = makeRootOf(ALICE);
  const url = await serveAs(0, root, '--as-root');
  expect([ALICE, 0].map((uid) => askAs(uid, url))).toEqual([`200 user ${ALICE}`, '401 undefined']);
  const { status, stderr } = spawnSync(process.execPath, [commandPath, 'web', '--root', root], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([
    2,
    expect.stringContaining('root does nothing in another user’s site'.replace('’', "'")),
  ]);
});

test('a connection that another user has left is nobody’s, though the kernel calls it root’s', async () => {
  const server = createServer();
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
  const code = `const s = require('net').connect(${port}, '127.0.0.1'); s.write('x'); process.stdin.on('data', () => process.exit())`;
  const child: ChildProcess = spawn(process.execPath, ['-e', code], { uid: BOB, gid: BOB, cwd: '/' });
  onTestFinished(() => void child.kill('SIGKILL'));
  const socket = await accepted;
  const { remoteAddress, remotePort, localAddress, localPort } = socket;
  const ends = { remoteAddress, remotePort, localAddress, localPort };
  expect(await uidOfPeer(ends)).toBe(BOB);
  const ended = new Promise((resolve) => socket.once('close', resolve));
  socket.on('error', () => {}).resume();
  child.stdin?.write('x');
  await new Promise((resolve) => child.once('close', resolve));
  expect(await uidOfPeer(ends)).toBe(null);
  socket.destroy();
  await ended;
});
