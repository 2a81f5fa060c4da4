import type { Kysely } from 'kysely';
import { compareBytes } from '../../base/values.ts';
import type { Liveness } from '../../process/identity.ts';
import { findPause, type Pause, selectPauses, WHOLE_QUEUE } from '../../queue/pauses.ts';
import { findMissedPasses, type MissedPasses } from '../../schedule/expected-call.ts';
import { tierPeriodMs } from '../../schedule/period.ts';
import { withoutParameters } from '../../settings/readers.ts';
import { type ActivityLog, isFailure, type Outcome } from '../../store/schema.ts';
import { describeRunError } from '../text/words.ts';
import { type RunningRun, type RunRecord, selectRunning } from './run.ts';
import {
  addUp,
  type RecentRun,
  type RunFigures,
  type Summary,
  selectFigures,
  selectOutputEnd,
  selectRecentRuns,
  selectRunsById,
  selectScriptNames,
  selectTierNames,
  summarizeRuns,
  type TimeWindow,
  type Totals,
} from './runs.ts';
import {
  type RecordedPass,
  selectHolders,
  selectLastCallBefore,
  selectNewestPass,
  selectPasses,
  selectPassLiveness,
  selectPassOutcomes,
  selectWaiting,
  type WaitingScriptJob,
} from './tier.ts';

/** What the log says about all scripts in one window of time. */
export interface Overview {
  readonly sinceMs: number;
  readonly untilMs: number;
  /** Shortest period first, tiers without one last. */
  readonly tiers: readonly TierOverview[];
  /** In the order of the tiers, then by name. */
  readonly scripts: readonly ScriptOverview[];
  readonly running: readonly RunningRun[];
  /** What is paused now. */
  readonly pauses: readonly Pause[];
  readonly totals: Totals;
}

export interface TierOverview {
  readonly tier: string;
  readonly periodMs: number | null;
  readonly presence: Presence;
  /** The newest pass that had the lock, however old; null when there never was one. */
  readonly lastPass: LastPassSummary | null;
  /** Passes in the window that had the lock. */
  readonly passes: number;
  /** Passes in the window that found the lock held. */
  readonly skippedPasses: number;
  readonly lastSkipped: RecordedPass | null;
  readonly missed: MissedPasses | null;
  /** What keeps all of it from running now. */
  readonly pause: Pause | null;
}

export interface LastPassSummary extends RecordedPass {
  readonly succeeded: number;
  readonly failed: number;
  readonly running: number;
  /** Whether the process of a pass that has not ended still lives; null for one that has. */
  readonly liveness: Liveness | null;
}

/** Whether it is in `jobs/` now: what is `gone` only the log knows; `unknown`: nobody looked. */
type Presence = 'present' | 'gone' | 'unknown';

export interface ScriptOverview {
  readonly script: string;
  readonly tier: string;
  readonly presence: Presence;
  readonly summary: Summary;
  /** The newest run, however old; null: never run. */
  readonly lastRun: RunRecord | null;
  /** First line of why the last run failed; null when it did not. */
  readonly lastError: string | null;
  /** Oldest first, at most 20, however old. */
  readonly recentRuns: readonly RecentRun[];
  /** Its own, or that of its tier or of everything. */
  readonly pause: Pause | null;
  /** Its job that waits to be run or tried again. */
  readonly waiting: WaitingScriptJob | null;
}

/** A tier of `jobs/` and the names of its scripts. */
export interface KnownTier {
  readonly tier: string;
  readonly scripts: readonly string[];
  /** Its folder cannot be read: whether a script is there is not known. Default false. */
  readonly isUnread?: boolean;
}

/** `hourly` of `hourly/clean-tmp`. */
export function tierOf(script: string): string {
  return script.slice(0, Math.max(0, script.indexOf('/')));
}

export interface OverviewQuery extends TimeWindow {
  /** Only this tier. */
  readonly tier?: string | undefined;
  /** Only scripts with such a run in the window; their figures still count all of their runs. */
  readonly outcomes?: readonly Outcome[] | undefined;
  /** At most so many scripts. */
  readonly limit?: number | undefined;
  /** What is in `jobs/` now; without it nothing is called gone or never run. */
  readonly known?: readonly KnownTier[] | undefined;
  /** Default: the end of the window. */
  readonly nowMs?: number | undefined;
}

const RECENT_RUNS = 20;

/** Reads and summarizes everything that `runner report` shows. */
export async function readOverview(
  db: Kysely<ActivityLog>,
  query: OverviewQuery,
): Promise<Overview> {
  const isWanted = (tier: string): boolean => query.tier === undefined || tier === query.tier;
  const logged = (await selectScriptNames(db)).filter((script) => isWanted(tierOf(script)));
  const figures = await selectFigures(db, logged, query);
  const pauses = await selectPauses(db, query.nowMs ?? query.untilMs);
  const names = [...(query.known ? figures.keys() : logged)];
  const tiers = await readTiers(db, { ...query, pauses }, names, isWanted);
  const scripts = await readScripts(db, { ...query, pauses }, { logged, figures, tiers });
  return {
    sinceMs: query.sinceMs,
    untilMs: query.untilMs,
    tiers,
    scripts,
    pauses,
    running: (await selectRunning(db)).filter((run) => isWanted(tierOf(run.script))),
    totals: addUp(scripts.map((script) => script.summary)),
  };
}

/** The question, and what was asked once for all of the answer. */
interface PausedQuery extends OverviewQuery {
  readonly pauses: readonly Pause[];
}

async function readTiers(
  db: Kysely<ActivityLog>,
  query: PausedQuery,
  scripts: readonly string[],
  isWanted: (tier: string) => boolean,
): Promise<TierOverview[]> {
  const known = (query.known ?? []).map((tier) => tier.tier);
  const names = new Set([...known, ...(await selectTierNames(db)), ...scripts.map(tierOf)]);
  const tiers: TierOverview[] = [];
  for (const tier of [...names].filter(isWanted)) tiers.push(await readTier(db, tier, query));
  const withScripts = new Set(scripts.map(tierOf));
  return tiers
    .filter((tier) => tier.presence !== 'gone' || tier.passes > 0 || withScripts.has(tier.tier))
    .sort(byPeriod);
}

async function readTier(
  db: Kysely<ActivityLog>,
  tier: string,
  { sinceMs, untilMs, known, pauses }: PausedQuery,
): Promise<TierOverview> {
  const periodMs = tierPeriodMs(tier);
  const presence = presenceOf(known, (each) => each.tier === tier);
  const inWindow = await selectPasses(db, tier, { sinceMs, untilMs });
  const before = await selectLastCallBefore(db, tier, sinceMs);
  const calls = [...(before ? [before] : []), ...inWindow];
  const calledAtMs = calls.map((pass) => pass.startedAtMs);
  // One line for all tiers calls none of them at a time of its own: nothing can be missed.
  const isExpected = presence !== 'gone' && calls.at(-1)?.calledBy !== 'due';
  const skipped = inWindow.filter((pass) => pass.state === 'skipped');
  return {
    tier,
    periodMs,
    presence,
    lastPass: await readLastPass(db, tier, untilMs),
    passes: inWindow.length - skipped.length,
    skippedPasses: skipped.length,
    lastSkipped: skipped.at(-1) ?? null,
    // Nobody expects a folder that is gone to be called.
    missed: isExpected ? findMissedPasses({ periodMs, calledAtMs, sinceMs, untilMs }) : null,
    pause: findPause(pauses, tier),
  };
}

async function readLastPass(
  db: Kysely<ActivityLog>,
  tier: string,
  untilMs: number,
): Promise<LastPassSummary | null> {
  const pass = await selectNewestPass(db, tier, untilMs);
  if (pass === null) return null;
  const outcomes = await selectPassOutcomes(db, pass.id);
  const running = outcomes.filter((outcome) => outcome === 'running').length;
  const succeeded = outcomes.filter((outcome) => outcome === 'succeeded').length;
  const failed = outcomes.filter(isFailure).length;
  const liveness = pass.state === 'running' ? await selectPassLiveness(db, pass.id) : null;
  return { ...pass, succeeded, failed, running, liveness };
}

interface Found {
  readonly logged: readonly string[];
  readonly figures: ReadonlyMap<string, readonly RunFigures[]>;
  readonly tiers: readonly TierOverview[];
}

async function readScripts(
  db: Kysely<ActivityLog>,
  query: PausedQuery,
  found: Found,
): Promise<ScriptOverview[]> {
  const names = chooseScripts(query, found);
  const recent = new Map<string, RecentRun[]>();
  for (const script of names) {
    recent.set(script, await selectRecentRuns(db, script, query.untilMs, RECENT_RUNS));
  }
  const lastIds = [...recent.values()].flatMap(([newest]) => newest?.id ?? []);
  const lastRuns = new Map((await selectRunsById(db, lastIds)).map((run) => [run.script, run]));
  const waiting = await selectWaiting(db, await selectHolders(db));
  const scripts: ScriptOverview[] = [];
  for (const script of names) {
    const lastRun = lastRuns.get(script) ?? null;
    scripts.push({
      script,
      tier: tierOf(script),
      presence: presenceOfScript(query.known, script),
      summary: summarizeRuns(found.figures.get(script) ?? []),
      lastRun,
      lastError: lastRun && (await readLastError(db, lastRun)),
      recentRuns: (recent.get(script) ?? []).toReversed(),
      pause: findPause(query.pauses, script),
      waiting: waiting.find((job) => job.script === script) ?? null,
    });
  }
  return scripts;
}

/** Scripts that are gone and did not run in the window are history: only a longer one shows them. */
function chooseScripts(query: OverviewQuery, { logged, figures, tiers }: Found): string[] {
  const order = tiers.map((tier) => tier.tier);
  const known = (query.known ?? []).flatMap((tier) => tier.scripts);
  const inTiers = known.filter((script) => order.includes(tierOf(script)));
  const ran = query.known === undefined ? logged : logged.filter((script) => figures.has(script));
  return [...new Set([...inTiers, ...ran])]
    .filter((script) => hadOutcome(figures.get(script), query.outcomes))
    .sort((one, other) => compareScripts(one, other, order))
    .slice(0, query.limit);
}

function hadOutcome(
  runs: readonly RunFigures[] | undefined,
  outcomes: readonly Outcome[] | undefined,
): boolean {
  return outcomes === undefined || (runs ?? []).some((run) => outcomes.includes(run.outcome));
}

/** Parameters in a job's name tell jobs apart; their handler is the same. */
function isScriptOf(script: string): (name: string) => boolean {
  const isQueued = tierOf(script) === WHOLE_QUEUE;
  return (name) => name === script || (isQueued && name === withoutParameters(script));
}

function presenceOfScript(known: readonly KnownTier[] | undefined, script: string): Presence {
  const isUnread = known?.some((each) => each.isUnread && each.tier === tierOf(script));
  return isUnread
    ? 'unknown'
    : presenceOf(known, ({ scripts }) => scripts.some(isScriptOf(script)));
}

function presenceOf(
  known: readonly KnownTier[] | undefined,
  holdsIt: (tier: KnownTier) => boolean,
): Presence {
  if (known === undefined) return 'unknown';
  return known.some(holdsIt) ? 'present' : 'gone';
}

/** A script that throws names its error itself; of any other, the last line it wrote says most. */
async function readLastError(db: Kysely<ActivityLog>, run: RunRecord): Promise<string | null> {
  if (!isFailure(run.outcome)) return null;
  return describeRunError(run, run.error === null ? await selectOutputEnd(db, run.id) : '');
}

function byPeriod(one: TierOverview, other: TierOverview): number {
  const difference = (one.periodMs ?? Infinity) - (other.periodMs ?? Infinity);
  return difference || compareBytes(one.tier, other.tier);
}

function compareScripts(one: string, other: string, tiers: readonly string[]): number {
  const difference = tiers.indexOf(tierOf(one)) - tiers.indexOf(tierOf(other));
  return difference || compareBytes(one, other);
}
