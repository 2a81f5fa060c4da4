import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Started, startNode } from './start-command.ts';
import { until } from './until.ts';

const child = new URL('../queue/hold-log.child.ts', import.meta.url).pathname;

/** Another process that keeps the log from being written for so long, and has this to write; resolved once it has it. */
export async function holdLog(root: string, holdMs: number, statement = ''): Promise<Started> {
  const marker = join(root, `held-${performance.now()}`);
  const started = startNode([child, root, String(holdMs), statement, marker]);
  await until('the log is held', () => existsSync(marker));
  return started;
}
