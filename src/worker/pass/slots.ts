import prettyMilliseconds from 'pretty-ms';
import { fileChangedMs, hasOwnTimes, mayBeLeftOut, type Script, type Tier } from '../../discovery/script.ts';
import { hostOf } from '../../queue/add/scripts.ts';
import { findPause } from '../../queue/pauses.ts';
import { dueChore } from '../../schedule/due.ts';
import { nextTimeAfter } from '../../schedule/repeat/calendar.ts';
import { dueTime, leftOutUntil, ruleOf, usualLatenessMs } from '../../schedule/script-times.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import type { ScriptJobRow } from '../../store/statements/script-jobs.ts';
import { clockOffsetMs } from '../../system/base/clock.ts';
import { machineName } from '../../system/process/identity.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';

/** The time for which a pass queues a script that has its own times. */
export interface Slot {
  /** The time of its schedule. */
  readonly scheduledFor: number;
  /** Why the time is not made up for and counts as missed; null: the script runs. */
  readonly missed: string | null;
}

/**
 * By the names of scripts that have their own times, or are left out on this date; null: the script waits. Other scripts
 * are not in the map.
 */
export type Slots = ReadonlyMap<string, Slot | null>;

interface SlotQuery {
  readonly tier: Tier;
  readonly scripts: readonly Script[];
  readonly pauses: readonly Pause[];
  readonly at: number;
}

/**
 * The scripts that run now for a time of their own. In a fleet each machine uses its own clock, as cron does, and finds
 * the same time.
 */
export async function readSlots(
  call: Pick<StoreInvocation, 'store' | 'runner'>,
  { tier, scripts, pauses, at }: SlotQuery,
): Promise<Slots> {
  const slots = new Map<string, Slot | null>(scripts.filter(hasOwnTimes).map(({ name }) => [name, null]));
  const ofToday = await withoutLeftOut(scripts, at - clockOffsetMs());
  for (const script of scripts) if (!ofToday.includes(script)) slots.set(script.name, null);
  const scheduled = scripts.filter((script) => hasOwnTimes(script) && script.options.schedule !== undefined);
  if (scheduled.length === 0) return slots;
  const { store } = call;
  const aheadMs = clockOffsetMs();
  const ofHere = store.fleet === null ? {} : { host: machineName() };
  const [last] = await store.workers.passes(tier.name, { states: ['finished'], limit: 1, ...ofHere });
  const rows = await store.scriptJobs.ofTier(tier.name);
  // A tier that was never called begins with the first time after `runner due` has seen it.
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

/** The scripts that passes run on this date. */
export async function withoutLeftOut(scripts: readonly Script[], nowMs: number): Promise<readonly Script[]> {
  const left: Script[] = [];
  for (const script of scripts) {
    if (!mayBeLeftOut(script) || (await leftOutUntil(script.options, nowMs)) === null) left.push(script);
  }
  return left;
}

function rowOf(rows: readonly ScriptJobRow[], script: Script): ScriptJobRow | undefined {
  return rows.find(({ name, host }) => name === script.name && host === hostOf(script));
}

/** More would hide the rest of the output. */
const MOST_TOLD = 5;

/** Tells a person at a terminal which scripts a pass does not run because their time has not come. */
export async function tellWaiting({ events }: StoreInvocation, scripts: readonly Script[], slots: Slots, at: number) {
  const waiting = scripts.filter(({ name }) => slots.get(name) === null);
  for (const { name, options } of waiting.slice(0, MOST_TOLD)) {
    const rule = ruleOf(options);
    const next = rule === null ? await leftOutUntil(options, at) : await nextTimeAfter(rule, at);
    const tag = options.schedule ? '@schedule' : options.reboot ? '@reboot' : '@except';
    const until =
      tag === '@reboot' ? 'for the next boot' : next === null ? '' : `until ${new Date(next).toISOString()}`;
    const waits = tag === '@except' ? 'is left out' : 'waits';
    if (until !== '') events.emit('deferred', `${name} ${waits} ${until}, as its ${tag} says`);
  }
  const more = waiting.length - MOST_TOLD;
  if (more > 0) events.emit('deferred', `${more} more wait for their time: \`npx folder-runner status\` shows them`);
}

/** A time that fell into a pause is made up for after it, unless the tier does not catch up. */
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
