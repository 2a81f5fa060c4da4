import { join } from 'node:path';
import { findOwnNode } from '../process/find-program.ts';
import { type CronCall, dueCall, tierCalls, workCall } from './cron-calls.ts';
import { chooseCronTiers, periodicTiers } from './cron-tiers.ts';
import { crontabBlock } from './crontab-block.ts';
import { crontabLines } from './crontab-lines.ts';
import { warnOfVanishingPath } from './vanishing-path.ts';

export interface CrontabPlanRequest {
  readonly root: string;
  /** The value of `--tiers`. */
  readonly tiers: string | undefined;
  /** One line for all tiers, with these words after `due`; null: a line for each tier. */
  readonly due: readonly string[] | null;
  /** Every how many minutes a line calls `runner work`; null: none does. */
  readonly workMinutes: number | null;
  /** The folder of the command that runs now. */
  readonly distFolder: string;
}

export interface CrontabPlan {
  readonly lines: readonly string[];
  /** The lines between their markers, ready to paste. */
  readonly block: string;
  /** What may make the lines fail one day: one sentence each. */
  readonly warnings: readonly string[];
}

/** What the crontab should hold for this root, run by the Node and the command that run now. */
export function planCrontab(request: CrontabPlanRequest): CrontabPlan {
  const { root } = request;
  const nodePath = findOwnNode();
  const commandPath = join(request.distFolder, 'bin.cjs');
  const zoneOffsetMinutes = new Date().getTimezoneOffset();
  const calls = callsOf(request);
  const lines = crontabLines({ nodePath, commandPath, root, calls, zoneOffsetMinutes });
  return {
    lines,
    block: crontabBlock(root, lines),
    warnings: [nodePath, commandPath]
      .map(warnOfVanishingPath)
      .filter((warning) => warning !== null),
  };
}

/** The worker last: the minutes of the tiers must not depend on it. */
function callsOf({ root, tiers: option, due, workMinutes }: CrontabPlanRequest): CronCall[] {
  const work = workMinutes === null ? [] : [workCall(workMinutes)];
  const mayBeWithout = work.length > 0 && due === null && option === undefined;
  const tiers = mayBeWithout ? periodicTiers(root) : chooseCronTiers(root, option);
  return [...(due === null ? tierCalls(tiers) : [dueCall(tiers, due)]), ...work];
}
