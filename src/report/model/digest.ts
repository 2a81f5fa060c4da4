import type { LogView, Site } from '../../discovery/site.ts';
import { UsageError } from '../../system/base/errors.ts';
import { type Overview, readOverview, type ScriptOverview } from './overview.ts';
import { type RunFigures, type Summary, selectFigures, summarizeRuns, type TimeWindow } from './runs/runs.ts';
import { readStatus } from './status.ts';
import type { Verdict } from './verdict.ts';

/** The content of a digest about one window of time: an overview, and the items that deserve a look. */
export interface Digest {
  /** Whether everything is well now. */
  readonly verdict: Verdict;
  readonly overview: Overview;
  /** Most failures first. */
  readonly failing: readonly ScriptOverview[];
  /** Against the window before; the most first. */
  readonly slower: readonly SlowerScript[];
  /** By CPU time, the most first. */
  readonly costly: readonly CostlyScript[];
  /** Open in the window, the newest first. */
  readonly incidents: Awaited<ReturnType<typeof selectIncidents>>;
}

export interface SlowerScript {
  readonly script: string;
  readonly beforeMs: number;
  readonly nowMs: number;
}

export interface CostlyScript {
  readonly script: string;
  readonly cpuMs: number;
  /** Share of all CPU time: 0 to 1. */
  readonly share: number;
}

const MOST_SLOWER = 10;
const MOST_COSTLY = 5;
const MOST_INCIDENTS = 30;

/** Reads all that a digest tells. */
export async function readDigest(site: Site, query: TimeWindow): Promise<Digest> {
  const { sinceMs, untilMs } = query;
  const log = await site.view();
  const overview = await readOverview(site, query);
  const before = await selectFigures(log.db, { sinceMs: sinceMs - (untilMs - sinceMs), untilMs: sinceMs });
  const failing = overview.scripts.filter(({ failed }) => failed > 0);
  return {
    verdict: await readVerdict(site),
    overview,
    failing: failing.toSorted((one, other) => other.failed - one.failed),
    slower: findSlower(overview.scripts, before),
    costly: findCostly(overview.scripts),
    incidents: await selectIncidents(log, query),
  };
}

/** The report is sent though `jobs/` is gone or cannot be read. */
async function readVerdict(site: Site): Promise<Digest['verdict']> {
  try {
    return (await readStatus(site)).verdict;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const unknown = { sinceMs: null, isUntouched: false, lastPassMs: null, nextTier: null };
    return { level: 'bad', title: 'jobs/ cannot be read', ...unknown };
  }
}

/** Fewer runs say nothing about what is usual. */
const FEWEST_RUNS = 5;

/** A slowdown that everybody notices, and that noise does not reach. */
const SLOWER = 1.5;
const SLOWER_MS = 100;

function findSlower(
  scripts: readonly ScriptOverview[],
  figures: ReadonlyMap<string, RunFigures>,
): readonly SlowerScript[] {
  const slower = scripts.flatMap((overview): SlowerScript[] => {
    const { script } = overview;
    const earlier = figures.get(script);
    const before = earlier === undefined ? null : summarizeRuns(earlier);
    const [beforeMs, nowMs] = [medianOf(before), medianOf(overview)];
    if (beforeMs === null || nowMs === null) return [];
    return nowMs > beforeMs * SLOWER && nowMs - beforeMs > SLOWER_MS ? [{ script, beforeMs, nowMs }] : [];
  });
  const factor = ({ nowMs, beforeMs }: SlowerScript): number => nowMs / beforeMs;
  return slower.toSorted((one, other) => factor(other) - factor(one)).slice(0, MOST_SLOWER);
}

function medianOf(summary: Pick<Summary, 'runs' | 'p50DurationMs'> | null): number | null {
  return summary === null || summary.runs < FEWEST_RUNS ? null : summary.p50DurationMs;
}

function findCostly(scripts: readonly ScriptOverview[]): readonly CostlyScript[] {
  const known = scripts.flatMap(({ script, totalCpuMs }) => (totalCpuMs ? { script, cpuMs: totalCpuMs } : []));
  const all = known.reduce((sum, { cpuMs }) => sum + cpuMs, 0);
  return known
    .map((each) => ({ ...each, share: each.cpuMs / all }))
    .toSorted((one, other) => other.cpuMs - one.cpuMs)
    .slice(0, MOST_COSTLY);
}

async function selectIncidents({ db }: LogView, { sinceMs, untilMs }: TimeWindow) {
  return await db
    .selectFrom('incidents')
    .select(['subject', 'code', 'severity', 'occurrences'])
    .select(['opened_at as openedAtMs', 'recovered_at as recoveredAtMs'])
    .where('opened_at', '<', untilMs)
    .where((where) => where.or([where('recovered_at', 'is', null), where('recovered_at', '>=', sinceMs)]))
    .orderBy('opened_at', 'desc')
    .orderBy('id', 'desc')
    .limit(MOST_INCIDENTS)
    .execute();
}
