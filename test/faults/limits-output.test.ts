import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { stateFolderOf } from '../../src/system/place/state-folder.ts';
import { cronEnv, readRuns, startCommand } from '../support/command.ts';
import { checkInvariants } from '../support/faults/invariants.ts';
import { areAllWanted } from '../support/faults/rounds.ts';
import { makeTemporaryRoot } from '../support/root.ts';

const MB = 1024 * 1024;

/** What a folder takes on the disk, with gaps left out. */
function diskBytes(folder: string): number {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return names.reduce((sum, name) => {
    const stat = statSync(join(folder, name), { throwIfNoEntry: false });
    return sum + (stat?.isFile() ? stat.blocks * 512 : 0);
  }, 0);
}

/** Elsewhere one shows the same. */
const GIGABYTES = areAllWanted ? 10 : 1;

function peakRssBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
}

test(`${GIGABYTES} GB of output fill neither disk nor memory, and are counted to the byte`, {
  timeout: 600_000,
}, async () => {
  const root = makeTemporaryRoot({
    'jobs/hourly/a-endless.sh': `# @timeout 9m\nhead -c ${GIGABYTES}G /dev/zero\necho >&2 done\n`,
    'jobs/hourly/b-next.sh': 'echo next\n',
  });
  const state = stateFolderOf(root);
  const runner = startCommand(['--root', root, 'hourly'], { cwd: '/', env: cronEnv(root) });
  let largest = { disk: 0, memory: 0 };
  const timer = setInterval(() => {
    try {
      largest = {
        disk: Math.max(largest.disk, diskBytes(state.path)),
        memory: Math.max(largest.memory, peakRssBytes(runner.pid)),
      };
    } catch {
      // Not there yet, or already over.
    }
  }, 20);
  const { status, stderr } = await runner.ended;
  clearInterval(timer);
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  const { run } = readRuns(root);
  const bytes = GIGABYTES * 1024 * MB + 5;
  expect(run('a-endless')).toMatchObject({ outcome: 'succeeded', output_bytes: bytes });
  expect(run('a-endless').output).toMatch(/done\n$/);
  expect(run('b-next')).toMatchObject({ outcome: 'succeeded', output: 'next\n' });
  expect(largest.disk).toBeGreaterThan(10 * MB);
  expect(largest.disk).toBeLessThan(2048 * MB);
  expect(largest.memory).toBeLessThan(400 * MB);
  expect(diskBytes(state.path)).toBeLessThan(20 * MB);
  checkInvariants(root);
});
