import type { KnownTier } from '../../discovery/script.ts';
import type { LogView, Site } from '../../discovery/site.ts';
import { findPause, WHOLE_QUEUE } from '../../queue/pauses.ts';
import { findMissedByCrontab, type ReadCrontab } from '../../schedule/crontab-times.ts';
import { tierPeriodMs } from '../../schedule/period.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import { isFailure, type Outcome } from '../../store/words.ts';
import { EXEC, isExecName } from '../../system/base/exec-name.ts';
import { hasWarning } from '../../system/base/format.ts';
import { field, quoting, type RecordOf, record, shown, type Values } from '../../system/base/record.ts';
import { compareBytes } from '../../system/base/values.ts';
import { pauseRecord } from './pauses.ts';
import { livenessField, type RunningRun, runningRecord, runRecord, selectRunning, tierOf } from './runs/run.ts';
import { readRunSummary } from './runs/run-pages.ts';
import {
  addUp,
  countOutcome,
  noFigures,
  type RecentRun,
  type RunFigures,
  recentRunRecord,
  selectFigures,
  selectRecentRuns,
  selectRunsById,
  summarizeRuns,
  summaryRecord,
  type TimeWindow,
  totalsRecord,
} from './runs/runs.ts';
import { noRises, type Rises, readRises, risesRecord } from './runs/script.ts';
import {
  passRecord,
  type RecordedPass,
  type SkippedPass,
  selectCalls,
  selectHolders,
  selectLastCallBefore,
  selectNewestPass,
  selectPassEnds,
  selectTierNames,
  waitingRecord,
} from './tier.ts';
import { readWaiting } from './waiting.ts';

/** Whether it is in `jobs/` now: what is `gone` only the log knows; `disabled`: nothing runs it; `unknown`: nobody looked. */
const presenceField = shown.words(['present', 'disabled', 'gone', 'unknown'], 'Presence');
type Presence = Values<RecordOf<{ presence: typeof presenceField }>>['presence'];

const scriptVerbs = ['run', 'pause', 'resume'] as const;

/** The verbs that apply to a script now. */
export const scriptVerbsField = shown.list(shown.words(scriptVerbs));

interface ScriptStanding {
  readonly script: string;
  readonly presence: Presence;
  readonly pause: Pause | null;
}

function scriptVerbsFor({ script, presence, pause }: ScriptStanding): (typeof scriptVerbs)[number][] {
  if (presence === 'gone' || presence === 'disabled') return [];
  const change = pause === null ? 'pause' : 'resume';
  // A handler runs for jobs, and nobody but its caller knows a command.
  const isFile = ![WHOLE_QUEUE, EXEC].includes(tierOf(script));
  return presence === 'present' && isFile ? ['run', change] : [change];
}

/** The same of a script whose figures nobody asks for. */
export async function readScriptVerbs({ known, pauses }: Pick<Site, 'known' | 'pauses'>, script: string) {
  const presence = presenceOfScript(await known(), script);
  return scriptVerbsFor({ script, presence, pause: findPause(await pauses(), script) });
}

const lastPassRecord = record('LastPass', {
  ...passRecord.fields,
  succeeded: shown.integer,
  withWarning: shown.integer.about('Of those that succeeded'),
  failed: shown.integer,
  running: shown.integer,
  liveness: livenessField.orNull,
});

export type LastPassSummary = RecordedPass & Values<typeof lastPassRecord>;

const missedRecord = record(null, {
  count: shown.integer,
  gaps: shown.list(field.one(record(null, { from: shown.instant, to: shown.instant.orNull, count: shown.integer }))),
});

const tierRecord = record('TierOverview', {
  tier: shown.text.like('hourly'),
  periodMs: shown.number.orNull,
  presence: presenceField,
  /** The newest pass that had the lock, however old; null when there never was one. */
  lastPass: shown.one(lastPassRecord).orNull,
  /** Passes in the window that had the lock. */
  passes: shown.integer,
  /** Passes in the window that found the lock held. */
  skippedPasses: shown.integer,
  lastSkippedPass: shown.one(passRecord).orNull.from('lastSkipped'),
  missedPasses: shown.one(missedRecord).orNull.from('missed'),
  /** The pause that keeps all of it from running now. */
  pause: shown.one(pauseRecord).orNull,
});

export interface TierOverview extends Values<typeof tierRecord> {
  readonly lastPass: LastPassSummary | null;
  readonly lastSkipped: SkippedPass | null;
}

export const scriptRecord = record('ScriptOverview', {
  script: shown.text.like('hourly/clean-tmp'),
  tier: shown.text.like('hourly'),
  presence: presenceField,
  ...summaryRecord.fields,
  ...risesRecord.fields,
  /** The newest run, however old; null: never run. */
  lastRun: shown.one(runRecord).orNull,
  /** First line of why the last run failed; null when it did not. */
  lastError: quoting.orNull,
  /** Oldest first, at most 20, however old. */
  recentRuns: shown.list(field.one(recentRunRecord)),
  /** Its own, or that of its tier or of everything. */
  pause: shown.one(pauseRecord).orNull,
  /** Its job that waits to be run or tried again. */
  waiting: shown.one(waitingRecord).orNull,
  verbs: scriptVerbsField.about('What can be done to it now'),
});

export type ScriptOverview = Values<typeof scriptRecord>;

/** The log's facts about all scripts in one window of time. */
export const overviewRecord = record('Overview', {
  since: shown.instant,
  until: shown.instant,
  /** Shortest period first, tiers without one last. */
  tiers: shown.list(field.one(tierRecord)),
  /** In the order of the tiers, then by name. */
  scripts: shown.list(field.one(scriptRecord)),
  running: shown.list(field.one(runningRecord)),
  totals: shown.one(totalsRecord),
});

export interface Overview extends Values<typeof overviewRecord> {
  readonly tiers: readonly TierOverview[];
  readonly running: readonly RunningRun[];
  /** The pauses in force now. */
  readonly pauses: readonly Pause[];
}

export interface OverviewQuery extends TimeWindow {
  /** Only this tier. */
  readonly tier?: string | undefined;
  /** Only scripts with such a run in the window; their figures still count all of their runs. */
  readonly outcomes?: readonly Outcome[] | undefined;
  /** Largest number of scripts. */
  readonly limit?: number | undefined;
  /** Scripts whose figures have risen, if they are known. Default: they are read. */
  readonly rises?: ReadonlyMap<string, Rises>;
}

const RECENT_RUNS = 20;

/** The parts of a site that an overview is made of. */
export type SiteOfOverview = Pick<Site, 'view' | 'store' | 'known' | 'jobs' | 'pauses' | 'crontab' | 'nowMs'>;

/** The query, and the facts about the site that are not in the log. */
interface Asked extends OverviewQuery {
  /** Undefined: nobody knows what is in `jobs/`, so nothing is called gone. */
  readonly known: readonly KnownTier[] | undefined;
  readonly pauses: readonly Pause[];
  readonly crontab: ReadCrontab;
  readonly store: Site['store'];
  readonly site: SiteOfOverview;
}

async function askSite(site: SiteOfOverview, query: OverviewQuery): Promise<Asked> {
  const { store, crontab } = site;
  return { ...query, site, store, crontab, known: await site.known(), pauses: await site.pauses() };
}

/** Reads and summarizes everything that `runner report` shows. */
export async function readOverview(site: SiteOfOverview, asked: OverviewQuery): Promise<Overview> {
  const log = await site.view();
  const query = await askSite(site, asked);
  const { sinceMs, untilMs, pauses } = query;
  const isWanted = (tier: string): boolean => query.tier === undefined || tier === query.tier;
  const recent = await selectRecentRuns(log.db, untilMs, RECENT_RUNS);
  const logged = [...recent.keys()].filter((script) => isWanted(tierOf(script)));
  const figures = await selectFigures(log.db, query);
  const ran = logged.filter((script) => query.known === undefined || figures.has(script));
  const tiers = await readTiers(log, query, ran, isWanted);
  const rises = asked.rises ?? (await readRises(query.store, untilMs));
  const chosen = chooseScripts(query, { ran, figures, tiers });
  const scripts = await describeScripts(log, query, chosen, { recent, figures, rises });
  return {
    sinceMs,
    untilMs,
    tiers,
    scripts,
    pauses,
    running: (await selectRunning(log)).filter((run) => isWanted(tierOf(run.script))),
    totals: addUp(scripts),
  };
}

/** One script's figures, as the overview has them; those of a name that nobody knows are empty. */
export async function readScriptOverview(
  site: SiteOfOverview,
  script: string,
  window: TimeWindow,
): Promise<ScriptOverview> {
  const log = await site.view();
  const query = await askSite(site, window);
  const recent = await selectRecentRuns(log.db, query.untilMs, RECENT_RUNS, script);
  const figures = await selectFigures(log.db, query, script);
  const rises = await readRises(query.store, query.untilMs, script);
  const [overview] = await describeScripts(log, query, [script], { recent, figures, rises });
  return overview as ScriptOverview;
}

async function readTiers(
  { db }: LogView,
  query: Asked,
  scripts: readonly string[],
  isWanted: (tier: string) => boolean,
): Promise<TierOverview[]> {
  const known = (query.known ?? []).map((tier) => tier.tier);
  const names = new Set([...known, ...(await selectTierNames(db)), ...scripts.map(tierOf)]);
  const tiers: TierOverview[] = [];
  for (const tier of [...names].filter(isWanted)) tiers.push(await readTier(db, tier, query));
  const withScripts = new Set(scripts.map(tierOf));
  return tiers
    .filter(
      ({ tier, presence, passes }) => (presence !== 'gone' && tier !== EXEC) || passes > 0 || withScripts.has(tier),
    )
    .sort(byPeriod);
}

async function readTier(
  db: LogView['db'],
  tier: string,
  { sinceMs, untilMs, known, pauses, crontab }: Asked,
): Promise<TierOverview> {
  const periodMs = tierPeriodMs(tier);
  const presence = tier === EXEC ? 'present' : presenceOf(known, (each) => each.tier === tier);
  const calls = await selectCalls(db, tier, { sinceMs, untilMs });
  const before = await selectLastCallBefore(db, tier, sinceMs);
  const calledAtMs = (before ? [before, ...calls.calls] : sinceScheduled(calls.calls)).map((call) => call.startedAtMs);
  const last = await selectLastCallBefore(db, tier, untilMs);
  // One line for all tiers calls none of them at a time of its own: nothing can be missed.
  const isExpected = presence !== 'gone' && last?.trigger !== 'due';
  return {
    tier,
    periodMs,
    presence,
    lastPass: await readLastPass(db, tier, untilMs),
    passes: calls.calls.length - calls.skipped,
    skippedPasses: calls.skipped,
    lastSkipped: calls.lastSkipped,
    // A folder that is gone is expected to have no calls.
    missed: isExpected ? await findMissedByCrontab(tier, { periodMs, calledAtMs, sinceMs, untilMs }, crontab) : null,
    pause: findPause(pauses, tier),
  };
}

/** From the first call on that was not by hand: before that nobody expects one. */
function sinceScheduled<T extends Pick<RecordedPass, 'trigger'>>(calls: readonly T[]): readonly T[] {
  const first = calls.findIndex(({ trigger }) => trigger !== 'manual');
  return first === -1 ? [] : calls.slice(first);
}

async function readLastPass(db: LogView['db'], tier: string, untilMs: number): Promise<LastPassSummary | null> {
  const pass = await selectNewestPass(db, tier, untilMs);
  if (pass === null) return null;
  const ends = await selectPassEnds(db, pass);
  const count = (isCounted: (outcome: Outcome) => boolean) => ends.filter(({ outcome }) => isCounted(outcome)).length;
  return {
    ...pass,
    succeeded: count((outcome) => outcome === 'succeeded'),
    withWarning: ends.filter(hasWarning).length,
    failed: count(isFailure),
    running: count((outcome) => outcome === 'running'),
  };
}

interface Found {
  /** Scripts that ran in the window, or at any time if the contents of `jobs/` are unknown. */
  readonly ran: readonly string[];
  readonly figures: ReadonlyMap<string, RunFigures>;
  readonly tiers: readonly TierOverview[];
}

async function describeScripts(
  log: LogView,
  query: Asked,
  names: readonly string[],
  found: {
    readonly recent: ReadonlyMap<string, readonly RecentRun[]>;
    readonly figures: ReadonlyMap<string, RunFigures>;
    readonly rises: ReadonlyMap<string, Rises>;
  },
): Promise<ScriptOverview[]> {
  const lastIds = names.flatMap((script) => found.recent.get(script)?.[0]?.id ?? []);
  const lastRuns = new Map((await selectRunsById(log, lastIds)).map((run) => [run.script, run]));
  const waiting = await readWaiting(query.site, await selectHolders(log.db));
  const scripts: ScriptOverview[] = [];
  for (const script of names) {
    const lastRun = lastRuns.get(script) ?? null;
    const presence = presenceOfScript(query.known, script);
    const pause = findPause(query.pauses, script);
    scripts.push({
      script,
      tier: tierOf(script),
      presence,
      ...summarizeRuns(found.figures.get(script) ?? noFigures),
      ...(found.rises.get(script) ?? noRises),
      lastRun,
      lastError: lastRun && (await readRunSummary(log, lastRun)),
      recentRuns: (found.recent.get(script) ?? []).toReversed(),
      pause,
      waiting: waiting.find((job) => job.script === script) ?? null,
      verbs: scriptVerbsFor({ script, presence, pause }),
    });
  }
  return scripts;
}

/** Scripts that are gone and did not run in the window are history: only a longer one shows them. */
function chooseScripts(query: Asked, { ran, figures, tiers }: Found): string[] {
  const order = tiers.map((tier) => tier.tier);
  const known = (query.known ?? []).flatMap(({ scripts, disabled = [] }) => [...scripts, ...disabled]);
  const inTiers = known.filter((script) => order.includes(tierOf(script)));
  return [...new Set([...inTiers, ...ran])]
    .filter((script) => hadOutcome(figures.get(script), query.outcomes))
    .sort((one, other) => compareScripts(one, other, order))
    .slice(0, query.limit);
}

function hadOutcome(runs: RunFigures | undefined, outcomes: readonly Outcome[] | undefined): boolean {
  return outcomes === undefined || outcomes.some((outcome) => countOutcome(runs ?? noFigures, outcome) > 0);
}

function presenceOfScript(known: readonly KnownTier[] | undefined, script: string): Presence {
  // Its command is where it is called.
  if (isExecName(script)) return 'present';
  const isUnread = known?.some((each) => each.isUnread && each.tier === tierOf(script));
  if (isUnread) return 'unknown';
  const presence = presenceOf(known, ({ scripts }) => scripts.includes(script));
  const isDisabled = known?.some(({ disabled }) => disabled?.includes(script));
  return presence === 'gone' && isDisabled ? 'disabled' : presence;
}

function presenceOf(known: readonly KnownTier[] | undefined, holdsIt: (tier: KnownTier) => boolean): Presence {
  if (known === undefined) return 'unknown';
  return known.some(holdsIt) ? 'present' : 'gone';
}

function byPeriod(one: TierOverview, other: TierOverview): number {
  const difference = (one.periodMs ?? Infinity) - (other.periodMs ?? Infinity);
  return difference || compareBytes(one.tier, other.tier);
}

function compareScripts(one: string, other: string, tiers: readonly string[]): number {
  const difference = tiers.indexOf(tierOf(one)) - tiers.indexOf(tierOf(other));
  return difference || compareBytes(one, other);
}
