import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { reasonToIgnore } from '../discovery/jobs-folder.ts';
import { countOf, formatSpan } from '../system/base/format.ts';
import { HOUR_MS } from '../system/base/values.ts';
import { type CheckFacts, type HealthCheck, statusAbove, type WatchedTier, type Wrong } from './check.ts';

/** Right after a boot a tier had no chance to be called yet. */
const BOOT_GRACE_MS = HOUR_MS;

/** Tiers watch one another: the pass of one notices that another one was not called. */
const tierOverdue: HealthCheck = {
  code: 'tier-overdue',
  where: 'tiers',
  defaultThreshold: () => 1,
  run: async (facts, threshold) => {
    const tiers = await facts.tiers();
    const called = tiers.filter(({ expected }) => expected !== null);
    const wrong: Wrong[] = [];
    for (const each of tiers) {
      const found = await judgeCalls(each, facts, threshold);
      if (found !== null && (await hasScripts(each.tier, facts))) wrong.push(found);
    }
    return { wrong, ok: `${countOf(called.length, 'tier is', 'tiers are')} called as expected` };
  },
};

/** `runner cron` writes no line for a tier without scripts. */
async function hasScripts(tier: string, { root, elsewhere }: CheckFacts): Promise<boolean> {
  if ((await elsewhere()).some((copy) => copy.tier === tier)) return true;
  const folder = join(root, 'jobs', tier);
  return existsSync(folder) && readdirSync(folder).some((name) => reasonToIgnore(name) === null);
}

async function judgeCalls(each: WatchedTier, facts: CheckFacts, threshold: number): Promise<Wrong | null> {
  const { tier, periodMs, calls, expected } = each;
  if (periodMs === null) return null;
  if (calls === null) return await judgeNeverCalled(tier, periodMs, facts);
  const { calledAt } = calls;
  if (!expected?.isOverdue || calledAt === null || facts.upMs < Math.min(BOOT_GRACE_MS, periodMs)) return null;
  const lateMs = facts.nowMs - expected.atMs;
  const missed = 1 + Math.floor(lateMs / periodMs);
  if (missed < threshold) return null;
  const since = formatSpan(facts.nowMs - calledAt);
  return {
    subject: tier,
    status: statusAbove(missed, 3 * threshold),
    message: `${tier} was last called ${since} ago; the next call is overdue by ${formatSpan(lateMs)}`,
    hint: 'Run `npx folder-runner doctor`, which tries each crontab line; `npx folder-runner cron --install` writes them anew.',
  };
}

/** A tier that is only called by hand has a row; one whose folder is new, or whose first call is to come, has time. */
async function judgeNeverCalled(tier: string, periodMs: number, facts: CheckFacts): Promise<Wrong | null> {
  const folder = join(facts.root, 'jobs', tier);
  // A tier that only other machines have is watched by those.
  if (!existsSync(folder)) return null;
  const { birthtimeMs, ctimeMs } = statSync(folder);
  const madeAt = birthtimeMs > 0 ? birthtimeMs : ctimeMs;
  const graceMs = 2 * periodMs + HOUR_MS;
  if (facts.nowMs - madeAt <= graceMs) return null;
  const first = await facts.log.firstCall();
  const waitedMs = facts.nowMs - Math.max(first ?? facts.nowMs, madeAt);
  if (waitedMs <= graceMs) return null;
  return {
    subject: tier,
    status: 'warning',
    message: `${tier} was never called, although other tiers have been called for ${formatSpan(waitedMs)}`,
    hint: 'Run `npx folder-runner cron --install`, which adds its crontab line.',
  };
}

const tierSkipped: HealthCheck = {
  code: 'tier-skipped',
  where: 'tiers',
  defaultThreshold: () => 3,
  run: async (facts, threshold) => ({
    wrong: (await facts.tiers()).flatMap((each) => judgeSkips(each, threshold, facts)),
    ok: 'no tier is blocked by a long pass',
  }),
};

function judgeSkips({ tier, calls }: WatchedTier, threshold: number, { nowMs }: CheckFacts): Wrong[] {
  const held = calls?.held ?? 0;
  if (held < threshold) return [];
  const lasting = formatSpan(nowMs - (calls?.heldSince ?? nowMs));
  return [
    {
      subject: tier,
      status: statusAbove(held, 4 * threshold),
      message: `${tier} was skipped ${held} times in a row for ${lasting}, as its previous pass is still running`,
      hint: 'See `npx folder-runner status` for what is running; a `@timeout` ends a script that hangs, `@concurrency` runs several.',
    },
  ];
}

export const tierChecks: readonly HealthCheck[] = [tierOverdue, tierSkipped];
