import type { ScriptStandRow } from '../../store/contract.ts';
import { printableName, shellWord } from '../../system/base/values.ts';
import { callGraceMs, defaults, holdsScripts, madeAt } from './all-well.ts';
import { type CheckFacts, counted, type HealthCheck, statusAbove, type WatchedTier, type Wrong } from './check.ts';

const HOUR_MS = 3_600_000;

/** Right after a boot a tier had no chance to be called yet. */
const BOOT_GRACE_MS = HOUR_MS;

/** Tiers watch one another: the pass of one notices that another one was not called. */
export const tierOverdue: HealthCheck = {
  code: 'tier-overdue',
  setting: 'tierOverdue',
  subject: 'tiers',
  defaultThreshold: () => 1,
  run: async (facts, threshold) => {
    const tiers = await facts.tiers();
    const called = tiers.filter(({ expected }) => expected !== null);
    const wrong: Wrong[] = [];
    for (const each of tiers) {
      const found = await judgeCalls(each, facts, threshold);
      if (found !== null && holdsScripts(facts.root, each.tier)) wrong.push(found);
    }
    return { wrong, ok: `${counted(called.length, 'tier is', 'tiers are')} called as expected` };
  },
};

async function judgeCalls(each: WatchedTier, facts: CheckFacts, threshold: number): Promise<Wrong | null> {
  const { tier, periodMs, calls, expected } = each;
  if (periodMs === null) return null;
  if (calls === null) return await judgeNeverCalled(tier, periodMs, facts);
  const { calledAt } = calls;
  if (!expected?.isOverdue || calledAt === null || facts.upMs < Math.min(BOOT_GRACE_MS, periodMs)) return null;
  const lateMs = facts.nowMs - expected.atMs;
  const missed = 1 + Math.floor(lateMs / periodMs);
  if (missed < threshold) return null;
  return {
    subject: tier,
    status: statusAbove(missed, 3 * threshold),
    message: ({ lasting }) =>
      `${tier} was last called ${lasting(facts.nowMs - calledAt)} ago; the next call is overdue by ${lasting(lateMs)}`,
    hint: 'Run `runner doctor`, which tries each crontab line; `runner cron --install` writes them anew.',
  };
}

/** A tier that is only called by hand has a row; one whose folder is new, or whose first call is to come, has time. */
async function judgeNeverCalled(tier: string, periodMs: number, facts: CheckFacts): Promise<Wrong | null> {
  const first = await facts.log.firstCall();
  if (first === null) return null;
  const waitedMs = facts.nowMs - Math.max(first, madeAt(facts.root, tier));
  if (waitedMs <= callGraceMs(periodMs)) return null;
  return {
    subject: tier,
    status: 'warning',
    message: ({ lasting }) =>
      `${tier} was never called, although other tiers have been called for ${lasting(waitedMs)}`,
    hint: 'Run `runner cron --install`, which adds its crontab line.',
  };
}

export const tierSkipped: HealthCheck = {
  code: 'tier-skipped',
  setting: 'tierSkipped',
  subject: 'tiers',
  defaultThreshold: () => 3,
  run: async (facts, threshold) => ({
    wrong: (await facts.tiers()).flatMap(({ tier, calls }) =>
      judgeSkips(tier, calls?.held ?? 0, calls, threshold, facts),
    ),
    ok: 'no pass keeps later ones of its tier from running',
  }),
};

function judgeSkips(
  tier: string,
  held: number,
  calls: WatchedTier['calls'],
  threshold: number,
  { nowMs }: CheckFacts,
): Wrong[] {
  if (held < threshold) return [];
  const forMs = nowMs - (calls?.heldSince ?? nowMs);
  return [
    {
      subject: tier,
      status: statusAbove(held, 4 * threshold),
      message: ({ lasting }) =>
        `${tier} was skipped ${held} times in a row for ${lasting(forMs)}, as its previous pass is still running`,
      hint: 'See `runner status` for what is running; a `@timeout` ends a script that hangs, `@concurrency` runs several.',
    },
  ];
}

export const scriptOverdue: HealthCheck = {
  code: 'script-overdue',
  setting: 'scriptOverdue',
  subject: 'scripts',
  defaultThreshold: () => defaults.scriptOverdue,
  run: async (facts, threshold) => {
    const scripts = await facts.scripts();
    const tiers = new Map((await facts.tiers()).map((each) => [each.tier, each]));
    const suspects = scripts.filter((script) => isLeftOut(script, tiers.get(script.tier), threshold, facts.nowMs));
    const wrong = suspects.length === 0 ? [] : await judgeLeftOut(suspects, facts);
    return { wrong, ok: `${counted(scripts.length, 'script has', 'scripts have')} run with their tiers` };
  },
};

/** Its tier is called as it should be, and is not held, but no try of the script begins. */
function isLeftOut(script: ScriptStandRow, tier: WatchedTier | undefined, threshold: number, nowMs: number): boolean {
  if (!tier?.periodMs || tier.expected === null || tier.expected.isOverdue || tier.calls?.held !== 0) return false;
  if (script.state === 'running' || script.state === 'claimed') return false;
  const lastAt = script.startedAt ?? script.createdAt;
  const calledAt = tier.calls.calledAt ?? 0;
  return nowMs - lastAt > threshold * tier.periodMs + HOUR_MS && calledAt - lastAt > (threshold - 1) * tier.periodMs;
}

/** A script that is gone, or paused, does not run because somebody wants it so. */
async function judgeLeftOut(suspects: readonly ScriptStandRow[], facts: CheckFacts): Promise<Wrong[]> {
  const names = await presentScripts(facts.root);
  const { findPause } = await import('../../queue/pauses.ts');
  const pauses = await facts.pauses();
  const left = suspects.filter(({ name }) => names.has(name) && findPause(pauses, name) === null);
  return left.map(({ name, tier, startedAt, createdAt, reason }) => {
    const why = reason === null ? '' : `: ${printableName(reason)}`;
    return {
      subject: name,
      status: 'warning',
      message: ({ lasting }) =>
        `${printableName(name)} has not run for ${lasting(facts.nowMs - (startedAt ?? createdAt))}, ` +
        `although ${tier} is called${why}`,
      hint: `Run \`runner why ${shellWord(printableName(name))}\`.`,
    };
  });
}

/** The scripts whose files are there. */
export async function presentScripts(root: string): Promise<ReadonlySet<string>> {
  const { discoverNames } = await import('../../discovery/discover.ts');
  return new Set(discoverNames(root).tiers.flatMap(({ scripts }) => scripts));
}
