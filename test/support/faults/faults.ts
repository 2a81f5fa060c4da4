import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { identifyProcess, type ProcessIdentity } from '../../../src/system/process/identity.ts';
import {
  cronPlace,
  type Ended,
  type Place,
  pathWithoutCrontab,
  type Started,
  startCommand,
  startNode,
} from '../command.ts';
import { engine } from '../engines/engines.ts';
import { queryLog } from '../log.ts';
import { until } from '../until.ts';

/** Who a process was that has just ended on this host. */
export function identifyDeadProcess(): ProcessIdentity {
  const { pid } = spawnSync('/bin/true');
  return { ...identifyProcess(process.pid), pid };
}

/** Of a negative number, whether any process of that group is. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Ends, after the test, what the runs of a root left running: for tests that kill the runner. */
export function endOrphans(root: string): void {
  onTestFinished(() => {
    for (const { pid } of queryLog<{ pid: number | null }>(root, 'select pid from runs')) {
      if (pid !== null) killGroup(pid);
    }
  });
}

export function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

/** Loaded into Node, it moves the clock and ends the process as the variables `FAULT_…` say. */
export const preload = new URL('./fault-points.cjs', import.meta.url).pathname;

/** What happens to a runner on its way; see `fault-points.cjs`. */
export interface Fault {
  /** "before sql commit#2", "after 17": where it ends by SIGKILL. */
  readonly at?: string;
  /** What its clock is ahead of the kernel's, in milliseconds. */
  readonly clockMs?: number;
  /** The number of the point from which on the clock is like that; from the beginning if not given. */
  readonly clockFrom?: number;
  /** Or a file: from its making on. */
  readonly clockWhen?: string;
  /** How long ago its machine was booted, in seconds. */
  readonly uptimeS?: number;
  /** How many times faster than it is its monotonic clock runs, and its timers by it. */
  readonly pace?: number;
  /** What it reads from stdin. */
  readonly input?: string;
  /** What its environment has besides cron's. */
  readonly env?: NodeJS.ProcessEnv;
}

/** The built command, from outside made to fail. A status of null: it came to the point, and was killed. */
export function runWithFault(root: string, args: readonly string[], fault: Fault = {}): Promise<Ended> {
  return startWithFault(root, args, fault).ended;
}

/** The same, without waiting for its end. */
export function startWithFault(root: string, args: readonly string[], fault: Fault): Started {
  return startCommand(['--root', root, ...args], placeOf(root, fault));
}

/** The points of a command that nothing happens to, in their order. */
export interface Trace {
  readonly points: readonly string[];
  /** Where in the code, and of a commit also what it commits: two of the same place differ only in what was before. */
  placeOf(point: string): string;
}

/** Every point of a command that nothing happens to, in their order. */
export async function listFaultPoints(
  root: string,
  args: readonly string[],
  fault: Omit<Fault, 'at'> = {},
): Promise<readonly string[]> {
  return (await traceFaultPoints(root, args, fault)).points;
}

export async function traceFaultPoints(
  root: string,
  args: readonly string[],
  fault: Omit<Fault, 'at'> = {},
): Promise<Trace> {
  const log = join(root, 'fault-points');
  const place = placeOf(root, fault);
  const env = { ...place.env, FAULT_LOG: log };
  const command = startCommand(['--root', root, ...args], { ...place, env });
  await command.ended;
  const lines = readFileSync(log, 'utf8').trimEnd().split('\n');
  rmSync(log);
  const entries = lines.map((line) => line.split('\t') as [point: string, place: string]);
  const points = entries.map(([point]) => point);
  const places = findPlaces(entries);
  return { points, placeOf: (point) => places.get(point) as string };
}

function findPlaces(entries: readonly (readonly [point: string, place: string])[]): ReadonlyMap<string, string> {
  let within: string[] = [];
  return new Map(
    entries.map(([point, place]) => {
      const kind = kindOf(point);
      within = kind === 'sql begin' ? [] : [...within, kind];
      return [point, `${kind === 'sql commit' ? within.join() : kind} at ${place}`];
    }),
  );
}

/**
 * Those before which something is as at no other one. Until a transaction is committed, it is as if nothing had
 * been written, and an empty one writes nothing; some settings are of the connection alone.
 */
export function distinctPoints(points: readonly string[]): readonly string[] {
  let isWithin = false;
  return points.filter((point, index) => {
    const kind = kindOf(point);
    const isEmpty = kind === 'sql commit' && kindOf(points[index - 1] ?? '') === 'sql begin';
    const leavesNothing = isWithin && /^sql (insert|update|delete|create) /.test(kind);
    if (/^sql (begin|commit|rollback)$/.test(kind)) isWithin = kind === 'sql begin';
    return !(isEmpty || leavesNothing || ofConnection.test(kind));
  });
}

/** Where in the code one is killed at this side of a point: between what was done before it and what comes next. */
export function placeBetween({ placeOf }: Trace, before: string | undefined, side: string, point: string): string {
  const done = side === 'after' || before === undefined ? '' : placeOf(before);
  return `${done}\n${side} ${placeOf(point)}`;
}

const ofConnection = /^sql (begin|rollback|pragma (synchronous|busy_timeout))$/;

/** What a point does, without how often it was done before. */
export function kindOf(point: string): string {
  return point.replace(/#\d+$/, '');
}

function placeOf(
  root: string,
  { at, clockMs, clockFrom = 0, clockWhen, uptimeS, pace, input, env: more }: Fault,
): Place {
  const { cwd, env } = cronPlace(root);
  const from = clockWhen === undefined ? `from ${clockFrom}` : `when ${clockWhen}`;
  return {
    cwd,
    ...(input !== undefined && { input }),
    env: {
      ...env,
      // Periods begin alike everywhere.
      FAULT_ZONE: 'UTC',
      ...more,
      // With a note of it in the state folder, for as long as the runner works.
      SHOP_TOKEN: 'tok-4711-0815',
      NODE_OPTIONS: `--require=${preload}`,
      ...(at !== undefined && { FAULT_AT: at }),
      ...(uptimeS !== undefined && { FAULT_UPTIME: String(uptimeS) }),
      ...(pace !== undefined && { FAULT_PACE: String(pace) }),
      ...(clockMs !== undefined && { FAULT_CLOCK: `${clockMs} ${from}` }),
    },
  };
}

/** The built command, as cron calls it at that time: `2026-03-29 03:13`, in UTC. */
export function runAt(root: string, time: string, ...args: readonly string[]): Promise<Ended> {
  const clockMs = Date.parse(`${time.replace(' ', 'T')}Z`) - Date.now();
  return runWithFault(root, args, { clockMs, env: { PATH: pathWithoutCrontab } });
}

/** One call after the other, at each of these times. */
export async function callAt(root: string, times: readonly string[], ...args: readonly string[]): Promise<void> {
  for (const time of times) await runAt(root, time, ...args);
}

/** A script that notes for which time it was run, in UTC: one line for each run. */
export const notesTime = (name: string) => `echo "${name} $RUNNER_SCHEDULED_FOR" >> "$RUNNER_ROOT/ran"\n`;

/** What those scripts have noted: `a 2026-03-29T01:00:00.000Z`. */
export function noted(root: string): readonly string[] {
  try {
    return readFileSync(join(root, 'ran'), 'utf8').trimEnd().split('\n');
  } catch {
    return [];
  }
}

/** Why jobs of scripts were cancelled. */
export function readMissed(root: string): readonly string[] {
  const rows = queryLog<{ detail: string }>(
    root,
    `select detail from events where event = 'job-cancelled' order by id`,
  );
  return rows.map(({ detail }) => detail);
}

/** The runs of scripts in the log, each once, and which of them nobody has seen: those began, and were cut off. */
export function readTold(root: string): readonly string[] {
  const runs = queryLog<{ script: string; outcome: string }>(
    root,
    `select script, outcome from runs where script not like '%/other' order by script`,
  );
  const seen = noted(root).map((line) => line.split(' ')[0]);
  return runs.map(({ script, outcome }) => {
    const times = seen.filter((name) => script === name).length;
    return times === 1 || (times === 0 && outcome === 'crashed') ? script : `${script} ${outcome}, seen ${times} times`;
  });
}

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
