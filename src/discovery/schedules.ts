import { shortestPeriodMs } from '../schedule/period.ts';
import { shortestGapMs } from '../schedule/repeat/calendar.ts';
import { readSchedule } from '../schedule/repeat/parse.ts';
import type { Script } from './script.ts';

/** Refuses scripts whose schedule is invalid, or more frequent than their tier. */
export function checkSchedules(scripts: readonly Script[]): readonly Script[] {
  return scripts.map((script) => {
    const refusal = refuse(script);
    if (refusal !== null) return { ...script, refusals: [...script.refusals, refusal] };
    const warning = warnOfNoPeriod(script);
    return warning === null ? script : { ...script, warnings: [...script.warnings, warning] };
  });
}

function refuse({ tier, options: { schedule, timezone } }: Script): string | null {
  if (schedule === undefined) return null;
  const parsed = readSchedule(schedule, timezone ?? null);
  if ('matter' in parsed) return `its ${parsed.matter}`;
  const period = shortestPeriodMs(tier);
  const gapMs = shortestGapMs(parsed.rule, 0);
  if (period === null || gapMs >= period) return null;
  return `its schedule ${JSON.stringify(schedule)} is more frequent than jobs/${tier}: move it to jobs/${tierFor(gapMs)}`;
}

/** Its times come, but no crontab line of `runner cron` calls its tier. */
function warnOfNoPeriod({ tier, options }: Script): string | null {
  if (options.schedule === undefined || shortestPeriodMs(tier) !== null) return null;
  return (
    `cron does not call jobs/${tier}, because its name is not a schedule name: its schedule counts only in ` +
    `calls of \`npx folder-runner due\` or \`npx folder-runner ${tier}\``
  );
}

const MINUTE_MS = 60_000;

/** The longest usual tier that is called at least this often. */
function tierFor(gapMs: number): string {
  const usual = ['weekly', 'daily', 'hourly', '15min', '5min'];
  const fits = (tier: string): boolean => (shortestPeriodMs(tier) ?? 0) <= gapMs;
  return usual.find(fits) ?? `${Math.max(1, Math.floor(gapMs / MINUTE_MS))}min`;
}
