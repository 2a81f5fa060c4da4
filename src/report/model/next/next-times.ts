import { type Kysely, sql } from 'kysely';
import { fileChangedMs, hasOwnTimes, hasWindow, type Script, type Tier } from '../../../discovery/script.ts';
import type { Site } from '../../../discovery/site.ts';
import { tierPeriodMs } from '../../../schedule/period.ts';
import { nextTimeAfter } from '../../../schedule/repeat/calendar.ts';
import type { ActivityLog } from '../../../store/schema.ts';
import { isOnServer } from '../../../store/shared/which-log.ts';
import { record, shown, type Values } from '../../../system/base/record.ts';
import { machineName } from '../../../system/process/identity.ts';
import { readTierState, type SiteOfTiers, selectSeen, type TierState } from '../tier.ts';

/** When a script that has times of its own runs next. */
export const nextTimeRecord = record('NextTime', {
  script: shown.text.like('hourly/clean-tmp'),
  tier: shown.text.like('hourly'),
  /** As it is written. */
  schedule: shown.text.like('daily at 02:30').orNull.about('Null: it runs only after boots'),
  timezone: shown.text.like('Europe/Berlin').orNull,
  /** It runs once after each boot. */
  isAfterBoot: shown.flag,
  /** By its schedule; null: there is none, or it has no schedule. */
  next: shown.instant.orNull.from('atMs').about('A time in the past has come, and waits for a pass'),
  /** Null: nothing can be expected. */
  nextPass: shown.instant.orNull
    .from('passMs')
    .about('When the pass that will run it is expected: one of its tier; of any, if it has a window'),
});

export type NextTime = Values<typeof nextTimeRecord>;

type SiteOfTimes = SiteOfTiers & Pick<Site, 'jobs'>;

/**
 * The next times of all scripts that have some of their own, in the order of their tiers.
 *
 * @param known the tiers whose state has been read already
 */
export async function readNextTimes(
  site: SiteOfTimes,
  tiers: readonly Tier[],
  known: readonly TierState[] = [],
): Promise<NextTime[]> {
  const times: NextTime[] = [];
  for (const tier of tiers) {
    const own = tier.scripts.filter(hasOwnTimes);
    if (own.length === 0) continue;
    const state = known.find((each) => each.tier === tier.name) ?? (await readTierState(site, tier.name, []));
    for (const script of own) times.push(await readNextTime(site, script, tier, state));
  }
  return times;
}

async function readNextTime(site: SiteOfTimes, script: Script, tier: Tier, state: TierState): Promise<NextTime> {
  const { schedule = null, timezone = null, reboot = false } = script.options;
  const atMs = schedule === null ? null : await findTime(site, script, tier);
  const passMs = atMs === null ? null : await findPass(site, script, state, Math.max(atMs, site.nowMs));
  return { script: script.name, tier: tier.name, schedule, timezone, isAfterBoot: reboot, atMs, passMs };
}

/** A pass of its tier queues it; one with a window is run by the first pass of any tier in that. */
async function findPass(site: SiteOfTimes, script: Script, state: TierState, fromMs: number): Promise<number | null> {
  const queuedMs = state.callAfter(fromMs);
  if (queuedMs === null || !hasWindow(script)) return queuedMs;
  const { openingAt } = await import('../../../schedule/script-times.ts');
  const openMs = await openingAt(script.options, queuedMs);
  if (openMs === queuedMs) return queuedMs;
  const { discovery } = await site.jobs();
  const states = await Array.fromAsync(discovery.tiers, ({ name }) => readTierState(site, name, []));
  return await findCallInWindow(script, states, openMs);
}

/** Most openings to look at: calls once a week come into a window soon, or never. */
const MOST_OPENINGS = 32;

/** The first call of any tier from a time on that comes into a script's window; null: none is expected. */
export async function findCallInWindow(
  { options }: Script,
  states: readonly TierState[],
  fromMs: number,
): Promise<number | null> {
  const { openingAt } = await import('../../../schedule/script-times.ts');
  let openMs = await openingAt(options, fromMs);
  for (let count = 0; count < MOST_OPENINGS; count += 1) {
    const calls = states.flatMap(({ callAfter }) => callAfter(openMs) ?? []);
    if (calls.length === 0) return null;
    const callMs = Math.min(...calls);
    openMs = await openingAt(options, callMs);
    if (openMs === callMs) return callMs;
  }
  return null;
}

/** One that has come and waits for a pass, else the next one. */
async function findTime(
  { view, nowMs }: SiteOfTiers,
  script: Script,
  { name: tier, periodMs }: Tier,
): Promise<number | null> {
  const { db } = await view();
  const { dueTime, ruleOf } = await import('../../../schedule/script-times.ts');
  const rule = ruleOf(script.options);
  if (rule === null) return null;
  const facts = { queuedFor: await selectQueuedFor(db, script.name), passAt: await selectLooked(db, tier) };
  const changedAt = fileChangedMs(script);
  return (await dueTime(rule, { ...facts, changedAt, periodMs, nowMs })) ?? (await nextTimeAfter(rule, nowMs));
}

async function selectQueuedFor(db: Kysely<ActivityLog>, script: string): Promise<number | null> {
  const row = await db
    .selectFrom('jobs')
    .select('scheduled_for')
    .where('name', '=', script)
    .where('tier', 'is not', null)
    .orderBy('scheduled_for', 'desc')
    .executeTakeFirst();
  return row?.scheduled_for ?? null;
}

/** When a pass has last looked for times that have come: those before the first one do not count. */
async function selectLooked(db: Kysely<ActivityLog>, tier: string): Promise<number | null> {
  return (await selectFinishedPass(db, tier)) ?? (await selectSeen(db, tier))?.atMs ?? null;
}

/** By number, not by time: the clock may have been set back. */
async function selectFinishedPass(db: Kysely<ActivityLog>, tier: string): Promise<number | null> {
  const pass = await db
    .selectFrom('workers')
    .innerJoin('hosts', 'hosts.id', 'workers.host_id')
    .select('started_at')
    // A literal, as an index holds these alone.
    .where('kind', '=', sql.lit('tier' as const))
    .where('tier', '=', tier)
    .where('state', '=', 'finished')
    .$if(isOnServer(), (passes) => passes.where('host', '=', machineName()))
    .orderBy('workers.id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return pass?.started_at ?? null;
}

/** How long after its time a script may run and nobody wonders. */
const MUCH_MS = 3_600_000;

/**
 * Whether a script runs long after its time, because its tier is called rarely: "daily at 02:30, in a tier whose pass
 * is at 04:13". False if that is unknown.
 */
export function isFarFromPass({ tier, atMs, passMs }: NextTime): boolean {
  // If a frequent tier is late, the cause is cron, which has not called it.
  const isRare = (tierPeriodMs(tier) ?? 0) > MUCH_MS;
  return isRare && atMs !== null && passMs !== null && passMs - atMs > MUCH_MS;
}
