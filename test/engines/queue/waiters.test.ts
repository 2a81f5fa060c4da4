import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, onTestFinished, test } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import { listWaiters } from '../../../src/queue/claim/waiters.ts';
import { identifyProcess } from '../../../src/system/process/identity.ts';
import { cronEnv, inRoot, jsonOf, makeQueueSite, startCommand } from '../../support/command.ts';
import { identifyDeadProcess } from '../../support/faults/faults.ts';
import { testOfSqlite } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { makeStateOf } from '../../support/store.ts';
import { until } from '../../support/until.ts';

const folderOf = (root: string): string => join(root, '.runner/cache/waiting');
const notesOf = (root: string): string[] => (existsSync(folderOf(root)) ? readdirSync(folderOf(root)) : []);
const queueOf = async (root: string) => jsonOf(await inRoot(root, 'status', '--json')).queue;

/** Calls a command in a process of its own that waits for jobs. */
function startWaiting(root: string, ...args: string[]) {
  return startCommand(args, { cwd: root, env: cronEnv(root) });
}

/** With the clock of the machine, by which a wait ends. */
async function openLiveQueue() {
  const root = makeTemporaryRoot();
  mkdirSync(join(root, 'jobs'), { recursive: true });
  const queue = await openQueue({ root });
  onTestFinished(() => queue.close());
  return { queue, root };
}

// SQLite counts what is written to its file.
testOfSqlite(
  'status tells who waits for which jobs, as long as they do, and nothing is written to the log for it',
  async () => {
    const root = makeQueueSite();
    await inRoot(root, 'add', 'export', '--at', '+1h');
    const log = new Database(join(root, '.runner/activity.db'), { readonly: true });
    onTestFinished(() => void log.close());
    const changes = () => log.pragma('data_version', { simple: true });
    const before = changes();
    const { pid, ended } = startWaiting(root, 'claim', 'mail/*', 'import', '--wait', '40s');
    await until('somebody waits', () => notesOf(root).length === 1);
    const { waiting, workers, idleWorkers } = await queueOf(root);
    const since = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    expect(waiting).toEqual([{ host: expect.any(String), pid, patterns: ['mail/*', 'import'], since }]);
    expect({ workers, idleWorkers }).toEqual({ workers: 0, idleWorkers: 0 });
    expect((await inRoot(root, 'status')).stdout).toMatch(
      /\nqueue\n {2}1 delayed · no worker\n {2}pid \d+ waits for mail\/\*, import · since \d+ [A-Z][a-z]{2} \d\d:\d\d\n/,
    );
    expect(changes()).toBe(before);
    await inRoot(root, 'add', 'mail/welcome');
    expect(changes()).not.toBe(before);
    expect(await ended).toMatchObject({ status: 0 });
    expect((await queueOf(root)).waiting).toEqual([]);
    expect(notesOf(root)).toEqual([]);
  },
);

test('who was killed waits no more, and the next one that waits removes what that one left', async () => {
  const root = makeQueueSite();
  const killed = startWaiting(root, 'claim', '--wait', '40s');
  await until('somebody waits', () => notesOf(root).length === 1);
  expect((await inRoot(root, 'status')).stdout).toContain(' waits for any job · since ');
  killed.kill('SIGKILL');
  await killed.ended;
  const [left] = notesOf(root);
  expect((await queueOf(root)).waiting).toEqual([]);
  expect(left).toBeDefined();
  const next = startWaiting(root, 'claim', '--wait', '40s');
  await until('another one waits, alone', () => notesOf(root).length === 1 && notesOf(root)[0] !== left);
  next.kill('SIGTERM');
  await next.ended;
  expect(notesOf(root)).toEqual([]);
});

test('a wait of the API is seen, and over with its signal', async () => {
  const { queue, root } = await openLiveQueue();
  const [stop, state] = [new AbortController(), makeStateOf(root)];
  const waits = [
    queue.claim('a', { wait: '1h', signal: stop.signal }),
    queue.claim('b', { wait: '2h', signal: stop.signal }),
  ];
  await until('both wait', () => listWaiters(state, Date.now()).length === 2);
  expect(
    listWaiters(state, Date.now())
      .map(({ patterns }) => patterns[0])
      .sort(),
  ).toEqual(['a', 'b']);
  stop.abort();
  expect(await Promise.all(waits)).toEqual([null, null]);
  expect(notesOf(root)).toEqual([]);
  expect(await queue.claim()).toBeNull();
});

test('only who lives counts; of another host, until the end of its wait', async () => {
  const { queue, root } = await openLiveQueue();
  const state = makeStateOf(root);
  mkdirSync(folderOf(root));
  const note = (name: string, noted: unknown) => writeFileSync(join(folderOf(root), name), JSON.stringify(noted));
  const wait = { patterns: ['a'], sinceMs: Date.now(), untilMs: Date.now() + 60_000 };
  const elsewhere = { host: 'web9', bootId: null, pid: 7, startTicks: null };
  note('alive', { ...identifyProcess(process.pid), ...wait });
  note('dead', { ...identifyDeadProcess(), ...wait });
  note('elsewhere', { ...elsewhere, ...wait });
  note('elsewhere-over', { ...elsewhere, ...wait, untilMs: 0 });
  for (const [name, odd] of Object.entries({ a: null, b: [], c: { ...elsewhere, patterns: 7 }, d: { pid: {} } })) {
    note(`odd-${name}`, odd);
  }
  writeFileSync(join(folderOf(root), 'being-written'), '');
  writeFileSync(join(folderOf(root), 'old'), '');
  utimesSync(join(folderOf(root), 'old'), 0, 0);
  execFileSync('mkfifo', [join(folderOf(root), 'pipe')]);
  expect(
    listWaiters(state, Date.now())
      .map(({ pid }) => pid)
      .sort(),
  ).toEqual([7, process.pid].sort());
  expect(await queue.claim('a', { wait: '1s' })).toBeNull();
  const odd = ['odd-a', 'odd-b', 'odd-c', 'odd-d'];
  expect(notesOf(root).sort()).toEqual(['alive', 'being-written', 'elsewhere', ...odd, 'pipe']);
});

test('where nothing can be noted, the wait goes on unseen', async () => {
  const root = makeQueueSite();
  await inRoot(root, 'add', 'export', '--at', '+1h');
  writeFileSync(folderOf(root), '');
  const { ended } = startWaiting(root, 'claim', 'mail/*', '--wait', '40s');
  expect((await queueOf(root)).waiting).toEqual([]);
  await inRoot(root, 'add', 'mail/welcome');
  expect(await ended).toMatchObject({ status: 0, stderr: '' });
});

test('a worker is idle while it has no job', async () => {
  const root = makeQueueSite();
  const { kill, ended } = startWaiting(root, 'work', '--for', '40s');
  await until('it waits', async () => (await queueOf(root)).idleWorkers === 1);
  expect((await inRoot(root, 'status')).stdout).toContain('\nqueue\n  1 worker (1 idle)\n');
  writeFileSync(join(root, 'jobs/queue/slow.sh'), '#!/bin/sh\nuntil [ -e go ]; do sleep 0.05; done\n', { mode: 0o755 });
  await inRoot(root, 'add', 'slow');
  await until('it works', async () => (await queueOf(root)).running === 1);
  expect(await queueOf(root)).toMatchObject({ workers: 1, idleWorkers: 0 });
  expect((await inRoot(root, 'status')).stdout).toContain('· 1 worker\n');
  writeFileSync(join(root, 'go'), '');
  await until('it waits again', async () => (await queueOf(root)).idleWorkers === 1);
  kill('SIGTERM');
  expect(await ended).toMatchObject({ status: 0 });
});
