import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { stateFolderOf } from '../../src/place/state-folder.ts';
import { type Started, startNode } from './start-command.ts';
import { until } from './until.ts';

const child = new URL('../queue/hold-log.child.ts', import.meta.url).pathname;

/** Another process that has the log's write lock for so long, and this to write; resolved once it has it. */
export async function holdLog(root: string, holdMs: number, statement = ''): Promise<Started> {
  const marker = join(root, `held-${performance.now()}`);
  const { database } = stateFolderOf(root);
  const started = startNode([child, database, String(holdMs), statement, marker]);
  await until('the log is held', () => existsSync(marker));
  return started;
}
