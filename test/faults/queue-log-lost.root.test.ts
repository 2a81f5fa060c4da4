import { execFileSync } from 'node:child_process';
import { closeSync, existsSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { stateFolderOf } from '../../src/config/state-folder.ts';
import { handlersOfLoss, loseLog } from '../support/queue-log-loss.ts';
import { makeTemporaryRoot } from '../support/temporary-root.ts';

/** A root whose state folder is on a disk of its own, of 4 MB. */
function makeSmallDisk(): { readonly root: string; readonly path: string } {
  const root = makeTemporaryRoot(handlersOfLoss);
  const { path } = stateFolderOf(root);
  execFileSync('mkdir', ['-m', '700', path]);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m,mode=700', 'small-disk', path]);
  onTestFinished(() => void execFileSync('umount', ['--lazy', path]));
  return { root, path };
}

/** Until not one more byte has room, once the runner's reserve is gone, too. */
function fill(path: string): void {
  rmSync(join(path, 'reserve'), { force: true });
  const fd = openSync(join(path, 'cache/filler'), 'a');
  for (const bytes of [Buffer.alloc(4096), Buffer.alloc(1)]) {
    expect(() => {
      for (;;) writeSync(fd, bytes);
    }).toThrow('ENOSPC');
  }
  closeSync(fd);
}

test('a worker that finds its disk full says so; what it has done is not lost', async () => {
  const { root, path } = makeSmallDisk();
  await loseLog(root, {
    name: 'warm',
    lose: () => fill(path),
    giveBack: () => rmSync(join(path, 'cache/filler')),
    says: /There is no room for \S+activity\.db/,
    // Neither the log nor the child had room to say how it ended.
    isEndKept: false,
  });
});

test('a worker whose log can only be read by now says so; what it has done is not lost', async () => {
  const root = makeTemporaryRoot(handlersOfLoss);
  const { path } = stateFolderOf(root);
  const protect = (how: '+i' | '-i'): void => {
    // Not what SQLite has mapped into memory: a write to that would be a signal.
    const names = ['activity.db', 'activity.db-wal'].map((name) => join(path, name));
    execFileSync('chattr', [how, ...names.filter((name) => existsSync(name))]);
  };
  onTestFinished(() => protect('-i'));
  await loseLog(root, {
    name: 'warm',
    // Also by who has opened them before.
    lose: () => protect('+i'),
    giveBack: () => protect('-i'),
    says: /activity\.db cannot be written|cannot be used/,
  });
});
