import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { commandPath, cronEnv, runNode } from '../../support/command.ts';
import { changeLog } from '../../support/log.ts';
import { openTestQueue, START } from '../../support/queue.ts';
import { insertRows } from '../../support/store.ts';
import { openReadApi } from '../../support/web/dashboard.ts';

const MEGABYTE = 1_000_000;
const text = 'x'.repeat(MEGABYTE);
const JOBS = 24;

/** Writes the most that a process had in memory into a file, at its end; unlike `maxRSS`, without that of its parent. */
const note = `process.once('exit', () => {
  const [, kilobytes] = /VmHWM:\\s+(\\d+)/.exec(require('node:fs').readFileSync('/proc/self/status', 'latin1'));
  require('node:fs').writeFileSync(process.env.PEAK_FILE, kilobytes);
});`;

/** A queue of failed jobs, each with this data, and the same as its result. */
async function fill(data: string) {
  const { root } = await openTestQueue();
  const value = JSON.stringify(data);
  const row = { name: 'large', state: 'failed', ready: null, data: value, result: value, finished_at: START };
  for (let index = 0; index < JOBS; index += 1) insertRows((sql) => changeLog(root, sql), 'jobs', [row]);
  writeFileSync(join(root, 'note.cjs'), note);
  return root;
}

/** The peak of a command, in bytes, and what it has printed. */
function call(root: string, ...args: readonly string[]) {
  const file = join(root, 'peak');
  const node = ['--require', join(root, 'note.cjs'), commandPath, ...args];
  const { status, stdout, stderr } = runNode(node, { cwd: root, env: { ...cronEnv(root), PEAK_FILE: file } });
  expect({ args, status, stderr }).toEqual({ args, status: 0, stderr: '' });
  return { stdout, peak: 1024 * Number(readFileSync(file, 'latin1')) };
}

test('lists, reports and verbs do not hold what jobs of a megabyte carry', async () => {
  const [large, small] = [await fill(text), await fill('')];
  const commands = [
    ['jobs', '--limit', '100', '--json'],
    ['report', '--html', 'report.html'],
    ['kick', 'large'],
  ];
  for (const args of commands) {
    const { stdout, peak } = call(large, ...args);
    expect({ args, letters: stdout.length }).toSatisfy(({ letters }) => letters < MEGABYTE);
    const more = peak - call(small, ...args).peak;
    expect({ args, more }).toSatisfy((found) => found.more < JOBS * MEGABYTE);
  }
});

test('lists of the API leave long values out, and one job has them', async () => {
  const root = await fill(text);
  const { ask } = openReadApi(root);
  for (const query of ['limit=500', 'order=asc', 'order=kick', 'search=xxx&limit=20', 'state=failed']) {
    const { items } = await ask(`/api/jobs?${query}`);
    expect(JSON.stringify(items).length).toBeLessThan(MEGABYTE);
    expect(items[0]).toMatchObject({ data: null, dataBytes: MEGABYTE + 2 });
  }
  expect(await ask('/api/jobs/2')).toMatchObject({ data: text, result: text });
});
