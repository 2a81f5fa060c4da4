import type { LogView, Site } from '../../discovery/site.ts';
import { UsageError } from '../../system/base/errors.ts';
import { type Overview, readOverview, type ScriptOverview } from './overview.ts';
import type { TimeWindow } from './runs/runs.ts';
import { readStatus } from './status.ts';
import type { Judged } from './verdict.ts';

/** The content of a digest about one window of time: an overview, and the items that deserve a look. */
export interface Digest extends Judged {
  readonly overview: Overview;
  /** Most failures first. */
  readonly failing: readonly ScriptOverview[];
  /** Slower or larger than usual; the most slowed down first. */
  readonly risen: readonly ScriptOverview[];
  /** By CPU time, the most first. */
  readonly costly: readonly CostlyScript[];
  /** Incidents that ended in the window, the latest first. */
  readonly over: Awaited<ReturnType<typeof selectOver>>;
}

export interface CostlyScript {
  readonly script: string;
  readonly cpuMs: number;
  /** Share of all CPU time: 0 to 1. */
  readonly share: number;
}

const MOST_RISEN = 10;
const MOST_COSTLY = 5;
/** A mail names the first ones, and says how many more there are. */
const MOST_INCIDENTS = 1000;

/** Reads all that a digest tells. */
export async function readDigest(site: Site, query: TimeWindow): Promise<Digest> {
  const log = await site.view();
  const overview = await readOverview(site, query);
  const failing = overview.scripts.filter(({ failed }) => failed > 0);
  return {
    ...(await judge(site)),
    overview,
    failing: failing.toSorted((one, other) => other.failed - one.failed),
    risen: findRisen(overview.scripts),
    costly: findCostly(overview.scripts),
    over: await selectOver(log, query),
  };
}

/** The report is sent though `jobs/` is gone or cannot be read. */
async function judge(site: Site): Promise<Judged> {
  try {
    const { verdict, troubles } = await readStatus(site);
    return { verdict, troubles };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const unknown = { sinceMs: null, isUntouched: false, lastPassMs: null, nextTier: null };
    return { verdict: { level: 'bad', title: 'jobs/ cannot be read', ...unknown }, troubles: [] };
  }
}

function findRisen(scripts: readonly ScriptOverview[]): readonly ScriptOverview[] {
  const factor = ({ slower, heavier }: ScriptOverview): number => slower?.factor ?? heavier?.factor ?? 0;
  return scripts
    .filter((script) => factor(script) > 0)
    .toSorted((one, other) => factor(other) - factor(one))
    .slice(0, MOST_RISEN);
}

function findCostly(scripts: readonly ScriptOverview[]): readonly CostlyScript[] {
  const known = scripts.flatMap(({ script, totalCpuMs }) => (totalCpuMs ? { script, cpuMs: totalCpuMs } : []));
  const all = known.reduce((sum, { cpuMs }) => sum + cpuMs, 0);
  return known
    .map((each) => ({ ...each, share: each.cpuMs / all }))
    .toSorted((one, other) => other.cpuMs - one.cpuMs)
    .slice(0, MOST_COSTLY);
}

async function selectOver({ db }: LogView, { sinceMs, untilMs }: TimeWindow) {
  return await db
    .selectFrom('incidents')
    .select(['subject', 'code', 'occurrences'])
    .select(['opened_at as openedAtMs', 'recovered_at as recoveredAtMs'])
    .$narrowType<{ recoveredAtMs: number }>()
    .where('recovered_at', '>=', sinceMs)
    .where('recovered_at', '<', untilMs)
    .orderBy('recovered_at', 'desc')
    .orderBy('id', 'desc')
    .limit(MOST_INCIDENTS)
    .execute();
}
