import prettyMilliseconds from 'pretty-ms';
import { fileChangedMs, hasOwnTimes, type Script, type Tier } from '../../discovery/script.ts';
import { hostOf } from '../../queue/add/scripts.ts';
import { findPause } from '../../queue/pauses.ts';
import { dueChore } from '../../schedule/due.ts';
import { nextTimeAfter } from '../../schedule/repeat/calendar.ts';
import { dueTime, ruleOf, usualLatenessMs } from '../../schedule/script-times.ts';
import type { Pause } from '../../store/contract/housekeeping.ts';
import type { ScriptJobRow } from '../../store/contract/jobs.ts';
import { clockOffsetMs } from '../../system/base/clock.ts';
import { machineName } from '../../system/process/identity.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';

/** What a pass does with a script that has times of its own. */
export interface Slot {
  /** The time of its schedule. */
  readonly scheduledFor: number;
  /** Why it is not made up for: then it is recorded as missed; null: it is to be run. */
  readonly missed: string | null;
}

/** By the names of scripts that have times of their own; null: it waits. A script that is not among them has none. */
export type Slots = ReadonlyMap<string, Slot | null>;

interface SlotQuery {
  readonly tier: Tier;
  readonly scripts: readonly Script[];
  readonly pauses: readonly Pause[];
  readonly at: number;
}

/**
 * Which scripts are to be run now for a time of their own. On many machines each goes by its own clock, as cron does,
 * and names the same time.
 */
export async function readSlots(
  call: Pick<StoreInvocation, 'store' | 'runner'>,
  { tier, scripts, pauses, at }: SlotQuery,
): Promise<Slots> {
  const slots = new Map<string, Slot | null>(scripts.filter(hasOwnTimes).map(({ name }) => [name, null]));
  const scheduled = scripts.filter((script) => hasOwnTimes(script) && script.options.schedule !== undefined);
  if (scheduled.length === 0) return slots;
  const { store } = call;
  const aheadMs = clockOffsetMs();
  const ofHere = store.fleet === null ? {} : { host: machineName() };
  const [last] = await store.workers.passes(tier.name, { states: ['finished'], limit: 1, ...ofHere });
  const rows = await store.scriptJobs.ofTier(tier.name);
  // A tier that was never called begins with what comes after `runner due` has first seen it.
  const lookedAt = last?.startedAt ?? (await store.chores.doneAt(dueChore(tier.name)));
  const passAt = lookedAt === null ? null : lookedAt - aheadMs;
  for (const script of scheduled) {
    const rule = ruleOf(script.options);
    if (rule === null) continue;
    const queuedFor = rowOf(rows, script)?.scheduled_for ?? null;
    const changedAt = fileChangedMs(script);
    const times = { queuedFor, passAt, changedAt, periodMs: tier.periodMs, nowMs: at - aheadMs };
    const scheduledFor = await dueTime(rule, times);
    if (scheduledFor === null) continue;
    const isPaused = findPause(pauses, script.name) !== null;
    slots.set(script.name, { scheduledFor, missed: whyMissed(call, tier, times.nowMs - scheduledFor, isPaused) });
  }
  return slots;
}

function rowOf(rows: readonly ScriptJobRow[], script: Script): ScriptJobRow | undefined {
  return rows.find(({ name, host }) => name === script.name && host === hostOf(script));
}

/** More would drown the rest. */
const MOST_TOLD = 5;

/** Tells somebody at a terminal which scripts a pass does not run, as their time has not come. */
export async function tellWaiting({ events }: StoreInvocation, scripts: readonly Script[], slots: Slots, at: number) {
  const waiting = scripts.filter(({ name }) => slots.get(name) === null);
  for (const { name, options } of waiting.slice(0, MOST_TOLD)) {
    const rule = ruleOf(options);
    const next = rule === null ? null : await nextTimeAfter(rule, at);
    const until = next === null ? (options.reboot ? 'for the next boot' : '') : `until ${localTime(next)}`;
    if (until !== '')
      events.emit('deferred', `${name} waits ${until}, as its ${options.schedule ? '@schedule' : '@reboot'} says`);
  }
  const more = waiting.length - MOST_TOLD;
  if (more > 0) events.emit('deferred', `${more} more wait for their time: \`npx folder-runner status\` shows them`);
}

/** `2026-11-30 07:00`, by the clock of this host. */
function localTime(atMs: number): string {
  return new Date(atMs).toLocaleString('sv-SE', { dateStyle: 'short', timeStyle: 'short' });
}

/** What waits for the end of a pause is made up for then, unless it is not to be. */
function whyMissed(
  { runner }: Pick<StoreInvocation, 'runner'>,
  tier: Tier,
  lateMs: number,
  isPaused: boolean,
): string | null {
  if (runner.settings.tiers[tier.name]?.catchUp !== 'skip') return null;
  const rule = "and its tier's catchUp is 'skip'";
  if (isPaused) return `it was paused at its time, ${rule}`;
  if (lateMs <= usualLatenessMs(tier.periodMs)) return null;
  return `it was missed by ${prettyMilliseconds(lateMs, { compact: true })}, ${rule}`;
}
