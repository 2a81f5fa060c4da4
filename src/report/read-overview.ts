import type { Kysely } from 'kysely';
import { withoutParameters } from '../config/job-name.ts';
import { compareBytes } from '../discovery/byte-order.ts';
import { tierPeriodMs } from '../discovery/tier-period.ts';
import { WHOLE_QUEUE } from '../queue/pause-names.ts';
import { findPause, type Pause, selectPauses } from '../queue/pauses.ts';
import { isFailure } from '../store/outcomes.ts';
import type { ActivityLog, Outcome } from '../store/schema.ts';
import { describeError } from './describe-error.ts';
import { findMissedPasses } from './missed-passes.ts';
import {
  type KnownTier,
  type LastPass,
  type Overview,
  type Presence,
  type ScriptOverview,
  type TierOverview,
  tierOf,
} from './overview.ts';
import type { RunRecord } from './run-record.ts';
import { selectScriptNames, selectTierNames } from './select-names.ts';
import {
  selectLastCallBefore,
  selectLastPass,
  selectPasses,
  selectPassLiveness,
  selectPassOutcomes,
} from './select-passes.ts';
import { selectRunning } from './select-running.ts';
import {
  type RecentRun,
  selectFigures,
  selectOutputEnd,
  selectRecentRuns,
  selectRunsById,
  type TimeWindow,
} from './select-runs.ts';
import { selectWaiting } from './select-waiting.ts';
import { addUp, type RunFigures, summarizeRuns } from './summarize-runs.ts';
import { selectHolders } from './tier-state.ts';

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
): Promise<LastPass | null> {
  const pass = await selectLastPass(db, tier, untilMs);
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
  return describeError(run, run.error === null ? await selectOutputEnd(db, run.id) : '');
}

function byPeriod(one: TierOverview, other: TierOverview): number {
  const difference = (one.periodMs ?? Infinity) - (other.periodMs ?? Infinity);
  return difference || compareBytes(one.tier, other.tier);
}

function compareScripts(one: string, other: string, tiers: readonly string[]): number {
  const difference = tiers.indexOf(tierOf(one)) - tiers.indexOf(tierOf(other));
  return difference || compareBytes(one, other);
}
