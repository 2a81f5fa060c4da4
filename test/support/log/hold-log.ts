import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type Started, startNode } from '../calls/start-command.ts';
import { engine } from '../engines/engines.ts';
import { until } from '../until.ts';

const child = new URL('./hold-log.child.ts', import.meta.url).pathname;

/** Another process that keeps the log from being written for so long, and has this to write; resolved once it has it. */
export async function holdLog(root: string, holdMs: number, statement = ''): Promise<Started> {
  const marker = join(root, `held-${performance.now()}`);
  const started = startNode([child, root, String(holdMs), statement, marker]);
  await until('the log is held', () => existsSync(marker));
  return started;
}

export function signalAll(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) process.kill(pid, signal);
}

/** Who is stopped in the middle of a write keeps the log locked: then nobody could take anything over. */
export async function stopOutsideOfWrites(root: string, pids: readonly number[]): Promise<void> {
  const isFree = (): boolean => {
    signalAll(pids, 'SIGSTOP');
    const log = engine.hold(root, 500);
    if (log === null) signalAll(pids, 'SIGCONT');
    log?.close();
    return log !== null;
  };
  await until('they are stopped outside of a write', isFree);
}
