import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { reportTimed, task } from './child.ts';

/** What a process for each job costs without any queue. */
const script = join(task.folder, 'jobs/queue/alone.mjs');

async function spawnAll(): Promise<void> {
  for (let index = 0; index < task.count; index += 1) {
    const child = spawn(process.execPath, [script], { cwd: task.folder, stdio: 'ignore' });
    await new Promise((resolve) => child.on('close', resolve));
  }
}

await reportTimed({ spawn: spawnAll }, '');
