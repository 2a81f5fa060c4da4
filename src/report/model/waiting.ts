import type { Discovery } from '../../discovery/script.ts';
import type { Site } from '../../discovery/site.ts';
import { UsageError } from '../../system/base/errors.ts';
import { selectWaiting, type TierHolder, type WaitingScriptJob } from './tier.ts';

/**
 * Scripts' jobs that have not ended and do not run; those that wait for other scripts, or for their time of day, tell
 * that as their `reason`. The files and the code for that are read only if a job may wait so.
 */
export async function readWaiting(
  site: Pick<Site, 'view' | 'store' | 'jobs' | 'pauses' | 'nowMs'>,
  holders: readonly TierHolder[],
): Promise<readonly WaitingScriptJob[]> {
  const waiting = await selectWaiting((await site.view()).db, holders);
  const names = new Set(waiting.flatMap(({ mayHaveToWait, script }) => (mayHaveToWait ? script : [])));
  if (names.size === 0) return waiting;
  const stands = await readStands(site, names);
  return waiting.map((job) => {
    const stand = stands.get(job.script);
    // A script that runs on each machine has a job for each, and the stand is that of this machine.
    if (stand?.queuedAtMs !== job.runAtMs) return job;
    if (job.state === 'retrying') return { ...job, runAtMs: stand.untilMs ?? job.runAtMs };
    return { ...job, state: 'linked', reason: stand.reason };
  });
}

interface WaitingStand {
  readonly queuedAtMs: number;
  readonly reason: string;
  /** When its own times let it begin; null: they do now. */
  readonly untilMs: number | null;
}

async function readStands(
  site: Pick<Site, 'store' | 'jobs' | 'pauses' | 'nowMs'>,
  names: ReadonlySet<string>,
): Promise<ReadonlyMap<string, WaitingStand>> {
  const { readWordedStand } = await import('../../queue/links.ts');
  const stands = new Map<string, WaitingStand>();
  const { tiers } = await readDiscovery(site.jobs);
  for (const script of tiers.flatMap(({ scripts }) => scripts).filter(({ name }) => names.has(name))) {
    const stand = await readWordedStand(site, script);
    if (stand === null || stand.sinceMs === null) continue;
    stands.set(script.name, { queuedAtMs: stand.sinceMs, reason: stand.text, untilMs: stand.untilMs });
  }
  return stands;
}

/** Without `jobs/`, nobody knows what a script waits for. */
async function readDiscovery(jobs: Site['jobs']): Promise<Pick<Discovery, 'tiers'>> {
  try {
    return (await jobs()).discovery;
  } catch (error) {
    if (error instanceof UsageError) return { tiers: [] };
    throw error;
  }
}
