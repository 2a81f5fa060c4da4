import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { findScriptProcess } from '../../../src/worker/recovery/sweep.ts';
import { cronPlace, runCommand, type Started, startCommand } from '../../support/command.ts';
import { kindOf, listFaultPoints } from '../../support/faults/faults.ts';
import { checkInvariants } from '../../support/faults/invariants.ts';
import { queryLog } from '../../support/log.ts';
import { executable, makeTemporaryRoot } from '../../support/root.ts';
import { until } from '../../support/until.ts';

/*
 * While a script of Node runs, the process of the next one is started, and waits for its turn.
 */

/** Says that it is there, and stays until it may go. */
const first = `
  import { appendFileSync, existsSync } from 'node:fs';
  import { setTimeout as sleep } from 'node:timers/promises';
  appendFileSync('started', 'a');
  while (existsSync('wait')) await sleep(5);
  appendFileSync('ended', Date.now() + '\\n');
`;
const second = `
  import { appendFileSync, readdirSync } from 'node:fs';
  const began = Date.now();
  const { userCPUTime, systemCPUTime } = process.resourceUsage();
  export default ({ latenessMs, scheduledFor }) => {
    appendFileSync('seen', JSON.stringify({
      began, latenessMs, variable: process.env.RUNNER_LATENESS_MS, pid: process.pid,
      at: scheduledFor.getTime() + latenessMs, origin: performance.timeOrigin,
      cpuMs: (userCPUTime + systemCPUTime) / 1000, temporary: readdirSync(process.env.RUNNER_TMPDIR),
    }) + '\\n');
  };
`;
const files = { 'jobs/hourly/a.mjs': first, 'jobs/hourly/b.mjs': second };

interface Seen {
  readonly began: number;
  readonly latenessMs: number;
  readonly variable: string;
  readonly pid: number;
  readonly at: number;
  readonly origin: number;
  readonly cpuMs: number;
  readonly temporary: readonly string[];
}

const readLines = (root: string, name: string): string[] =>
  existsSync(join(root, name)) ? readFileSync(join(root, name), 'utf8').trimEnd().split('\n') : [];
const readSeen = (root: string): Seen[] => readLines(root, 'seen').map((line) => JSON.parse(line));
const runPass = (root: string) => runCommand(['hourly', '--root', root], cronPlace(root));
const jobOf = (root: string) => queryLog(root, "select state, attempts from jobs where name = 'hourly/b'")[0];
const runsOf = (root: string) =>
  queryLog(root, "select outcome, attempt from runs where script = 'hourly/b' order by id");
const listHeld = (root: string) => readdirSync(join(root, '.runner/output')).filter((name) => name.endsWith('.held'));

/** A root whose scripts are known to be short. */
function makeKnown(more: Readonly<Record<string, string>> = {}): string {
  const root = makeTemporaryRoot({ ...files, ...more });
  expect(runPass(root).status).toBe(0);
  for (const name of ['started', 'ended', 'seen']) rmSync(join(root, name));
  writeFileSync(join(root, 'wait'), '');
  return root;
}

/** A pass whose first script runs, and the process of its second one, which waits. */
async function startHeld(root: string): Promise<{ pass: Started; pid: number }> {
  const pass = startCommand(['hourly', '--root', root], cronPlace(root));
  let pid: number | null = null;
  await until('the second process is there', () => {
    pid = findScriptProcess(root, 'hourly/b');
    return pid !== null && listHeld(root).length === 1;
  });
  return { pass, pid: pid as unknown as number };
}

const letGo = (root: string): void => rmSync(join(root, 'wait'));

const isGone = (pid: number): boolean => !existsSync(`/proc/${pid}/environ`);

describe.runIf(availableParallelism() > 1)('the process of the next script', () => {
  test('is there before its turn; its run begins with its turn, and all of its CPU time counts', async () => {
    const root = makeKnown();
    const { pass, pid } = await startHeld(root);
    expect(readSeen(root)).toEqual([]);
    expect(jobOf(root)).toEqual({ state: 'claimed', attempts: 0 });
    letGo(root);
    expect((await pass.ended).status).toBe(0);

    const [seen] = readSeen(root) as [Seen];
    const ended = Number(readLines(root, 'ended')[0]);
    expect(readSeen(root)).toHaveLength(1);
    expect(seen.pid).toBe(pid);
    expect(seen.origin).toBeLessThan(ended);
    expect(seen.began).toBeGreaterThanOrEqual(ended);
    expect(seen.at).toBeGreaterThanOrEqual(ended);
    expect(seen.variable).toBe(String(seen.latenessMs));
    expect(seen.temporary).toEqual([]);
    const [run] = queryLog<Record<string, number>>(
      root,
      `select started_at, duration_us, user_cpu_us + system_cpu_us as cpu from runs
       where script = 'hourly/b' order by id desc limit 1`,
    );
    expect(run?.started_at).toBeGreaterThanOrEqual(ended);
    expect(run?.duration_us).toBeLessThan((Date.now() - ended) * 1000);
    // Node's own start, before its turn, is work for the script, too.
    expect(run?.cpu).toBeGreaterThanOrEqual(seen.cpuMs * 1000);
    checkInvariants(root);
  });

  test('ends without having begun when the pass is told to stop', async () => {
    const root = makeKnown();
    const { pass, pid } = await startHeld(root);
    pass.kill('SIGTERM');
    expect((await pass.ended).status).toBe(143);
    expect(isGone(pid)).toBe(true);
    expect(jobOf(root)).toEqual({ state: 'queued', attempts: 0 });
    expect(runsOf(root)).toHaveLength(1);
    expect(readSeen(root)).toEqual([]);
    checkInvariants(root);
  });

  test('ends with its runner, however that ends; the next pass runs it, as a first try', async () => {
    const root = makeKnown();
    const { pass, pid } = await startHeld(root);
    pass.kill('SIGKILL');
    await pass.ended;
    await until('it has ended, too', () => isGone(pid));
    letGo(root);
    await until('the first script has ended', () => readLines(root, 'ended').length === 1);
    expect(readSeen(root)).toEqual([]);
    expect(runPass(root).status).toBe(0);
    expect(readSeen(root)).toHaveLength(1);
    const succeeded = { outcome: 'succeeded', attempt: 1 };
    expect(runsOf(root)).toEqual([succeeded, succeeded]);
    checkInvariants(root);
  });

  test.each([
    ['was killed', (_root: string, pid: number) => void process.kill(pid, 'SIGKILL')],
    [
      'may not begin any more',
      (root: string) => {
        const [name = ''] = listHeld(root);
        rmSync(join(root, '.runner/output', name));
      },
    ],
  ])('is replaced by another one if it %s', async (_what, harm) => {
    const root = makeKnown();
    const { pass, pid } = await startHeld(root);
    harm(root, pid);
    letGo(root);
    expect((await pass.ended).status).toBe(0);
    const [seen, ...more] = readSeen(root) as [Seen];
    expect(more).toEqual([]);
    expect(seen.pid).not.toBe(pid);
    expect(runsOf(root)).toHaveLength(2);
    checkInvariants(root);
  });
});

test.each([
  ['a limit', { 'runner.config.json': '{ "limits": { "maxProcesses": 100000 } }' }],
  ['several at a time', { 'runner.config.json': '{ "concurrency": 2 }' }],
  ['another program', { 'jobs/hourly/aa.sh': '#!/bin/sh\n' }],
])('no process is started ahead with %s', async (_what, more) => {
  const root = makeKnown(more);
  const pass = startCommand(['hourly', '--root', root], cronPlace(root));
  await until('the first one runs', () => existsSync(join(root, 'started')));
  expect(listHeld(root)).toEqual([]);
  letGo(root);
  expect((await pass.ended).status).toBe(0);
  expect(listHeld(root)).toEqual([]);
  expect(readSeen(root)).toHaveLength(1);
});

test('the end of a script and the claim of the next one are one commit', async () => {
  const countCommits = async (scripts: number): Promise<number> => {
    const names = Array.from({ length: scripts }, (_, index) => `jobs/hourly/${index}.sh`);
    const root = makeTemporaryRoot(Object.fromEntries(names.map((name) => [name, executable('#!/bin/sh\n')])));
    runPass(root);
    const points = await listFaultPoints(root, ['hourly']);
    // On a busy machine a script may last so long that its run has a row before its end: a commit more.
    const lasting = queryLog(root, 'select 1 from runs where pid_start_ticks is not null and worker_id = 2');
    return points.filter((point) => kindOf(point) === 'sql commit').length - lasting.length;
  };
  expect((await countCommits(7)) - (await countCommits(3))).toBe(4);
});
