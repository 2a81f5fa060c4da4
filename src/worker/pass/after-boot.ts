import { uptime } from 'node:os';
import { discover } from '../../discovery/discover.ts';
import { fileChangedMs, hasOwnTimes, type Script, type Tier } from '../../discovery/script.ts';
import { newJobOf } from '../../queue/add/scripts.ts';
import type { MachineBoot } from '../../store/statements/monitor/alerts.ts';
import type { StoreSession } from '../../store/store.ts';
import { UsageError } from '../../system/base/errors.ts';
import { machineName } from '../../system/process/identity.ts';
import type { StoreInvocation } from '../invocation/invocation.ts';

/** For a machine that the log does not know yet, only a boot within this time is news. */
const RECENT_MS = 3_600_000;

/** Cron's line has run a script that was imported since the boot. */
const wasThere = (script: Script): boolean => (fileChangedMs(script) ?? 0) <= Date.now() - uptime() * 1000;

/**
 * Queues the scripts of all tiers that run once after each boot, for this machine. The boot is noted in the same
 * transaction: so each script is queued once, even after a crash, and the next pass of any tier runs the rest.
 */
export async function queueAfterBoot({ store, runner }: StoreInvocation, boot: MachineBoot): Promise<void> {
  const tiers = await findTiers(runner);
  if (tiers === null) return;
  const mayBoot = (script: Script): boolean => hasOwnTimes(script) && script.options.reboot === true;
  const scripts = tiers.flatMap((tier) => tier.scripts).filter(mayBoot);
  const wanted = [...new Map(scripts.map((script) => [script.name, script])).values()];
  const at = runner.now();
  await store.transaction(async (session) => {
    const found = await session.chores.noteBoot(boot, at);
    const isNews = found === 'next' || (found === 'first' && uptime() * 1000 < RECENT_MS);
    if (!isNews) return;
    // A script that the log knows is not an import: its file was changed since.
    const known = found === 'first' ? new Set<string>() : await findKnown(session, wanted);
    const queued = wanted.filter((script) => wasThere(script) || known.has(script.name));
    if (queued.length === 0) return;
    // A job that is still open, such as a try that the boot has cut off, runs anyway.
    await session.scriptJobs.enqueueOnce(
      queued.map((script) => ({ ...newJobOf({ script, scheduledFor: null }, at), isAgain: true })),
    );
  });
}

/** The names of the scripts that were queued on this machine before. */
async function findKnown({ scriptJobs }: StoreSession, scripts: readonly Script[]): Promise<ReadonlySet<string>> {
  const known = new Set<string>();
  for (const tier of new Set(scripts.map((script) => script.tier))) {
    const rows = await scriptJobs.ofTier(tier);
    for (const { name, host } of rows) if (host === machineName()) known.add(name);
  }
  return known;
}

/** Null: they cannot be read. Then the next pass tries again; `list`, `status` and `runner due` say why. */
async function findTiers({ root, settings }: StoreInvocation['runner']): Promise<readonly Tier[] | null> {
  try {
    return (await discover(root, settings)).tiers;
  } catch (error) {
    if (error instanceof UsageError) return null;
    throw error;
  }
}
