import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { readSpool } from '../../../src/store/spool/read.ts';
import {
  createFallbackStateFolder,
  fallbackStateFoldersOf,
  usableStateFolder,
} from '../../../src/system/place/fallback.ts';
import type { StateFolder } from '../../../src/system/place/state-folder.ts';
import { startCommand } from '../../support/command.ts';
import { makeSpoolHeader, toLines } from '../../support/faults/spool.ts';
import { queryLog } from '../../support/log.ts';
import { makeTemporaryRoot } from '../../support/root.ts';

/** The first place that is tried where `.runner/` cannot be written. */
const fallbackOf = (root: string): StateFolder => fallbackStateFoldersOf(root)[0] as StateFolder;

const OTHER_USER = 4711;

/** A temporary folder like the system's, and a root whose state folder cannot be made. */
function makePlace() {
  const place = mkdtempSync(join(tmpdir(), 'place-'));
  onTestFinished(() => rmSync(place, { recursive: true }));
  chmodSync(place, 0o1777);
  vi.stubEnv('TMPDIR', place);
  for (const name of ['HOME', 'XDG_STATE_HOME']) vi.stubEnv(name, '');
  onTestFinished(() => void vi.unstubAllEnvs());
  return { place, root: makeTemporaryRoot({ '.runner': 'a file' }) };
}

test('a folder that another user has made first is refused', () => {
  const { root } = makePlace();
  const state = fallbackOf(root);
  mkdirSync(state.path, { mode: 0o700 });
  chownSync(state.path, OTHER_USER, OTHER_USER);
  const reason = `it belongs to another user (uid ${OTHER_USER})`;
  expect(() => createFallbackStateFolder(state)).toThrow(reason);
  expect(() => usableStateFolder(root)).toThrow(reason);
  expect(existsSync(state.spool)).toBe(false);
});

test('a place that belongs to another user is refused', () => {
  const { place, root } = makePlace();
  chownSync(place, OTHER_USER, OTHER_USER);
  expect(() => usableStateFolder(root)).toThrow(`${place} belongs to another user (uid ${OTHER_USER})`);
});

test("another user's file in the spool is not read", () => {
  const { place } = makePlace();
  const path = join(place, '1-2-ab.jsonl');
  writeFileSync(path, toLines(makeSpoolHeader()), { mode: 0o644 });
  process.seteuid?.(OTHER_USER);
  onTestFinished(() => void process.seteuid?.(0));
  vi.spyOn(process, 'getuid').mockReturnValue(OTHER_USER);
  onTestFinished(() => void vi.restoreAllMocks());
  expect(() => [...readSpool(path)]).toThrow(`${path} is not this user's own file`);
});

test('a folder that another user has made first stops no script, and no command reads what is in it', async () => {
  const { place, root } = makePlace();
  mkdirSync(join(root, 'jobs/hourly'));
  writeFileSync(join(root, 'jobs/hourly/a.sh'), 'touch ran\n');
  const { path, spool, locks } = fallbackOf(root);
  for (const folder of [path, spool, locks, join(locks, 'hourly.lock')]) mkdirSync(folder, { mode: 0o777 });
  for (const name of ['spool/1-1-ab.jsonl', 'spool/2-1-ab.part', 'locks/hourly.lock/1.json']) {
    execFileSync('mkfifo', ['-m', '666', join(path, name)]);
  }
  execFileSync('chown', ['-R', String(OTHER_USER), path]);
  const env = { HOME: root, PATH: '/usr/bin:/bin', TMPDIR: place };
  const call = (...args: string[]) => startCommand([...args, '--root', root], { cwd: '/', env }).ended;
  const { status, stderr } = await call('hourly');
  expect([status, stderr]).toEqual([0, expect.not.stringContaining(path)]);
  expect(existsSync(join(root, 'ran'))).toBe(true);
  expect((await call('status')).stdout).not.toContain(path);
  expect((await call('doctor')).stdout.replaceAll(/\s+/g, ' ')).toContain(
    `it belongs to another user (uid ${OTHER_USER})`,
  );
  rmSync(join(root, '.runner'));
  expect(await call('due')).toMatchObject({ status: 0, stderr: '' });
  expect(queryLog(root, 'select script, outcome from runs')).toEqual([{ script: 'hourly/a', outcome: 'succeeded' }]);
});
