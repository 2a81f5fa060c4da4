import type { DisabledScript } from '../discovery/not-run.ts';
import type { Discovery, Script } from '../discovery/script.ts';
import { type Finding, worstStatus } from '../monitor/checks/finding.ts';
import type { Metrics } from '../monitor/metrics/read-metrics.ts';
import type { ClaimedJob, EndedChildren, Job, JobCount, JobTotals, ListedJob } from '../queue/api.ts';
import { findPause } from '../queue/pauses.ts';
import type { MissedPasses } from '../schedule/expected-call.ts';
import type { IncidentRow } from '../store/schema.ts';
import type { Mute } from '../store/statements/monitor/incidents.ts';
import type { ContentChange } from '../store/statements/monitor/usual.ts';
import type { Pause } from '../store/statements/pauses.ts';
import { writeExactly } from '../system/base/exact-json.ts';
import { isInstant } from '../system/base/values.ts';
import type { Activity, JobActivity } from './model/activity.ts';
import type { JobStory, UpcomingRun } from './model/jobs.ts';
import type { NextTime, Upcoming } from './model/next-times.ts';
import type { Overview, ScriptOverview, TierOverview } from './model/overview.ts';
import type { RunningRun, RunRecord } from './model/runs/run.ts';
import type { QueueStatus, Status, StatusRun } from './model/status.ts';
import type { RecordedPass, TierHolder, TierState, WaitingScriptJob } from './model/tier.ts';

/**
 * JSON as docs/json.md describes it: two spaces deep, ended by a line feed. What a terminal could
 * take for a control character is escaped, and read back unchanged.
 */
export function formatJson(value: unknown): string {
  return `${writeExactly(value).replace(unsafe, escapeUnits)}\n`;
}

/** The same on one line. */
export function formatJsonLine(value: unknown): string {
  return `${writeExactly(value, true).replace(unsafe, escapeUnits)}\n`;
}

/** The overview: `runner report --json`. */
export function overviewToJson(overview: Overview) {
  const { totals } = overview;
  return {
    since: isoInstant(overview.sinceMs),
    until: isoInstant(overview.untilMs),
    tiers: overview.tiers.map(tierToJson),
    scripts: overview.scripts.map(scriptToJson),
    running: overview.running.map(runningToJson),
    totals: {
      runs: totals.runs,
      succeeded: totals.succeeded,
      failed: totals.failed,
      released: totals.released,
      successRate: totals.successRate,
      durationMs: totals.totalDurationMs,
      cpuMs: totals.totalCpuMs,
      maxRssBytes: totals.maxRssBytes,
    },
  };
}

/** What happened by period: `runner metrics --json`. */
export function metricsToJson(metrics: Metrics, cpuLimit: number | null) {
  const toPeriod = <B extends { readonly fromMs: number; readonly untilMs: number }>({
    fromMs,
    untilMs,
    ...figures
  }: B) => ({
    from: isoInstant(fromMs),
    until: isoInstant(untilMs),
    ...figures,
  });
  return {
    period: metrics.period,
    since: isoInstant(metrics.sinceMs),
    until: isoInstant(metrics.untilMs),
    cpuLimit,
    series: metrics.series.map(({ subject, kind, total, buckets }) => ({
      ...{ subject, kind, total: toPeriod(total), buckets: buckets.map(toPeriod) },
    })),
    workers: metrics.workers.map(({ tier, total, buckets }) => ({
      ...{ tier, total: toPeriod(total), buckets: buckets.map(toPeriod) },
    })),
  };
}

/** One script's runs: `runner report <script> --json`. */
export function runsToJson(script: string, runs: readonly RunRecord[]) {
  return { script, runs: runs.map(runToJson) };
}

/** One run; `runner show --json` adds its output. */
export function runToJson(run: RunRecord) {
  return {
    id: run.id,
    script: run.script,
    tier: run.tier,
    job: run.jobId,
    outcome: run.outcome,
    attempt: run.attempt,
    scheduledFor: isoInstant(run.scheduledForMs),
    startedAt: isoInstant(run.startedAtMs),
    finishedAt: isoInstant(run.finishedAtMs),
    durationMs: run.durationMs,
    userCpuMs: run.userCpuMs,
    systemCpuMs: run.systemCpuMs,
    maxRssBytes: run.maxRssBytes,
    measuredBy: run.measuredBy,
    exitCode: run.exitCode,
    signal: run.signal,
    reason: run.reason,
    warning: run.warning,
    suspect: run.suspect,
    error: run.error,
    contentHash: run.contentHash,
    pid: run.pid,
    outputBytes: run.outputBytes,
    outputDroppedBytes: run.outputDroppedBytes,
    counts: run.counts,
    deviations: run.deviations.map(({ since, ...deviation }) => ({ ...deviation, since: isoInstant(since) })),
  };
}

/** Null: it has not changed. */
export function changeToJson(change: ContentChange | null) {
  return change && { changedAt: isoInstant(change.changedAt), lastSuccessAt: isoInstant(change.lastSuccessAt) };
}

/** What is in `jobs/`: `runner list --json`. */
export function discoveryToJson(
  { tiers, unread, handlers, ignored, elsewhere, warnings }: Discovery,
  pauses: readonly Pause[] = [],
  disabled: readonly DisabledScript[] = [],
  times: readonly NextTime[] = [],
) {
  const isDisabled = (path: string): boolean => disabled.some((script) => script.path === path);
  const timed = (script: Script) => {
    const time = times.find((each) => each.script === script.name);
    return { ...foundScriptToJson(script, pauses), ...whenToJson(time) };
  };
  return {
    tiers: tiers.map(({ name, periodMs, scripts }) => ({
      tier: name,
      periodMs,
      pause: pausedToJson(pauses, name),
      scripts: scripts.map(timed),
    })),
    unread: unread.map(({ tier, reason }) => ({ tier, reason })),
    handlers: handlers.map((script) => foundScriptToJson(script, pauses)),
    disabled: disabled.map(({ name, path }) => ({ script: name, path })),
    ignored: ignored.filter(({ path }) => !isDisabled(path)).map(({ path, reason }) => ({ path, reason })),
    elsewhere: elsewhere.map(({ name, path, options }) => ({ script: name, path, hosts: options.host ?? [] })),
    warnings,
  };
}

export function foundScriptToJson(script: Script, pauses: readonly Pause[]) {
  const { name, path, options, refusals, warnings } = script;
  const pause = pausedToJson(pauses, name);
  return { script: name, path, options, refusals, warnings, pause };
}

function pausedToJson(pauses: readonly Pause[], name: string) {
  const pause = findPause(pauses, name);
  return pause && pauseToJson(pause);
}

function tierToJson(tier: TierOverview) {
  const { lastPass } = tier;
  return {
    tier: tier.tier,
    periodMs: tier.periodMs,
    presence: tier.presence,
    lastPass: lastPass && {
      ...passToJson(lastPass),
      succeeded: lastPass.succeeded,
      withWarning: lastPass.withWarning,
      failed: lastPass.failed,
      running: lastPass.running,
      liveness: lastPass.liveness,
    },
    passes: tier.passes,
    skippedPasses: tier.skippedPasses,
    lastSkippedPass: tier.lastSkipped && passToJson(tier.lastSkipped),
    missedPasses: tier.missed && missedToJson(tier.missed),
    pause: tier.pause && pauseToJson(tier.pause),
  };
}

function passToJson(pass: RecordedPass) {
  return {
    id: pass.id,
    state: pass.state,
    scheduledFor: isoInstant(pass.scheduledForMs),
    startedAt: isoInstant(pass.startedAtMs),
    finishedAt: isoInstant(pass.finishedAtMs),
    reason: pass.reason,
  };
}

function missedToJson({ count, gaps }: MissedPasses) {
  return {
    count,
    gaps: gaps.map((gap) => ({
      from: isoInstant(gap.fromMs),
      to: isoInstant(gap.toMs),
      count: gap.count,
    })),
  };
}

/** One script's figures, as `runner report --json` has them. */
export function scriptToJson({ summary, ...script }: ScriptOverview) {
  return {
    script: script.script,
    tier: script.tier,
    presence: script.presence,
    runs: summary.runs,
    succeeded: summary.succeeded,
    failed: summary.failed,
    released: summary.released,
    successRate: summary.successRate,
    p50DurationMs: summary.p50DurationMs,
    p95DurationMs: summary.p95DurationMs,
    maxDurationMs: summary.maxDurationMs,
    totalDurationMs: summary.totalDurationMs,
    cpuMs: summary.cpuMs,
    totalCpuMs: summary.totalCpuMs,
    maxRssBytes: summary.maxRssBytes,
    lastRun: script.lastRun && runToJson(script.lastRun),
    lastError: script.lastError,
    recentRuns: script.recentRuns.map(({ id, outcome, durationMs }) => ({ id, outcome, durationMs })),
    pause: script.pause && pauseToJson(script.pause),
    waiting: script.waiting && waitingToJson(script.waiting),
  };
}

export function runningToJson(run: RunningRun) {
  return {
    id: run.id,
    script: run.script,
    startedAt: isoInstant(run.startedAtMs),
    pid: run.pid,
    host: run.host,
    liveness: run.liveness,
    isOrphan: run.isOrphan,
    attempt: run.attempt,
    maxRssBytes: run.maxRssBytes,
  };
}

/** JSON escapes C0 itself; these it leaves as they are. */
const unsafe = /[\x7f-\x9f\p{Bidi_Control}\u2028\u2029]/gu;

function escapeUnits(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

function waitingToJson(job: WaitingScriptJob) {
  return {
    script: job.script,
    tier: job.tier,
    state: job.state,
    since: isoInstant(job.sinceMs),
    runAt: isoInstant(job.runAtMs),
    attempts: job.attempts,
    reason: job.reason,
  };
}

export function pauseToJson({ name, kind, until, createdAt }: Pause) {
  return { name, kind, until: isoInstant(until), since: isoInstant(createdAt) };
}

/** An incident, as `runner incidents --json` and `runner status --json` tell of it. */
export function incidentToJson(incident: IncidentRow) {
  const { id, subject, code, severity, occurrences, message, hint, ending } = incident;
  return {
    ...{ id, subject, code, severity, occurrences, error: message, hint },
    openedAt: isoInstant(incident.opened_at),
    lastAt: isoInstant(incident.last_at),
    recoveredAt: isoInstant(incident.recovered_at),
    ending,
    toldAt: isoInstant(incident.told_at),
    remindedAt: isoInstant(incident.reminded_at),
    recoveryToldAt: isoInstant(incident.recovery_told_at),
    acknowledgedAt: isoInstant(incident.acknowledged_at),
    lastRun: incident.last_run_id,
  };
}

/** What checks have come to: `runner check --json`. */
export function healthToJson(findings: readonly Finding[]) {
  const checks = findings.map(({ code, status, subject, message, hint }) => ({ code, status, subject, message, hint }));
  return { status: worstStatus(findings), checks };
}

export function muteToJson({ name, until, createdAt }: Mute) {
  return { name, until: isoInstant(until), since: isoInstant(createdAt) };
}

/** An ISO 8601 string in UTC; null where no date can be made of it. */
export function isoInstant(atMs: number | null): string | null {
  return isInstant(atMs) ? new Date(atMs).toISOString() : null;
}

/** `runner status --json`, as docs/json.md describes it. */
export function statusToJson(status: Status) {
  return {
    at: isoInstant(status.atMs),
    incidents: status.incidents.map(incidentToJson),
    running: status.running.map(statusRunToJson),
    waiting: status.waiting.map(waitingToJson),
    pauses: status.pauses.map(pauseToJson),
    disabled: status.disabled,
    queue: queueToJson(status),
    tiers: status.tiers.map(tierStateToJson),
    scheduled: status.scheduled.map(nextTimeToJson),
    isLogUnread: status.isLogUnread,
    spooledRuns: status.spooledRuns,
    quarantinedLogs: status.quarantined,
    differences: status.differences,
  };
}

function statusRunToJson(run: StatusRun) {
  return { ...runningToJson(run), usualDurationMs: run.usualDurationMs };
}

function queueToJson({ queue, isLogUnread }: Status) {
  const { counts, withoutHandler, waiting } = queue;
  const known = (count: number): number | null => (isLogUnread ? null : count);
  return {
    ready: known(counts.ready),
    delayed: known(counts.delayed),
    running: known(counts.running),
    paused: known(counts.paused),
    failed: known(counts.failed),
    workers: known(queue.workers),
    idleWorkers: known(queue.idleWorkers),
    waiting: waiting.map(waiterToJson),
    withoutHandler: withoutHandler.map(({ name, jobs, nearest }) => ({ name, jobs, nearest })),
  };
}

/** Somebody who is no worker of the runner and waits for a job. */
export function waiterToJson({ host, pid, patterns, sinceMs }: QueueStatus['waiting'][number]) {
  return { host, pid, patterns, since: isoInstant(sinceMs) };
}

export function tierStateToJson(state: TierState) {
  const { lastPass, expected, holder, pause } = state;
  return {
    tier: state.tier,
    periodMs: state.periodMs,
    lastPass: lastPass && { state: lastPass.state, startedAt: isoInstant(lastPass.startedAtMs) },
    lastCalledBySchedule: isoInstant(state.lastScheduledCallMs),
    isInCrontab: state.isInCrontab,
    nextCall: isoInstant(expected?.atMs ?? null),
    isOverdue: expected?.isOverdue ?? false,
    isDueAgain: state.dueAgainFor !== null,
    holder: holder && holderToJson(holder),
    pause: pause && pauseToJson(pause),
  };
}

/** When a script with times of its own runs next. */
export function nextTimeToJson(time: NextTime) {
  const { script, tier, schedule, timezone, isAfterBoot } = time;
  return { script, tier, schedule, timezone, isAfterBoot, ...whenToJson(time) };
}

/** `runner status --upcoming --json`. */
export function upcomingTimeToJson({ atMs, kind, name, id, rule, passMs }: Upcoming) {
  return { at: isoInstant(atMs), kind, name, id, rule, pass: isoInstant(passMs) };
}

/** Null: it has no times of its own, or no further one; or nothing is known of its tier. */
function whenToJson(time: NextTime | undefined) {
  return { next: isoInstant(time?.atMs ?? null), nextPass: isoInstant(time?.passMs ?? null) };
}

function holderToJson({ kind, pid, host, sinceMs }: TierHolder) {
  return { kind, pid, host, since: isoInstant(sinceMs) };
}

/** One job of the queue, as docs/json.md describes it. */
export function jobToJson(job: Job) {
  return {
    id: job.id,
    name: job.name,
    state: job.state,
    data: job.data,
    result: job.result,
    priority: job.priority,
    runAt: iso(job.runAt),
    scheduledFor: iso(job.scheduledFor),
    createdAt: iso(job.createdAt),
    startedAt: iso(job.startedAt),
    finishedAt: iso(job.finishedAt),
    attempts: job.attempts,
    maxAttempts: job.maxAttempts,
    repeat: job.repeat,
    missed: job.missed,
    uniqueKey: job.uniqueKey,
    group: job.group,
    parent: job.parent,
    leaseMs: job.leaseMs,
    leasedUntil: iso(job.leasedUntil),
    reason: job.reason,
    counters: job.counters,
  };
}

/** The same, with what keeps it from being run. */
export function heldJobToJson(job: Job, hold: Pause | null) {
  return { ...jobToJson(job), pause: hold && pauseToJson(hold) };
}

/** The same as a list has it. */
export function listedJobToJson(job: ListedJob, hold: Pause | null) {
  const { dataBytes, resultBytes } = job;
  return { ...heldJobToJson(job, hold), dataBytes, resultBytes };
}

/** `runner job <id> --json`. */
export function jobStoryToJson({ job, hold, children, runs, activity }: JobStory) {
  return {
    ...heldJobToJson(job, hold),
    children: children.map(({ id, name, state }) => ({ id, name, state })),
    runs: runs.map(runToJson),
    activity: activity.map(transitionToJson),
  };
}

function transitionToJson({ atMs, event, detail, warning, runId, actor }: JobActivity) {
  return { at: isoInstant(atMs), event, detail, warning, run: runId, by: actor };
}

/** `runner activity --json`. */
export function activityToJson(activity: Activity) {
  const { jobId: job, name, workerId: worker, host } = activity;
  return { ...transitionToJson(activity), job, name, worker, host };
}

/** `runner claim`: a job, and what whoever works it off needs. */
export function claimedJobToJson(job: ClaimedJob) {
  const { token, attempt, parentData, children } = job;
  return { ...jobToJson(job), token, attempt, parentData, children: endedToJson(children) };
}

function endedToJson({ finished, failed, cancelled }: EndedChildren) {
  return { finished, failed, cancelled };
}

/** `runner jobs --count --json`. */
export function countToJson(count: JobCount) {
  const { name, ready, delayed, running, retrying, paused, failed, finished, cancelled } = count;
  return { name, ready, delayed, running, retrying, paused, failed, finished, cancelled };
}

/** `runner jobs --totals --json`. */
export function totalsToJson({ name, added, runs, succeeded, failed, ...others }: JobTotals) {
  const { timedOut, crashed, released, leasesExpired, buried, kicked } = others;
  return { name, added, runs, succeeded, failed, timedOut, crashed, released, leasesExpired, buried, kicked };
}

/** `runner jobs --upcoming 10 --json`. */
export function upcomingToJson({ atMs, job, isExpected }: UpcomingRun) {
  const { id, name, state, repeat } = job;
  return { at: isoInstant(atMs), isExpected, id, name, state, repeat };
}

function iso(date: Date | null): string | null {
  return date === null ? null : isoInstant(date.getTime());
}
