import { mkdirSync, readdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'vitest';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { handlersOfLoss, loseLog } from '../support/faults/queue-rounds.ts';
import { makeTemporaryRoot } from '../support/root.ts';

/** With what SQLite keeps beside it, as whoever sets a broken log aside does. */
function moveLog(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from).filter((each) => each.startsWith('activity.db'))) {
    renameSync(join(from, name), join(to, name));
  }
}

test.each(['warm', 'apart'])(
  'a worker whose log is moved away while its %s handler works says so; what is done is not lost',
  async (name) => {
    const root = makeTemporaryRoot(handlersOfLoss);
    const { path } = stateFolderOf(root);
    const away = join(root, 'away');
    await loseLog(root, {
      name,
      lose: () => moveLog(path, away),
      giveBack: () => moveLog(away, path),
      says: /activity\.db was moved away|is gone|set aside/,
    });
  },
);
