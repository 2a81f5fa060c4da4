import { relative } from 'node:path';
import type { Script } from '../discovery/script.ts';
import { isFailure } from '../store/outcomes.ts';
import type { Clock } from './clock.ts';
import { describeError } from './describe-error.ts';
import { describeOptions } from './describe-options.ts';
import { countOf, formatDuration, formatPeriod } from './format.ts';
import { describePaused, resumeCommand } from './pause-text.ts';
import { printableLine } from './printable.ts';
import type { RunRecord } from './run-record.ts';
import { type Finding, fine, notable, wrong } from './why.ts';
import type { WhyFacts } from './why-facts.ts';
import { explainRunning } from './why-running.ts';

/** What the findings are told with. */
export interface Telling {
  readonly root: string;
  readonly clock: Clock;
}

/** What there is to say of the script's file. */
export function explainFile(script: Script, { root }: Telling): Finding[] {
  const path = printableLine(relative(root, script.path));
  const options = describeOptions(script.options, script.tier).map(printableLine).join(' · ');
  return [
    fine('found', path),
    ...script.refusals.map((refusal) =>
      wrong('refused', printableLine(refusal), 'Put that right; nothing else needs to be done.'),
    ),
    ...script.warnings.map((warning) => notable('options', printableLine(warning), null)),
    fine('options', options),
  ];
}

/** What the log says of it, in the order in which one would ask. */
export function explainFacts(facts: WhyFacts, { clock }: Telling): Finding[] {
  return [
    explainTier(facts),
    explainCall(facts, clock),
    explainLastPass(facts, clock),
    ...explainSkippedPass(facts, clock),
    explainLock(facts, clock),
    explainPause(facts, clock),
    ...explainJob(facts, clock),
    explainLastRun(facts, clock),
    explainLastSuccess(facts, clock),
  ];
}

function explainTier({ tier: { tier, periodMs } }: WhyFacts): Finding {
  const name = printableLine(tier);
  if (periodMs !== null) return fine('tier', `${name}, ${formatPeriod(periodMs)}`);
  return notable(
    'tier',
    `the name ${name} tells no period, so that no crontab line calls it`,
    `\`runner ${name}\` runs it; 15min, 2hours or daily would be names with a period.`,
  );
}

function explainCall({ tier, lastCallByHandMs, nowMs }: WhyFacts, clock: Clock): Finding {
  const hand = lastCallByHandMs === null ? '' : `; by hand ${clock.short(lastCallByHandMs)}`;
  const { lastScheduledCallMs: last, expected } = tier;
  if (last === null) return explainNeverCalled(tier.periodMs, hand);
  const called = `cron called it ${clock.short(last)}`;
  if (expected === null) return fine('called', `${called}${hand}`);
  const next = clock.short(expected.atMs);
  if (expected.isOverdue) {
    return wrong('called', `${called}, and not when it should have again, ${next}${hand}`, DOCTOR);
  }
  if (tier.dueAgainFor !== null) {
    return fine('called', `${called}, and due again, as its pass died${hand}`);
  }
  const when = expected.atMs > nowMs ? `next about ${next}` : `due since ${next}`;
  return fine('called', `${called}, ${when}${hand}`);
}

const DOCTOR = '`runner doctor` looks at the crontab.';

function explainNeverCalled(periodMs: number | null, hand: string): Finding {
  if (periodMs === null) return fine('called', hand === '' ? 'never' : hand.slice(2));
  const cure = `\`runner cron --install\` lets cron call it. ${DOCTOR}`;
  return wrong('called', `cron has never called it${hand}`, cure);
}

function explainLastPass({ tier, fileChangedMs, lastRun }: WhyFacts, clock: Clock): Finding {
  const { lastPass } = tier;
  if (lastPass === null) return notable('last pass', 'there was none yet', null);
  const { startedAt, state } = lastPass;
  const when = clock.short(startedAt);
  const isNewer = fileChangedMs !== null && fileChangedMs > startedAt;
  const hasRunSince = lastRun !== null && lastRun.startedAtMs >= startedAt;
  if (isNewer && !hasRunSince) {
    const changed = clock.short(fileChangedMs);
    return notable(
      'last pass',
      `${when}, before its file was changed or put there (${changed})`,
      null,
    );
  }
  if (state === 'crashed') {
    return notable(
      'last pass',
      `${when}; it died before its end`,
      tier.dueAgainFor === null
        ? 'The next one does what it left.'
        : 'The next call of `runner due` does what it left.',
    );
  }
  return fine('last pass', `${when}, ${state === 'running' ? 'still at work' : 'came to its end'}`);
}

function explainSkippedPass({ skippedPass }: WhyFacts, clock: Clock): Finding[] {
  if (skippedPass === null) return [];
  const { startedAt, reason } = skippedPass;
  const why = printableLine(reason ?? 'nobody says why');
  return [notable('skipped', `the pass of ${clock.short(startedAt)} was left out: ${why}`, null)];
}

function explainLock({ tier, nowMs }: WhyFacts, clock: Clock): Finding {
  const { holder, periodMs } = tier;
  if (holder === null) return fine('lock', 'free');
  const who = `pid ${holder.pid} on ${printableLine(holder.host)}, since ${clock.short(holder.sinceMs)}`;
  const isLong = periodMs !== null && nowMs - holder.sinceMs > periodMs;
  const cure = isLong
    ? `It takes longer than the period, and calls are skipped meanwhile. \`runner status\` shows what it runs: give that a @timeout, or end the pass with \`kill ${holder.pid}\`.`
    : null;
  return notable('lock', `held by ${who}`, cure);
}

function explainPause({ pause, script }: WhyFacts, clock: Clock): Finding {
  if (pause === null) return fine('paused', 'no');
  const cure = `\`${resumeCommand(pause)}\` ends the pause now.`;
  return wrong('paused', describePaused(pause, script, clock), cure);
}

function explainJob(facts: WhyFacts, clock: Clock): Finding[] {
  const { running, waiting, droppedJob } = facts;
  if (running !== null) return [explainRunning(running, facts.nowMs, clock)];
  if (waiting !== null) return [explainWaiting(facts, clock)];
  if (droppedJob === null) return [];
  const { createdAtMs, attempts, onCrash } = droppedJob;
  const at = attempts === 0 ? 'before it ran' : `after try ${attempts}`;
  const reason = printableLine(droppedJob.reason ?? 'nobody says why');
  const isMeant = onCrash === 'skip' && facts.lastRun?.outcome === 'crashed';
  const rest = isMeant ? '; by its @on-crash skip it is not tried again' : '';
  const text = `that of ${clock.short(createdAtMs)} was cancelled ${at}: ${reason}${rest}`;
  return [notable('last job', text, null)];
}

function explainWaiting({ waiting }: WhyFacts, clock: Clock): Finding {
  if (waiting === null) return fine('job', 'none');
  const { state, attempts, maxAttempts, runAtMs, sinceMs, reason } = waiting;
  const why = reason === null ? '' : `: ${printableLine(reason)}`;
  if (state === 'retrying') {
    const next = `try ${attempts + 1} of ${maxAttempts} is due ${clock.short(runAtMs)}`;
    return notable('job', `${next}; the last one did not succeed${why}`, null);
  }
  if (state === 'queued') return notable('job', 'next in line of the pass that runs now', null);
  return notable('job', `left for the next call, waits since ${clock.short(sinceMs)}${why}`, null);
}

function explainLastRun({ lastRun, running }: WhyFacts, clock: Clock): Finding {
  if (lastRun === null) return notable('last run', 'it has never run', null);
  const { id, outcome, durationMs, startedAtMs } = lastRun;
  const run = `run ${id} of ${clock.short(startedAtMs)}`;
  if (outcome === 'running') {
    const isSeen = running?.liveness === 'alive';
    return fine('last run', `${run} ${isSeen ? 'goes on' : 'has no end in the log yet'}`);
  }
  const took = durationMs ? ` in ${formatDuration(durationMs)}` : '';
  if (outcome === 'succeeded') return fine('last run', `${run} succeeded${took}`);
  const text = `${run} ${outcome}${took}: ${describeError(lastRun, '') ?? outcome}`;
  if (!isFailure(outcome)) return fine('last run', text);
  return notable('last run', text, `\`runner show ${id}\` tells more.`);
}

function explainLastSuccess({ lastSuccess, lastRun, nowMs }: WhyFacts, clock: Clock): Finding {
  if (lastSuccess === null) {
    const hasFailed = lastRun !== null && isFailure(lastRun.outcome);
    return hasFailed ? notable('last success', 'none', null) : fine('last success', 'none');
  }
  const text = describeRunDate(lastSuccess, clock, nowMs);
  return fine('last success', text);
}

function describeRunDate({ id, startedAtMs }: RunRecord, clock: Clock, nowMs: number): string {
  const days = Math.floor((nowMs - startedAtMs) / 86_400_000);
  const ago = days < 1 ? '' : `, ${countOf(days, 'day')} ago`;
  return `run ${id} of ${clock.short(startedAtMs)}${ago}`;
}
