import { accessSync, constants, readdirSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { readJobsFolder, reasonToIgnore } from '../../discovery/jobs-folder.ts';
import { expectCall } from '../../schedule/expected-call.ts';
import { tierPeriodMs } from '../../schedule/period.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import { glanceAt, type TierGlance } from '../../store/statements/monitor/glance.ts';
import type { Store } from '../../store/store.ts';
import { listNames } from '../../system/base/values.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import type { CheckPlace } from './check.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** From where on checks complain that nobody has set otherwise. */
export const defaults = {
  scriptOverdue: 3,
  jobsFailing: 10,
  crashes: 3,
  diskFull: 100 * 1024 ** 2,
  alertsUndelivered: HOUR_MS,
} as const;

/** A run of a moment is nothing to tell of, however short it usually is. */
export const SHORTEST_TOLD_MS = MINUTE_MS;

/** Fewer files that can still be made are too few. */
export const FEW_FILES = 1_000;

/**
 * Whether all checks would say so, but those of scripts that fail or warn, told by two statements and a few looks at
 * folders: an invocation that finds nothing wrong, as nearly all do, loads nothing else. In doubt it says no, and the
 * checks have the say; whoever has set some of them has them run.
 */
export async function isAllWell(
  store: Pick<Store, 'statements' | 'fleet'>,
  place: CheckPlace & { readonly states: readonly [StateFolder] },
): Promise<boolean> {
  const { root, states, settings, nowMs } = place;
  try {
    if (Object.keys(settings.checks).length > 0 || !isPlaceWell(states[0])) return false;
    const own = readJobsFolder(root).tiers;
    const others = store.fleet === null ? [] : await readTiersElsewhere(store, own, nowMs);
    const { isSuspicious, tiers } = await glanceAt(store.statements, glanceFrom(nowMs), [...own, ...others]);
    return !isSuspicious && tiers.every((tier) => isTierWell(tier, root, nowMs));
  } catch {
    // The checks say what cannot be looked at.
    return false;
  }
}

async function readTiersElsewhere(store: Pick<Store, 'statements'>, own: readonly string[], nowMs: number) {
  const { readCopiesElsewhere } = await import('./elsewhere.ts');
  const tiers = new Set((await readCopiesElsewhere(store, nowMs)).map(({ tier }) => tier));
  return [...tiers].filter((tier) => !own.includes(tier));
}

function glanceFrom(at: number) {
  return {
    at,
    runningSince: at - SHORTEST_TOLD_MS,
    ...{ failedSince: at - HOUR_MS, fewestFailed: defaults.jobsFailing },
    ...{ crashedSince: at - DAY_MS, fewestCrashes: defaults.crashes },
    undeliveredSince: at - defaults.alertsUndelivered,
  };
}

/** The log can be written, nothing lies beside it, and there is room. */
export function isPlaceWell({ path, spool, database }: StateFolder): boolean {
  accessSync(isOnServer() ? path : database, constants.R_OK | constants.W_OK);
  const { bavail, bsize, files, ffree } = statfsSync(path);
  if (bavail * bsize < defaults.diskFull || (files > 0 && ffree < FEW_FILES)) return false;
  return listNames(spool).length === 0 && !listNames(path).some((name) => name.startsWith('activity.db.broken-'));
}

function isTierWell({ tier, calledAt, isDue, isHeld, idleSince }: TierGlance, root: string, nowMs: number): boolean {
  const periodMs = tierPeriodMs(tier);
  if (isHeld === true) return false;
  if (periodMs === null) return true;
  if (isHeld === null) return !mayBeNeverCalled(root, tier, periodMs, nowMs);
  if (calledAt === null) return true;
  const idleMs = idleSince === null ? 0 : nowMs - idleSince;
  if (idleMs > defaults.scriptOverdue * periodMs + HOUR_MS) return false;
  return expectCall(tier, { atMs: calledAt, isDue }, nowMs)?.isOverdue !== true;
}

function mayBeNeverCalled(root: string, tier: string, periodMs: number, nowMs: number): boolean {
  return nowMs - madeAt(root, tier) > callGraceMs(periodMs) && holdsScripts(root, tier);
}

/** So long a tier that is new has until its first call. */
export function callGraceMs(periodMs: number): number {
  return 2 * periodMs + HOUR_MS;
}

export function madeAt(root: string, tier: string): number {
  const { birthtimeMs, ctimeMs } = statSync(join(root, 'jobs', tier));
  return birthtimeMs > 0 ? birthtimeMs : ctimeMs;
}

/** `runner cron` writes no line for a tier without scripts. */
export function holdsScripts(root: string, tier: string): boolean {
  return readdirSync(join(root, 'jobs', tier)).some((name) => reasonToIgnore(name) === null);
}
