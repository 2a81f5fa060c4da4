import type { Script } from '../discovery/script.ts';
import type { Clock } from './clock.ts';
import { resumeCommand } from './pause-text.ts';
import { printableLine } from './printable.ts';
import type { TierState } from './tier-state.ts';
import type { WhyFacts } from './why-facts.ts';
import { concludeRunning } from './why-running.ts';

/** What is wrong before the log is even asked. */
export interface Obstacles {
  readonly script: Script;
  /** What is wrong with the settings. */
  readonly settingsProblem: string | null;
}

/** One sentence: whether it will run, when, and else what is in the way. The first reason that counts. */
export function concludeWhy(
  facts: WhyFacts,
  { script, settingsProblem }: Obstacles,
  clock: Clock,
): string {
  if (settingsProblem !== null) {
    return 'It does not run: no call starts anything until the settings are put right.';
  }
  if (facts.running !== null) return concludeRunning(facts.running, facts.tier.tier, clock);
  if (script.refusals.length > 0) {
    return 'It does not run: it is refused until what is named above is put right.';
  }
  if (facts.pause !== null) return concludePaused(facts, clock);
  return concludeWaiting(facts, clock) ?? concludeTier(facts, clock);
}

function concludePaused({ pause }: WhyFacts, clock: Clock): string {
  if (pause === null) return '';
  const command = `\`${resumeCommand(pause)}\``;
  if (pause.until === null) return `It does not run because it is paused: ${command} ends that.`;
  return `It does not run because it is paused until ${clock.short(pause.until)}; ${command} ends that before.`;
}

function concludeWaiting({ waiting, nowMs }: WhyFacts, clock: Clock): string | null {
  if (waiting === null) return null;
  if (waiting.state === 'queued') return 'It runs as soon as the pass that runs now comes to it.';
  if (waiting.state === 'deferred') return 'It runs with the next call of any tier, first in line.';
  const isDue = waiting.runAtMs <= nowMs;
  const when = isDue
    ? 'the next call of any tier'
    : `the first call of any tier after ${clock.short(waiting.runAtMs)}`;
  return `It is tried again with ${when}.`;
}

function concludeTier({ tier, isDueAgain }: WhyFacts, clock: Clock): string {
  const name = printableLine(tier.tier);
  if (tier.periodMs === null) return `It runs when somebody calls \`runner ${name}\`.`;
  if (tier.lastScheduledCallMs === null) {
    return `It does not run by itself because cron has never called ${name}: \`runner cron --install\` lets it.`;
  }
  if (isDueAgain && !tier.expected?.isOverdue) {
    return `It will run with the next call of \`runner due\`, as the last pass of ${name} died.`;
  }
  return concludeNext(tier, tier.lastScheduledCallMs, clock);
}

function concludeNext(
  { tier, expected, holder }: TierState,
  lastCallMs: number,
  clock: Clock,
): string {
  const name = printableLine(tier);
  if (expected?.isOverdue) {
    return `It did not run because cron has not called ${name} since ${clock.short(lastCallMs)}: \`runner doctor\` looks at the crontab.`;
  }
  const when = expected === null ? '' : `, about ${clock.short(expected.atMs)}`;
  const after = holder === null ? '' : ', if the one that runs now is over by then';
  return `It will run with the next pass of ${name}${when}${after}.`;
}
