import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { ScriptStandRow } from '../../store/statements/monitor/checks.ts';
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
      if (found !== null && (await hasScripts(each.tier, facts))) wrong.push(found);
    }
    return { wrong, ok: `${counted(called.length, 'tier is', 'tiers are')} called as expected` };
  },
};

async function hasScripts(tier: string, { root, elsewhere }: CheckFacts): Promise<boolean> {
  if ((await elsewhere()).some((copy) => copy.tier === tier)) return true;
  return existsSync(join(root, 'jobs', tier)) && holdsScripts(root, tier);
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
  return {
    subject: tier,
    status: statusAbove(missed, 3 * threshold),
    message: ({ lasting }) =>
      `${tier} was last called ${lasting(facts.nowMs - calledAt)} ago; the next call is overdue by ${lasting(lateMs)}`,
    hint: 'Run `npx folder-runner doctor`, which tries each crontab line; `npx folder-runner cron --install` writes them anew.',
  };
}

/** A tier that is only called by hand has a row; one whose folder is new, or whose first call is to come, has time. */
async function judgeNeverCalled(tier: string, periodMs: number, facts: CheckFacts): Promise<Wrong | null> {
  const first = await facts.log.firstCall();
  // Of a tier that others have, these say so.
  if (first === null || !existsSync(join(facts.root, 'jobs', tier))) return null;
  const waitedMs = facts.nowMs - Math.max(first, madeAt(facts.root, tier));
  if (waitedMs <= callGraceMs(periodMs)) return null;
  return {
    subject: tier,
    status: 'warning',
    message: ({ lasting }) =>
      `${tier} was never called, although other tiers have been called for ${lasting(waitedMs)}`,
    hint: 'Run `npx folder-runner cron --install`, which adds its crontab line.',
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
    ok: 'no tier is blocked by a long pass',
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
      hint: 'See `npx folder-runner status` for what is running; a `@timeout` ends a script that hangs, `@concurrency` runs several.',
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
    const leftOut = scripts.filter((script) => isLeftOut(script, tiers.get(script.tier), threshold, facts.nowMs));
    // Of a script that has a row for each machine, one that is gone is no matter while it runs on others.
    const runs = new Set(scripts.filter((script) => !leftOut.includes(script)).map(({ name }) => name));
    const suspects = [...new Map(leftOut.map((script) => [script.name, script])).values()].filter(
      ({ name }) => !runs.has(name),
    );
    const late = suspects.length === 0 ? [] : await withoutWaiting(suspects, tiers, threshold, facts);
    const wrong = late.length === 0 ? [] : await judgeLeftOut(late, facts);
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

/**
 * One that has times of its own, or that only other machines have, so that nobody here knows, is not run by each pass:
 * it is left out once it was queued and nobody runs it.
 */
async function withoutWaiting(
  suspects: readonly ScriptStandRow[],
  tiers: ReadonlyMap<string, WatchedTier>,
  threshold: number,
  { root, nowMs }: CheckFacts,
): Promise<readonly ScriptStandRow[]> {
  const { lookIntoJobs } = await import('../../discovery/discover.ts');
  const { hasOwnTimes } = await import('../../discovery/script.ts');
  const { discovery } = await lookIntoJobs(root);
  const ofPasses = discovery.tiers.flatMap(({ scripts }) => scripts.filter((script) => !hasOwnTimes(script)));
  const names = new Set(ofPasses.map(({ name }) => name));
  const isStuck = ({ tier, state, runAt }: ScriptStandRow): boolean =>
    (state === 'queued' || state === 'retrying') &&
    nowMs - runAt > threshold * (tiers.get(tier)?.periodMs ?? 0) + HOUR_MS;
  return suspects.filter((script) => names.has(script.name) || isStuck(script));
}

/** A script that is gone, or paused, does not run because somebody wants it so. */
async function judgeLeftOut(suspects: readonly ScriptStandRow[], facts: CheckFacts): Promise<Wrong[]> {
  const { findPause } = await import('../../queue/pauses.ts');
  const pauses = await facts.pauses();
  const running = suspects.filter(({ name }) => findPause(pauses, name) === null);
  const left = await withoutGone(running, ({ name }) => name, facts);
  return left.map(({ name, tier, startedAt, createdAt, reason }) => {
    const why = reason === null ? '' : `: ${printableName(reason)}`;
    return {
      subject: name,
      status: 'warning',
      message: ({ lasting }) =>
        `${printableName(name)} has not run for ${lasting(facts.nowMs - (startedAt ?? createdAt))}, ` +
        `although ${tier} is called${why}`,
      hint: `Run \`npx folder-runner why ${shellWord(printableName(name))}\`.`,
    };
  });
}

/** Those whose script still runs, here or on another machine. */
export async function withoutGone<T>(
  suspects: readonly T[],
  nameOf: (suspect: T) => string,
  { presence }: CheckFacts,
): Promise<readonly T[]> {
  if (suspects.length === 0) return [];
  const { whyScriptIsGone } = await presence();
  const reasons = await Promise.all(suspects.map((each) => whyScriptIsGone(nameOf(each))));
  return suspects.filter((_, index) => reasons[index] === null);
}
