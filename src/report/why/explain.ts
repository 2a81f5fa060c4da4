import { relative } from 'node:path';
import type { Script } from '../../discovery/script.ts';
import { type Finding, type FindingStatus, found, note, ok, whyWords } from '../../monitor/finding.ts';
import { guessPeriodName } from '../../schedule/period.ts';
import { isFailure } from '../../store/words.ts';
import { isExecName } from '../../system/base/exec-name.ts';
import { countOf, describeRises, formatDuration, formatPeriod } from '../../system/base/format.ts';
import { Field, field, record, shown, type Values } from '../../system/base/record.ts';
import { printableLine, withInstants } from '../../system/base/text.ts';
import { shellWord } from '../../system/base/values.ts';
import { chainRecord } from '../model/chain.ts';
import type { RunningRun, RunRecord } from '../model/runs/run.ts';
import type { TierState } from '../model/tier.ts';
import type { Clock } from '../text/clock.ts';
import { describeNextTime, describeSchedule, warnOfFarPass } from '../text/next-time.ts';
import {
  describeChange,
  describeOptions,
  describePaused,
  describeResume,
  describeRunError,
  describeSkip,
  describeUnusual,
} from '../text/words.ts';
import type { WhyFacts } from './facts.ts';

/** The root and the clock for the texts of findings. */
export interface Telling {
  readonly root: string;
  readonly clock: Clock;
}

/** Findings about the script's file. */
export function explainFile(script: Script, { root }: Telling): Finding[] {
  const path = printableLine(relative(root, script.path));
  const options = describeOptions(script.options, script.tier).map(printableLine).join(' · ');
  return [
    fine('found', path),
    ...script.refusals.map((refusal) =>
      wrong('refused', printableLine(refusal), 'Fix this; the next pass will then run the script.'),
    ),
    ...script.warnings.map((warning) => notable('options', printableLine(warning), null)),
    fine('options', options),
  ];
}

/** Findings from the log, in the order in which a reader would ask. */
export function explainFacts(facts: WhyFacts, { clock }: Telling): Finding[] {
  return [
    explainTier(facts),
    explainCall(facts, clock),
    ...explainSchedule(facts, clock),
    explainLastPass(facts, clock),
    ...explainSkippedPass(facts, clock),
    explainLock(facts, clock),
    explainPause(facts, clock),
    ...explainLinks(facts, clock),
    ...explainJob(facts, clock),
    explainLastRun(facts, clock),
    ...explainRises(facts, clock),
    ...explainChange(facts, clock),
    explainLastSuccess(facts, clock),
  ];
}

function explainTier({ tier: { tier, periodMs } }: WhyFacts): Finding {
  const name = printableLine(tier);
  if (periodMs !== null) return fine('tier', `${name}, ${formatPeriod(periodMs)}`);
  const guess = guessPeriodName(tier);
  return notable(
    'tier',
    `${name} is not a schedule name, so cron never runs it`,
    guess === null
      ? `\`npx folder-runner ${name}\` runs it; 15min, 2hours or daily are schedule names.`
      : `Did you mean ${guess}? \`npx folder-runner ${name}\` runs it by hand.`,
  );
}

function explainCall({ tier, lastCallByHandMs, nowMs }: WhyFacts, clock: Clock): Finding {
  const hand = lastCallByHandMs === null ? '' : `; by hand ${clock.short(lastCallByHandMs)}`;
  const { lastScheduledCallMs: last, expected, isInCrontab, isUncalled } = tier;
  if (last === null) return explainNeverCalled(tier, hand, clock);
  const unattended = `last called without a terminal ${clock.short(last)}${hand}`;
  if (isUncalled) return wrong('called', `no crontab line calls it; ${unattended}`, INSTALL);
  if (expected === null) return fine('called', unattended);
  const called = `cron called it ${clock.short(last)}`;
  const next = clock.short(expected.atMs);
  if (expected.isOverdue) {
    return wrong('called', `${called}, but not at the next expected time, ${next}${hand}`, DOCTOR);
  }
  if (tier.dueAgainFor !== null) {
    return fine('called', `${called}, and due again, because its pass died${hand}`);
  }
  const when = expected.atMs > nowMs ? `next ${isInCrontab ? 'at' : 'about'} ${next}` : `due since ${next}`;
  return fine('called', `${called}, ${when}${hand}`);
}

const DOCTOR = '`npx folder-runner doctor` checks the crontab.';

const INSTALL = `\`npx folder-runner cron --install\` lets cron call it. ${DOCTOR}`;

function explainNeverCalled({ periodMs, isInCrontab, expected }: TierState, hand: string, clock: Clock): Finding {
  if (isInCrontab && expected !== null) {
    const first = clock.short(expected.atMs);
    if (!expected.isOverdue) return fine('called', `not yet; its crontab line calls it first at ${first}${hand}`);
    return wrong('called', `its crontab line should have called it first at ${first}${hand}`, DOCTOR);
  }
  if (periodMs === null) return fine('called', hand === '' ? 'never' : hand.slice(2));
  if (isInCrontab) return notable('called', `not yet, but a crontab line calls it${hand}`, DOCTOR);
  const what = isInCrontab === null ? 'cron has never called it' : 'no crontab line calls it';
  return wrong('called', `${what}${hand}`, INSTALL);
}

function explainSchedule({ next, links, leftOutUntilMs, nowMs }: WhyFacts, clock: Clock): Finding[] {
  if (leftOutUntilMs !== null) return [notable('except', `left out until ${clock.short(leftOutUntilMs)}`, null)];
  if (next === null) return [];
  const schedule = describeSchedule(next);
  const text = schedule === '' ? 'once after each boot' : `${schedule}: ${describeNextTime(next, clock, nowMs)}`;
  const far = links?.hasWindow ? null : warnOfFarPass(next, clock);
  return [
    far === null
      ? fine('schedule', text)
      : notable('schedule', text, `In jobs/hourly it would run sooner after its time.`),
  ];
}

function explainLastPass({ tier, fileChangedMs, lastRun }: WhyFacts, clock: Clock): Finding {
  const { lastPass } = tier;
  if (lastPass === null) return notable('last pass', 'none yet', null);
  const { startedAtMs, state } = lastPass;
  const when = clock.short(startedAtMs);
  const isNewer = fileChangedMs !== null && fileChangedMs > startedAtMs;
  const hasRunSince = lastRun !== null && lastRun.startedAtMs >= startedAtMs;
  if (isNewer && !hasRunSince) {
    const changed = clock.short(fileChangedMs);
    return notable('last pass', `${when}, before its file was changed or added (${changed})`, null);
  }
  if (state === 'crashed') {
    return notable(
      'last pass',
      `${when}; it died before its end`,
      tier.dueAgainFor === null
        ? 'The next one does the rest.'
        : 'The next call of `npx folder-runner due` does the rest.',
    );
  }
  return fine('last pass', `${when}, ${state === 'running' ? 'still running' : 'completed'}`);
}

function explainSkippedPass({ skippedPass, tier }: WhyFacts, clock: Clock): Finding[] {
  if (skippedPass === null) return [];
  const when = clock.short(skippedPass.startedAtMs);
  return [
    notable(
      'skipped',
      `the ${isExecName(tier.tier) ? 'call' : 'pass'} of ${when} was skipped${skippedPass.heldBy === null ? ':' : ','} ${describeSkip(skippedPass, clock)}`,
      null,
    ),
  ];
}

function explainLock({ tier, nowMs }: WhyFacts, clock: Clock): Finding {
  const { holder, periodMs } = tier;
  if (holder === null) return fine('lock', 'free');
  const who = `pid ${holder.pid} on ${printableLine(holder.host)}, since ${clock.short(holder.sinceMs)}`;
  const isLong = periodMs !== null && nowMs - holder.sinceMs > periodMs;
  const cure = isLong
    ? `It takes longer than the period, so calls are skipped meanwhile. \`npx folder-runner status\` shows its current script: give that a @timeout, or end the pass with \`kill ${holder.pid}\`.`
    : null;
  return notable('lock', `held by ${who}`, cure);
}

function explainPause({ pause, script }: WhyFacts, clock: Clock): Finding {
  if (pause === null) return fine('paused', 'no');
  const cure = `\`${describeResume(pause)}\` ends the pause now.`;
  return wrong('paused', describePaused(pause, script, clock), cure);
}

function explainLinks({ links, script, waiting }: WhyFacts, clock: Clock): Finding[] {
  if (links === null) return [];
  const { text, sinceMs, hasLinks } = links;
  const topic = hasLinks ? 'after' : 'between';
  if (text === '')
    return [fine(topic, hasLinks ? 'all that it waits for has ended as it wants' : 'it may start at this time of day')];
  const told = withInstants(text, clock.short);
  if (sinceMs === null) return [fine(topic, `once it is queued, it ${told}`)];
  const cure = `\`npx folder-runner run ${shellWord(printableLine(script))}\` runs it without waiting.`;
  const since = waiting?.state === 'retrying' ? '' : `; queued since ${clock.short(sinceMs)}`;
  return [notable(topic, `it ${told}${since}`, cure)];
}

function explainJob(facts: WhyFacts, clock: Clock): Finding[] {
  const { running, waiting, droppedJob } = facts;
  // The line before says what it waits for.
  if (isLinked(facts)) return [];
  if (running !== null) return [explainRunning(running, facts.nowMs, clock)];
  if (waiting !== null) return [explainWaiting(facts, clock)];
  if (droppedJob === null) return [];
  const { runAtMs, attempts } = droppedJob;
  const at = attempts === 0 ? 'before it ran' : `after try ${attempts}`;
  const reason = printableLine(droppedJob.reason ?? 'no reason recorded');
  const isMeant = facts.onCrash === 'skip' && facts.lastRun?.outcome === 'crashed';
  const rest = isMeant ? '; by its @on-crash skip it is not tried again' : '';
  const text = `that of ${clock.short(runAtMs)} was cancelled ${at}: ${reason}${rest}`;
  return [notable('last job', text, null)];
}

/** Whether it is queued, and waits for other scripts, or for its time of day. */
export const isLinked = ({ links, waiting }: WhyFacts): boolean =>
  links !== null && links.sinceMs !== null && waiting?.state !== 'retrying';

function explainWaiting({ waiting, tries }: WhyFacts, clock: Clock): Finding {
  if (waiting === null) return fine('job', 'none');
  const { state, attempts, runAtMs, sinceMs, reason } = waiting;
  const why = reason === null ? '' : `: ${printableLine(reason)}`;
  if (state === 'retrying') {
    const of = tries === null ? '' : ` of ${tries}`;
    const next = `try ${attempts + 1}${of} is due ${clock.short(runAtMs)}`;
    return notable('job', `${next}; the last one did not succeed${why}`, null);
  }
  if (state === 'queued') return notable('job', 'next in line in the current pass', null);
  if (state === 'claimed') return notable('job', 'begins in a moment', null);
  if (state === 'linked')
    return notable('job', `queued since ${clock.short(sinceMs)}; what it waited for has come`, null);
  return notable('job', `deferred to the next call, waiting since ${clock.short(sinceMs)}${why}`, null);
}

function explainLastRun({ lastRun, running, rises }: WhyFacts, clock: Clock): Finding {
  if (lastRun === null) return notable('last run', 'never', null);
  const { id, outcome, durationMs, startedAtMs } = lastRun;
  const run = `run ${id} of ${clock.short(startedAtMs)}`;
  if (outcome === 'running') {
    const isSeen = running?.liveness === 'alive';
    return fine('last run', `${run} ${isSeen ? 'is still running' : 'has no end in the log yet'}`);
  }
  const took = durationMs ? ` in ${formatDuration(durationMs)}` : '';
  if (outcome === 'succeeded')
    return explainSuccess(lastRun, `${run} succeeded${took}`, describeUnusual(lastRun.deviations, rises, clock));
  const text = `${run} ${outcome.replace('-', ' ')}${took}: ${describeRunError(lastRun, '') ?? outcome}`;
  if (!isFailure(outcome)) return fine('last run', text);
  return notable('last run', text, `\`npx folder-runner show ${id}\` shows more.`);
}

function explainSuccess({ id, warning }: RunRecord, text: string, unusual: readonly string[]): Finding {
  if (unusual.length === 0 && warning === null) return fine('last run', text);
  const parts = [
    text,
    ...(unusual.length === 0 ? [] : [`unlike those before: ${unusual.join('; ')}`]),
    ...(warning === null ? [] : [`with a warning: ${printableLine(warning)}`]),
  ];
  return notable('last run', parts.join(', '), `\`npx folder-runner show ${id}\` shows more.`);
}

function explainRises({ rises, script }: WhyFacts, clock: Clock): Finding[] {
  const texts = describeRises(rises, clock.short);
  const cure = `\`npx folder-runner report ${shellWord(script)}\` shows its runs.`;
  return texts.length === 0 ? [] : [notable('compared', texts.join('; '), cure)];
}

function explainChange({ change }: WhyFacts, clock: Clock): Finding[] {
  return change === null ? [] : [notable('changed', describeChange(change, clock), null)];
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

const verdictField = new Field({
  ...field.words(['fine', 'notable', 'wrong']).from('status'),
  toJson: (status: FindingStatus) => whyWords[status],
});

/** Why a script did or didn't run. */
export const whyRecord = record('Why', {
  /** Null: there is no such script. */
  script: field.text.like('hourly/clean-tmp').orNull,
  findings: field.list(
    field.one(
      record(null, {
        topic: field.text.like('last run').from('code'),
        verdict: verdictField,
        text: field.text.like('run 812 succeeded 5 minutes ago').from('message'),
        cure: field.text.like('`npx folder-runner run hourly/clean-tmp` runs it now.').orNull.from('hint'),
      }),
    ),
  ),
  /** One sentence that they come to. */
  conclusion: field.text.like('It runs with the next pass of hourly.'),
});

export type Why = Values<typeof whyRecord>;

export const whyWithChainRecord = record('WhyWithChain', {
  ...whyRecord.fields,
  chain: shown.one(chainRecord).orNull.about('Null: it waits for no script, and none waits for it'),
});

export type WhyWithChain = Values<typeof whyWithChainRecord>;

export const fine = (code: string, message: string): Finding => ({ code, ...ok(message) });

const notable = (code: string, message: string, hint: string | null): Finding => ({ code, ...note(message, hint) });

/** A finding that keeps a script from running. */
export const wrong = (code: string, message: string, hint: string | null): Finding => ({
  ...{ code, ...found('critical', message, hint) },
});

/** Describes a run without an end in the log, limited to what can be seen from here. */
function explainRunning(running: RunningRun, nowMs: number, clock: Clock): Finding {
  const { id, script, startedAtMs, isOrphan, liveness, pid, hasResult } = running;
  const where = liveness === 'on-another-host' ? ` on ${printableLine(running.host)}` : '';
  const who = `${pid === null ? '' : ` (pid ${pid})`}${where}`;
  const begun = `run ${id} began ${clock.short(startedAtMs)}${who}`;
  if (liveness === 'dead') {
    const how = hasResult ? 'has ended by itself' : 'was cut off: its process is gone';
    return notable('job', `${begun} and ${how}`, RECORDED);
  }
  if (liveness === 'on-another-host' && isOrphan) {
    const text = `${begun}; its runner gives no sign of life, and this host cannot see whether it is still running`;
    return notable('job', text, ELSEWHERE);
  }
  const since = `run ${id} has been running since ${clock.short(startedAtMs)}, for ${formatDuration(nowMs - startedAtMs)}${who}`;
  if (isOrphan) return notable('job', `${since}, although its runner is gone`, ENDED);
  return notable('job', since, `\`npx folder-runner tail -f ${printableLine(script)}\` follows it.`);
}

const ENDED = 'A pass ends it at its time limit; it is not started again before it has ended.';
const ELSEWHERE =
  'A call on that host can check it; other hosts wait for its time limit. It is not started again before that.';
const RECORDED = 'The next pass records that.';

/** The same in one sentence. */
export function concludeRunning(running: RunningRun, tier: string, clock: Clock): string {
  const { isOrphan, liveness, startedAtMs, hasResult } = running;
  const since = clock.short(startedAtMs);
  const again = `${printableLine(tier)} starts it again`;
  if (hasResult && liveness === 'dead') return `It has ended, after ${since}; how, the next pass records.`;
  if (liveness === 'dead') return `It was cut off some time after ${since}: its process is gone.`;
  if (!isOrphan) return 'It is running now.';
  if (liveness === 'alive') {
    return `It has been running without its runner since ${since}; ${again} once it has ended.`;
  }
  const host = printableLine(running.host);
  return `It may still be running on ${host}, since ${since}; ${again} once it is known to have ended.`;
}
