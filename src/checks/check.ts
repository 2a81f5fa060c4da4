import { readJobsFolder } from '../discovery/jobs-folder.ts';
import type { CheckCode, CheckStatus, HealthFinding } from '../monitor/finding.ts';
import { copiesElsewhere } from '../monitor/machines.ts';
import type { Presence } from '../monitor/presence.ts';
import { findPause } from '../queue/pauses.ts';
import { expectByCrontab, type ReadCrontab } from '../schedule/crontab-times.ts';
import { type ExpectedCall, expectCall } from '../schedule/expected-call.ts';
import { tierPeriodMs } from '../schedule/period.ts';
import { loadSettingsIfRight } from '../settings/load.ts';
import type { Settings } from '../settings/settings.ts';
import type { IncidentRow } from '../store/schema.ts';
import {
  checksOf,
  type DueJobsRow,
  MOST_DUE,
  type RunningRow,
  type ScriptStandRow,
  type TierCallRow,
} from '../store/statements/monitor/checks.ts';
import { incidentsOf } from '../store/statements/monitor/incidents.ts';
import type { Pause } from '../store/statements/pauses.ts';
import type { HostCopy } from '../store/statements/registers.ts';
import type { Store } from '../store/store.ts';
import { once } from '../system/base/values.ts';
import type { StateFolder } from '../system/place/state-folder.ts';
import { checkLiveness } from '../system/process/identity.ts';

/** One look at one side of the log or its disk. It changes nothing, and may throw: then its answer is unknown. */
export interface HealthCheck {
  readonly code: CheckCode;
  /** The subject of the check's message if nothing is wrong. */
  readonly where: 'tiers' | 'scripts' | 'queue' | 'workers' | 'log' | 'disk' | 'alerts';
  /** Each machine of a fleet makes it for itself. */
  readonly isOwn?: true;
  /** The default of its setting: where it begins to complain. Null: it does not, unless the settings say where. */
  defaultThreshold(facts: CheckFacts): number | null | Promise<number | null>;
  run(facts: CheckFacts, threshold: number): CheckResult | Promise<CheckResult>;
}

/** The result of a check. */
export interface CheckResult {
  /** The message if nothing is wrong. */
  readonly ok: string;
  /** Its problems; empty or absent: all is well. */
  readonly wrong?: readonly Wrong[];
  readonly figures?: readonly Figure[];
}

/** A finding whose code is that of its check, as is its subject if it is left out. */
export type Wrong = Omit<HealthFinding, 'code' | 'subject'> & { readonly subject?: string };

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

/** The place to check, and the time of the check. */
export interface CheckPlace {
  readonly root: string;
  /** Folders that may hold records of runs; the first one holds the log. */
  readonly states: readonly [StateFolder, ...StateFolder[]];
  readonly settings: Pick<Settings, 'checks'>;
  readonly nowMs: number;
  /** Time since the machine was booted. */
  readonly upMs: number;
  /** The crontab's times, which take a process to read: asked when a tier looks overdue. Default: unknown. */
  readonly crontab?: ReadCrontab;
  /** Jobs that are due, where somebody else asks for them, too. Default: the log is asked. */
  readonly readDue?: () => Promise<readonly DueJobsRow[]>;
}

/** Facts that several checks need: read when the first one asks. */
export interface CheckFacts extends CheckPlace {
  readonly store: Store;
  readonly log: ReturnType<typeof checksOf>;
  /** Which lists of the log have rows: nearly always few, so that one statement spares the others. */
  present(): ReturnType<ReturnType<typeof checksOf>['present']>;
  /** The tiers of `jobs/`, on other machines too. */
  tiers(): Promise<readonly WatchedTier[]>;
  /** The scripts of other machines of the fleet. */
  elsewhere(): Promise<readonly HostCopy[]>;
  scripts(): Promise<readonly ScriptStandRow[]>;
  /** Open incidents whose script, handler or tier still exists. */
  incidents(): Promise<readonly IncidentRow[]>;
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
  /** The one that has been due for longest; null: none is due. */
  readonly oldest: DueJobsRow | null;
  /** How long that one has been due. */
  readonly waitsMs: number;
  /** Most jobs first. */
  readonly names: readonly DueJobsRow[];
}

export function openFacts(store: Store, place: CheckPlace): CheckFacts {
  const log = checksOf(store.statements);
  const { root, nowMs } = place;
  const present = once(() => log.present(nowMs));
  const pauses = once(() => store.pauses.inForce(nowMs));
  const { crontab = async () => null, readDue = () => log.due(nowMs) } = place;
  const elsewhere = once(async () => (store.fleet === null ? [] : await copiesElsewhere(store, nowMs)));
  return {
    ...place,
    store,
    log,
    present,
    pauses,
    elsewhere,
    scripts: once(() => log.scripts()),
    incidents: once(async () => {
      const open = await incidentsOf(store.statements).current();
      if (open.length === 0) return open;
      const { foresee } = await import('../monitor/alert/incidents.ts');
      return (await foresee(store, place, open)).filter(({ recovered_at }) => recovered_at === null);
    }),
    presence: once(async () => {
      const { openPresence } = await import('../monitor/presence.ts');
      return openPresence(store, { root, settings: await loadSettingsIfRight(root), nowMs });
    }),
    tiers: once(async () => {
      const calls = new Map((await log.tiers()).map((row) => [row.tier, row]));
      const names = new Set([...readJobsFolder(root).tiers, ...(await elsewhere()).map(({ tier }) => tier)]);
      const watched: WatchedTier[] = [];
      for (const tier of names) watched.push(await watchTier(tier, calls.get(tier) ?? null, { crontab, nowMs }));
      return watched;
    }),
    running: once(async () => {
      const running = (await present()).running ? await log.running() : [];
      return running.filter((run) => checkLiveness(run) !== 'dead');
    }),
    due: once(async () => {
      const rows = (await present()).due ? await readDue() : [];
      return await sumDue(rows, pauses, nowMs);
    }),
  };
}

/** A tier is late by its last call, unless its crontab lines have another time for the next one: `0 9-17 * * *`. */
export async function watchTier(
  tier: string,
  calls: TierCallRow | null,
  { crontab, nowMs }: { readonly crontab: ReadCrontab; readonly nowMs: number },
): Promise<WatchedTier> {
  const last = calls === null || calls.calledAt === null ? null : { atMs: calls.calledAt, isDue: calls.isDue };
  const byLast = expectCall(tier, last, nowMs);
  const watched = { tier, periodMs: tierPeriodMs(tier), calls, expected: byLast };
  if (byLast?.isOverdue !== true) return watched;
  const { isInCrontab, expected } = await expectByCrontab(tier, last, await crontab(), nowMs);
  return isInCrontab === true && expected !== null ? { ...watched, expected } : watched;
}

/** Leaves out paused jobs: they wait because somebody wants it. */
async function sumDue(rows: readonly DueJobsRow[], pauses: CheckFacts['pauses'], nowMs: number): Promise<DueJobs> {
  const found = rows.reduce((sum, { jobs }) => sum + jobs, 0);
  const names = rows.length === 0 ? [] : await withoutPaused(rows, await pauses());
  const oldest = names.toSorted((one, other) => one.oldest - other.oldest)[0] ?? null;
  return {
    jobs: names.reduce((sum, { jobs }) => sum + jobs, 0),
    isCut: found >= MOST_DUE,
    oldest,
    waitsMs: oldest === null ? 0 : nowMs - oldest.oldest,
    names,
  };
}

async function withoutPaused(rows: readonly DueJobsRow[], pauses: readonly Pause[]): Promise<readonly DueJobsRow[]> {
  if (pauses.length === 0) return rows;
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
