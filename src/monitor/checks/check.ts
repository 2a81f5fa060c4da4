import { readJobsFolder } from '../../discovery/jobs-folder.ts';
import { type ExpectedCall, expectCall } from '../../schedule/expected-call.ts';
import { tierPeriodMs } from '../../schedule/period.ts';
import type { CheckSetting, Settings } from '../../settings/settings.ts';
import {
  checksOf,
  type DueJobsRow,
  type RunningRow,
  type ScriptStandRow,
  type TierCallRow,
} from '../../store/statements/monitor/checks.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import type { HostCopy } from '../../store/statements/registers.ts';
import type { Store } from '../../store/store.ts';
import { once } from '../../system/base/values.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { checkLiveness } from '../../system/process/identity.ts';
import type { Presence } from '../presence.ts';
import type { CheckCode, CheckStatus, Finding } from './finding.ts';

/** One look at one side of the log or the host. It changes nothing, and may throw: then its answer is unknown. */
export interface HealthCheck {
  readonly code: CheckCode;
  /** By which its threshold is set. */
  readonly setting: CheckSetting;
  /** Subject of what it says where nothing is wrong. */
  readonly subject: string;
  /** From where on it complains; null: never, unless the settings say when. */
  defaultThreshold(facts: CheckFacts): number | null | Promise<number | null>;
  run(facts: CheckFacts, threshold: number): CheckResult | Promise<CheckResult>;
}

/** What a check has found. */
export interface CheckResult {
  /** What is wrong; none: all is well. */
  readonly wrong: readonly Wrong[];
  /** What there is to say where nothing is wrong. */
  readonly ok: string;
  readonly figures?: readonly Figure[];
}

/** A finding whose code goes without saying. */
export interface Wrong extends Omit<Finding, 'code' | 'message'> {
  /** Mostly nothing is wrong: then nobody needs to know how a duration is written. */
  readonly message: (words: typeof import('./words.ts')) => string;
  readonly hint: string;
}

/** A figure for graphs, as monitoring plugins give it. */
export interface Figure {
  readonly label: string;
  readonly value: number;
  readonly unit: '' | 's' | 'B';
  /** From where on it is a warning, or critical; null: no such figure alone is. */
  readonly warning: number | null;
  readonly critical: number | null;
  /** It is bad where it is below. */
  readonly isLow?: true;
}

/** Where to look, and when. */
export interface CheckPlace {
  readonly root: string;
  /** Where runs may be recorded; the first one holds the log. */
  readonly states: readonly [StateFolder, ...StateFolder[]];
  readonly settings: Pick<Settings, 'checks'>;
  readonly nowMs: number;
  /** For how long the machine has been up. */
  readonly upMs: number;
}

/** What several checks look at: read when the first one asks. */
export interface CheckFacts extends CheckPlace {
  readonly store: Store;
  readonly log: ReturnType<typeof checksOf>;
  /** The tiers of `jobs/`, on other machines too. */
  tiers(): Promise<readonly WatchedTier[]>;
  /** What other machines of the fleet have. */
  elsewhere(): Promise<readonly HostCopy[]>;
  scripts(): Promise<readonly ScriptStandRow[]>;
  presence(): Promise<Presence>;
  pauses(): Promise<readonly Pause[]>;
  /** Runs whose worker lives, or cannot be seen from here. */
  running(): Promise<readonly RunningRow[]>;
  /** Jobs of the queue that are due and may run. */
  due(): Promise<DueJobs>;
}

export interface WatchedTier {
  readonly tier: string;
  readonly periodMs: number | null;
  /** Null: it was never called. */
  readonly calls: TierCallRow | null;
  /** Null: nothing can be expected. */
  readonly expected: ExpectedCall | null;
}

export interface DueJobs {
  readonly jobs: number;
  /** There may be more. */
  readonly isCut: boolean;
  /** Since when the first one is due; null: none is. */
  readonly oldest: number | null;
  /** Its name. */
  readonly oldestName: string | null;
  /** Most jobs first. */
  readonly names: readonly DueJobsRow[];
}

/** More need not be counted: that many are far too many. */
const MOST_COUNTED = 20_000;

export async function openFacts(store: Store, place: CheckPlace): Promise<CheckFacts> {
  const log = checksOf(store.statements);
  const { root, nowMs } = place;
  const pauses = once(() => store.pauses.inForce(nowMs));
  const elsewhere = once(async () => {
    if (store.fleet === null) return [];
    const { readCopiesElsewhere } = await import('./elsewhere.ts');
    return await readCopiesElsewhere(store, nowMs);
  });
  return {
    ...place,
    store,
    log,
    pauses,
    elsewhere,
    scripts: once(() => log.scripts()),
    presence: once(async () => {
      const { openPresence } = await import('../presence.ts');
      const { loadSettingsIfRight } = await import('../../settings/load.ts');
      return openPresence(store, { root, settings: await loadSettingsIfRight(root), nowMs });
    }),
    tiers: once(async () => {
      const calls = new Map((await log.tiers()).map((row) => [row.tier, row]));
      const names = new Set([...readJobsFolder(root).tiers, ...(await elsewhere()).map(({ tier }) => tier)]);
      return [...names].map((tier) => watchTier(tier, calls.get(tier) ?? null, nowMs));
    }),
    running: once(async () => (await log.running()).filter((run) => checkLiveness(run) !== 'dead')),
    due: once(async () => await sumDue(await log.due(nowMs, MOST_COUNTED), await pauses())),
  };
}

function watchTier(tier: string, calls: TierCallRow | null, nowMs: number): WatchedTier {
  const last = calls === null || calls.calledAt === null ? null : { atMs: calls.calledAt, isDue: calls.isDue };
  return { tier, periodMs: tierPeriodMs(tier), calls, expected: expectCall(tier, last, nowMs) };
}

/** What is paused waits because somebody wants it to. */
async function sumDue(rows: readonly DueJobsRow[], pauses: readonly Pause[]): Promise<DueJobs> {
  const found = rows.reduce((sum, { jobs }) => sum + jobs, 0);
  const names = pauses.length === 0 ? rows : await withoutPaused(rows, pauses);
  const first = names.toSorted((one, other) => one.oldest - other.oldest)[0];
  return {
    jobs: names.reduce((sum, { jobs }) => sum + jobs, 0),
    isCut: found >= MOST_COUNTED,
    oldest: first?.oldest ?? null,
    oldestName: first?.name ?? null,
    names,
  };
}

async function withoutPaused(rows: readonly DueJobsRow[], pauses: readonly Pause[]): Promise<readonly DueJobsRow[]> {
  const { findPause } = await import('../../queue/pauses.ts');
  return rows.filter(({ name }) => findPause(pauses, `queue/${name}`) === null);
}

const HALF_HOUR_MS = 30 * 60_000;

/** How long a job of the queue waits at most where all is well: any tier's pass takes it along. */
export async function longestUsualWaitMs({ tiers }: CheckFacts): Promise<number> {
  const periods = (await tiers()).flatMap(({ periodMs, calls }) => (calls === null ? [] : (periodMs ?? [])));
  return Math.max(HALF_HOUR_MS, periods.length === 0 ? 0 : 2 * Math.min(...periods));
}

export function statusAbove(value: number, critical: number): CheckStatus {
  return value >= critical ? 'critical' : 'warning';
}

/** `1 job`, `12,000 jobs`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${String(count).replaceAll(/\B(?=(?:\d{3})+$)/g, ',')} ${count === 1 ? one : many}`;
}
