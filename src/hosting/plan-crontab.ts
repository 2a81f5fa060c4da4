import { join } from 'node:path';
import { findOwnNode } from '../process/find-program.ts';
import { chooseCronTiers } from './cron-tiers.ts';
import { crontabBlock } from './crontab-block.ts';
import { crontabLines, dueLine } from './crontab-lines.ts';
import { warnOfVanishingPath } from './vanishing-path.ts';

export interface CrontabPlanRequest {
  readonly root: string;
  /** The value of `--tiers`. */
  readonly tiers: string | undefined;
  /** One line for all tiers, with these words after `due`; null: a line for each tier. */
  readonly due: readonly string[] | null;
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
export function planCrontab({ root, tiers, due, distFolder }: CrontabPlanRequest): CrontabPlan {
  const nodePath = findOwnNode();
  const commandPath = join(distFolder, 'bin.cjs');
  const zoneOffsetMinutes = new Date().getTimezoneOffset();
  const request = {
    nodePath,
    commandPath,
    root,
    tiers: chooseCronTiers(root, tiers),
    zoneOffsetMinutes,
  };
  const lines = due === null ? crontabLines(request) : [dueLine(request, due)];
  return {
    lines,
    block: crontabBlock(root, lines),
    warnings: [nodePath, commandPath]
      .map(warnOfVanishingPath)
      .filter((warning) => warning !== null),
  };
}
