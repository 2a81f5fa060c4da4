import { shortestPeriodMs } from '../schedule/period.ts';
import { shortestGapMs } from '../schedule/repeat/calendar.ts';
import { describeZone } from '../schedule/repeat/grammar/ending.ts';
import { readSchedule } from '../schedule/repeat/grammar/parse.ts';
import { describeDates, describeOver } from '../schedule/repeat/limits.ts';
import type { RulesPlace } from '../schedule/repeat/place.ts';
import { parseWindow } from '../schedule/repeat/window.ts';
import { ruleOf } from '../schedule/script-times.ts';
import { MINUTE_MS } from '../system/base/values.ts';
import { isZone } from '../system/base/zone.ts';
import type { JobsPlace } from './jobs-folder.ts';
import type { Script } from './script.ts';

/**
 * Refuses a script whose schedule, window or dates are invalid, or whose schedule is more frequent than its tier; warns
 * of times that do not come, and of dates that are over.
 */
export function checkTimes(script: Script, { root, settings }: JobsPlace): Script {
  const place = { root, allowUnsafe: settings.allowUnsafe };
  const refusal = refuseSchedule(script, place) ?? refuseWindow(script) ?? refuseDates(script, place);
  if (refusal !== null) return { ...script, refusals: [...script.refusals, refusal] };
  const over = describeOver(ruleOf(script.options)?.limits?.except ?? script.options.except ?? [], place);
  const warnings = [warnOfNoPeriod(script), over].filter((warning) => warning !== null);
  if (warnings.length === 0) return script;
  return { ...script, warnings: [...script.warnings, ...warnings], ...(over !== null && { doubt: over }) };
}

function refuseSchedule({ tier, options: { schedule, timezone } }: Script, place: RulesPlace): string | null {
  if (schedule === undefined) {
    return timezone === undefined || isZone(timezone) ? null : `its ${describeZone('@timezone', timezone)}`;
  }
  const parsed = readSchedule(schedule, timezone ?? null);
  if ('matter' in parsed) return `its ${parsed.matter}`;
  const problem = describeDates('its schedule', parsed.rule, place);
  if (problem !== null) return problem;
  const period = shortestPeriodMs(tier);
  const gapMs = shortestGapMs(parsed.rule, 0);
  if (period === null || gapMs >= period) return null;
  return `its schedule ${JSON.stringify(schedule)} is more frequent than jobs/${tier}: move it to jobs/${tierFor(gapMs)}`;
}

function refuseWindow({ options: { between } }: Script): string | null {
  const parsed = between === undefined ? null : parseWindow(between);
  if (parsed === null || !('fault' in parsed)) return null;
  const [, zone] = / in (\S+)$/.exec(between ?? '') ?? [];
  if (zone !== undefined) return `its @${parsed.fault}; the zone has a tag of its own: @timezone ${zone}`;
  return `its @${parsed.fault}${parsed.meant === undefined ? '' : `; did you mean @between ${parsed.meant}?`}`;
}

function refuseDates({ options }: Script, place: RulesPlace): string | null {
  const { except = [] } = options;
  if (except.length === 0) return null;
  const rule = { limits: { except, between: null }, ...ruleOf(options), text: except.join(' ') };
  return describeDates('its @except', rule, place);
}

/** Its times come, but no crontab line of `runner cron` calls its tier. */
function warnOfNoPeriod({ tier, options }: Script): string | null {
  if (options.schedule === undefined || shortestPeriodMs(tier) !== null) return null;
  return (
    `cron does not call jobs/${tier}, because its name is not a schedule name: its schedule counts only in ` +
    `calls of \`npx folder-runner due\` or \`npx folder-runner ${tier}\``
  );
}

/** The longest usual tier that is called at least this often. */
function tierFor(gapMs: number): string {
  const usual = ['weekly', 'daily', 'hourly', '15min', '5min'];
  const fits = (tier: string): boolean => (shortestPeriodMs(tier) ?? 0) <= gapMs;
  return usual.find(fits) ?? `${Math.max(1, Math.floor(gapMs / MINUTE_MS))}min`;
}
