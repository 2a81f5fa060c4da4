import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runWithFault } from '../faults/fault-points.ts';
import { queryLog } from '../log/open-log.ts';
import { pathWithoutCrontab } from './in-root.ts';
import type { Ended } from './run-command.ts';

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
