import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { readTask, tell, timed } from './tell.ts';

/** What a process for each job costs without any queue. */
const { folder, count } = readTask();
const script = join(folder, 'jobs/queue/alone.mjs');

async function spawnOnce(): Promise<void> {
  const child = spawn(process.execPath, [script], { cwd: folder, stdio: 'ignore' });
  await new Promise((resolve) => child.on('close', resolve));
}

const ms = await timed(async () => {
  for (let index = 0; index < count; index += 1) await spawnOnce();
});
tell({ ms });
