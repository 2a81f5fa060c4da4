import { hasWindow, type Tier } from '../../discovery/script.ts';
import { printableLine } from '../../system/base/text.ts';
import { isFarFromPass, type NextTime } from '../model/next/next-times.ts';
import type { Clock } from './clock.ts';

/** With a delay up to this, the pass that runs a script is not worth a mention. */
const SOON_MS = 15 * 60_000;

/** `11-30 07:00`; `11-24 02:30, with the pass of 11-24 04:13`; `due since 11-23 02:30`; `after the next boot`. */
export function describeNext(time: NextTime, clock: Clock, nowMs: number): string {
  const boot = time.isAfterBoot ? 'after the next boot' : '';
  if (time.schedule === null) return boot;
  const next = describeTime(time, clock, nowMs);
  return boot === '' ? next : `${next}; also ${boot}`;
}

/** The same of a schedule alone: `next 11-30 07:00`, `due since 11-23 02:30`. */
export function describeNextTime(time: NextTime, clock: Clock, nowMs: number): string {
  const next = describeTime(time, clock, nowMs);
  return time.atMs === null || time.atMs <= nowMs ? next : `next ${next}`;
}

function describeTime({ atMs, passMs }: NextTime, clock: Clock, nowMs: number): string {
  if (atMs === null) return 'no further time';
  const isDue = atMs <= nowMs;
  const when = isDue ? `due since ${clock.short(atMs)}` : clock.short(atMs);
  const isLater = passMs !== null && (isDue || passMs - atMs > SOON_MS);
  return isLater ? `${when}, with the pass of ${clock.short(passMs)}` : when;
}

/** `weekly on monday at 07:00 (Europe/Berlin)`. */
export function describeSchedule({ schedule, timezone }: NextTime): string {
  const zone = timezone === null ? '' : ` (${printableLine(timezone)})`;
  return schedule === null ? '' : printableLine(schedule) + zone;
}

/** A warning that a script runs long after its time, because its tier is called rarely; null: it does not. */
export function warnOfFarPass(time: NextTime, clock: Clock): string | null {
  const { tier, atMs, passMs } = time;
  if (atMs === null || passMs === null || !isFarFromPass(time)) return null;
  const [at, pass] = [clock.short(atMs), clock.short(passMs)];
  return `its next time is ${at}, but the pass of ${tier} is at ${pass}: in jobs/hourly it would run sooner`;
}

/** The scripts with a warning where it is so. */
export function withFarPasses(tiers: readonly Tier[], times: readonly NextTime[], clock: Clock): readonly Tier[] {
  const byScript = new Map(times.map((time) => [time.script, warnOfFarPass(time, clock)]));
  return tiers.map((tier) => ({
    ...tier,
    scripts: tier.scripts.map((script) => {
      // One with a window is to run later.
      const warning = hasWindow(script) ? null : (byScript.get(script.name) ?? null);
      return warning === null ? script : { ...script, warnings: [...script.warnings, warning] };
    }),
  }));
}
