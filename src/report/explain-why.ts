import { relative } from 'node:path';
import type { Script } from '../discovery/script.ts';
import type { Clock } from './clock.ts';
import { describeError } from './describe-error.ts';
import { describeOptions } from './describe-options.ts';
import { countOf, formatDuration, formatPeriod } from './format.ts';
import { describePaused, resumeCommand } from './pause-text.ts';
import { printableLine } from './printable.ts';
import type { RunRecord } from './run-record.ts';
import type { Finding } from './why.ts';
import type { WhyFacts } from './why-facts.ts';

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
      'The next one does what it left.',
    );
  }
  return fine('last pass', `${when}, ${state === 'running' ? 'still at work' : 'came to its end'}`);
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
  if (running !== null) return [explainRunning(facts, clock)];
  if (waiting !== null) return [explainWaiting(facts, clock)];
  if (droppedJob === null) return [];
  const when = clock.short(droppedJob.createdAtMs);
  const reason = printableLine(droppedJob.reason ?? 'nobody says why');
  return [notable('last job', `that of ${when} was cancelled before it ran: ${reason}`, null)];
}

function explainRunning({ running, nowMs }: WhyFacts, clock: Clock): Finding {
  if (running === null) return fine('job', 'none');
  const { id, script, startedAtMs, isOrphan, pid } = running;
  const since = `run ${id} goes on since ${clock.short(startedAtMs)}, for ${formatDuration(nowMs - startedAtMs)}`;
  const who = pid === null ? '' : ` (pid ${pid})`;
  if (!isOrphan)
    return notable('job', since + who, `\`runner tail -f ${printableLine(script)}\` follows it.`);
  const cure = 'A pass ends it at its time limit; until it has ended, it is not started again.';
  return notable('job', `${since}${who}, though its runner is gone`, cure);
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

function explainLastRun({ lastRun }: WhyFacts, clock: Clock): Finding {
  if (lastRun === null) return notable('last run', 'it has never run', null);
  const { id, outcome, durationMs, startedAtMs } = lastRun;
  const run = `run ${id} of ${clock.short(startedAtMs)}`;
  if (outcome === 'running') return fine('last run', `${run} goes on`);
  const took = durationMs ? ` in ${formatDuration(durationMs)}` : '';
  if (outcome === 'succeeded') return fine('last run', `${run} succeeded${took}`);
  const why = describeError(lastRun, '') ?? outcome;
  return notable(
    'last run',
    `${run} ${outcome}${took}: ${why}`,
    `\`runner show ${id}\` tells more.`,
  );
}

function explainLastSuccess({ lastSuccess, lastRun, nowMs }: WhyFacts, clock: Clock): Finding {
  if (lastSuccess === null) {
    const hasFailed = lastRun !== null && lastRun.outcome !== 'running';
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

export function fine(topic: string, text: string): Finding {
  return { topic, verdict: 'fine', text, cure: null };
}

export function notable(topic: string, text: string, cure: string | null): Finding {
  return { topic, verdict: 'notable', text, cure };
}

export function wrong(topic: string, text: string, cure: string | null): Finding {
  return { topic, verdict: 'wrong', text, cure };
}
