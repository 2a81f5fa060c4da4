import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { openQueue } from '../../../src/index.ts';
import type { JobOptions } from '../../../src/queue/api.ts';
import type { Started } from '../calls/start-command.ts';
import { startCommand } from '../calls/start-command.ts';
import type { LoggedJob, LoggedRun } from '../log/log-tables.ts';
import { queryLog } from '../log/open-log.ts';
import { cronPlace } from '../places/cron-place.ts';
import { until } from '../until.ts';
import { readSeenTries } from './queue-evidence.ts';

/** Loaded hosts take their time. */
export const WITHIN_MS = 90_000;

/** JavaScript of a handler: it waits for the file `go`, in its first try. */
export const UNTIL_GO = 'while (attempt < 2 && !existsSync(root + "/go")) await sleep(10);';
/** The same in a shell: as what its exit code is made of. */
export const UNTIL_GO_IN_SHELL = '$(while [ "$attempt" -lt 2 ] && [ ! -e go ]; do sleep 0.01; done; echo 0)';

/** Lets the handlers that wait for it go on. */
export function letGo(root: string): void {
  writeFileSync(join(root, 'go'), '');
}

/** Waits for jobs until it is told to end. */
export function startWaiting(root: string, ...options: readonly string[]): Started {
  return startCommand(['--root', root, 'work', '--wait', '10m', ...options], cronPlace(root));
}

/** They have nothing to tell. */
export async function endInPeace(root: string, ...workers: readonly Started[]): Promise<void> {
  // One that has not begun yet is ended by the signal itself.
  const listPids = () => queryLog<{ pid: number }>(root, 'select pid from workers').map((row) => row.pid);
  const areAtWork = () => workers.every(({ pid }) => listPids().includes(pid));
  await until('all of them have begun', areAtWork, WITHIN_MS);
  for (const worker of workers) worker.kill('SIGTERM');
  const ended = await Promise.all(workers.map((worker) => worker.ended));
  expect(ended).toEqual(workers.map(() => ({ status: 0, stdout: '', stderr: '' })));
}

export async function addJob(root: string, name: string, options: JobOptions = {}): Promise<number> {
  const queue = await openQueue({ root });
  const id = await queue.add(name, {}, options);
  await queue.close();
  return id;
}

export function readJobRow(root: string, id: number): LoggedJob {
  return queryLog<LoggedJob>(root, 'select * from jobs where id = ?', id)[0] as LoggedJob;
}

/** How often it was had, and what became of that. */
export function readTries(root: string, id: number) {
  const { state, attempts } = readJobRow(root, id);
  const outcomes = readJobRuns(root, id).map(({ outcome }) => outcome);
  const lost = "select id from events where job_id = ? and event = 'job-lease-expired'";
  return { state, attempts, outcomes, lostLeases: queryLog(root, lost, id).length };
}

export function readJobRuns(root: string, id: number): LoggedRun[] {
  return queryLog<LoggedRun>(root, 'select * from runs where job_id = ? order by id', id);
}

export async function untilStarted(root: string, id: number, tries = 1): Promise<void> {
  const hasStarted = () => readSeenTries(root).filter(({ jobId }) => jobId === id).length >= tries;
  await until(`try ${tries} of job ${id} has started`, hasStarted, WITHIN_MS);
}

export async function untilState(root: string, id: number, state: string): Promise<void> {
  await until(`job ${id} is ${state}`, () => readJobRow(root, id).state === state, WITHIN_MS);
}
