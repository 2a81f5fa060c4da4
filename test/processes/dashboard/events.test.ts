import { renameSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { runner } from '../../support/command.ts';
import { makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';
import { openViewer, startDashboard } from '../../support/web/dashboard.ts';

/** What the page promises. */
const TOLD_MS = 2000;

const jobs = { 'jobs/hourly/a.sh': 'true\n', 'jobs/queue/mail.sh': 'true\n' };

async function openRoot() {
  const root = makeTemporaryRoot(jobs);
  runner(root, 'hourly');
  return { root, ...(await startDashboard(root)) };
}

test('a hundred viewers are told of each change within two seconds', async () => {
  const { root, url } = await openRoot();
  const viewers = await Promise.all(Array.from({ length: 100 }, () => openViewer(url)));
  await until('all are told how things stand', () => viewers.every((viewer) => viewer.versions().length > 0));
  const told = viewers.map((viewer) => viewer.nextVersion('the change is told'));
  runner(root, 'add', 'mail');
  const addedAt = performance.now();
  const versions = new Set(await Promise.all(told));
  expect(versions.size).toBe(1);
  expect(performance.now() - addedAt).toBeLessThan(TOLD_MS);
});

test('before there is a log, its first row is told; so is another log in its place', async () => {
  const root = makeTemporaryRoot(jobs);
  const { url } = await startDashboard(root);
  const viewer = await openViewer(url);
  await until('it is told how things stand', () => viewer.versions().length > 0);
  const begun = viewer.nextVersion('the first pass is told');
  runner(root, 'hourly');
  await begun;
  const other = makeTemporaryRoot(jobs);
  runner(other, 'hourly');
  const replaced = viewer.nextVersion('the other log is told');
  renameSync(join(root, '.runner'), join(root, 'old'));
  renameSync(join(other, '.runner'), join(root, '.runner'));
  await replaced;
});

test('where no stream gets through, the version is asked for', async () => {
  const { root, url } = await openRoot();
  const ask = async () => {
    const response = await fetch(`${url}api/events`, { headers: { accept: 'application/json' } });
    expect(response.headers.get('cache-control')).toBe('no-store');
    return ((await response.json()) as { version: string }).version;
  };
  const before = await ask();
  expect(await ask()).toBe(before);
  runner(root, 'add', 'mail');
  expect(await ask()).not.toBe(before);
});

test('the server ends in peace while viewers look, also those that never read', async () => {
  const { url, stop } = await openRoot();
  const { host, port } = new URL(url);
  const silent = Array.from({ length: 20 }, () => connect(Number(port), '127.0.0.1'));
  onTestFinished(() => {
    for (const socket of silent) socket.destroy();
  });
  for (const socket of silent) socket.pause().write(`GET /api/events HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  const viewer = await openViewer(url);
  await until('it is told how things stand', () => viewer.versions().length > 0);
  expect(viewer.text()).toContain('retry: ');
  await stop();
  await viewer.ended;
});
