import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished, test } from 'vitest';
import { stateFolderOf } from '../../../src/system/place/state-folder.ts';
import { handlersOfLoss, loseLog } from '../../support/faults/queue-rounds.ts';
import { fillDisk, makeTemporaryRoot, mountSmallDisk } from '../../support/root.ts';

/** A root whose state folder is on a disk of its own, of 4 MB. */
function makeSmallDisk(): { readonly root: string; readonly path: string } {
  const root = makeTemporaryRoot(handlersOfLoss);
  const { path } = stateFolderOf(root);
  mkdirSync(path);
  mountSmallDisk(path, '4m');
  return { root, path };
}

/** With the runner's reserve gone, too. */
function fill(path: string): void {
  rmSync(join(path, 'reserve'), { force: true });
  fillDisk(join(path, 'cache/filler'));
}

test('a worker that finds its disk full says so; what it has done is not lost', async () => {
  const { root, path } = makeSmallDisk();
  await loseLog(root, {
    name: 'warm',
    lose: () => fill(path),
    giveBack: () => rmSync(join(path, 'cache/filler')),
    says: /No space left for \S+activity\.db/,
    // Neither the log nor the child may have had room to say how it ended.
    mayLoseEnd: true,
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
