import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Ended, Place } from '../calls/run-command.ts';
import { type Started, startCommand } from '../calls/start-command.ts';
import { cronPlace } from '../places/cron-place.ts';

const preload = new URL('./fault-points.cjs', import.meta.url).pathname;

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
