import type { Discovery, Script } from '../discovery/script.ts';
import { findPause, type Pause } from '../queue/pauses.ts';
import type { MissedPasses } from './missed-passes.ts';
import type { Overview, ScriptOverview, TierOverview } from './overview.ts';
import type { RunRecord } from './run-record.ts';
import type { Pass } from './select-passes.ts';
import type { RunningRun } from './select-running.ts';
import { instant, pauseToJson, waitingToJson } from './shared-json.ts';

/**
 * JSON as docs/json.md describes it: two spaces deep, ended by a line feed. What a terminal could
 * take for a control character is escaped, and read back unchanged.
 */
export function formatJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2).replace(unsafe, escapeUnits)}\n`;
}

/** The overview: `runner report --json`. */
export function overviewToJson(overview: Overview): object {
  const { totals } = overview;
  return {
    since: instant(overview.sinceMs),
    until: instant(overview.untilMs),
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

/** One script's runs: `runner report <script> --json`. */
export function runsToJson(script: string, runs: readonly RunRecord[]): object {
  return { script, runs: runs.map(runToJson) };
}

/** One run; `runner show --json` adds its output. */
export function runToJson(run: RunRecord): object {
  return {
    id: run.id,
    script: run.script,
    tier: run.tier,
    job: run.jobId,
    outcome: run.outcome,
    attempt: run.attempt,
    scheduledFor: instant(run.scheduledForMs),
    startedAt: instant(run.startedAtMs),
    finishedAt: instant(run.finishedAtMs),
    durationMs: run.durationMs,
    userCpuMs: run.userCpuMs,
    systemCpuMs: run.systemCpuMs,
    maxRssBytes: run.maxRssBytes,
    measuredBy: run.measuredBy,
    exitCode: run.exitCode,
    signal: run.signal,
    reason: run.reason,
    warning: run.warning,
    error: run.error,
    contentHash: run.contentHash,
    pid: run.pid,
    outputBytes: run.outputBytes,
    outputDroppedBytes: run.outputDroppedBytes,
  };
}

/** What is in `jobs/`: `runner list --json`. */
export function discoveryToJson(
  { tiers, unread, handlers, ignored, warnings }: Discovery,
  pauses: readonly Pause[] = [],
): object {
  return {
    tiers: tiers.map(({ name, periodMs, scripts }) => ({
      tier: name,
      periodMs,
      pause: pausedToJson(pauses, name),
      scripts: scripts.map((script) => foundScriptToJson(script, pauses)),
    })),
    unread: unread.map(({ tier, reason }) => ({ tier, reason })),
    handlers: handlers.map((script) => foundScriptToJson(script, pauses)),
    ignored: ignored.map(({ path, reason }) => ({ path, reason })),
    warnings,
  };
}

function foundScriptToJson(script: Script, pauses: readonly Pause[]): object {
  const { name, path, options, refusals, warnings } = script;
  const pause = pausedToJson(pauses, name);
  return { script: name, path, options, refusals, warnings, pause };
}

function pausedToJson(pauses: readonly Pause[], name: string): object | null {
  const pause = findPause(pauses, name);
  return pause && pauseToJson(pause);
}

function tierToJson(tier: TierOverview): object {
  const { lastPass } = tier;
  return {
    tier: tier.tier,
    periodMs: tier.periodMs,
    presence: tier.presence,
    lastPass: lastPass && {
      ...passToJson(lastPass),
      succeeded: lastPass.succeeded,
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

function passToJson(pass: Pass): object {
  return {
    id: pass.id,
    state: pass.state,
    scheduledFor: instant(pass.scheduledForMs),
    startedAt: instant(pass.startedAtMs),
    finishedAt: instant(pass.finishedAtMs),
    reason: pass.reason,
  };
}

function missedToJson({ count, gaps }: MissedPasses): object {
  return {
    count,
    gaps: gaps.map((gap) => ({
      from: instant(gap.fromMs),
      to: instant(gap.toMs),
      count: gap.count,
    })),
  };
}

function scriptToJson({ summary, ...script }: ScriptOverview): object {
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
    cpuMs: summary.cpuMs,
    maxRssBytes: summary.maxRssBytes,
    lastRun: script.lastRun && runToJson(script.lastRun),
    lastError: script.lastError,
    recentDurationsMs: script.recentRuns.map((run) => run.durationMs),
    pause: script.pause && pauseToJson(script.pause),
    waiting: script.waiting && waitingToJson(script.waiting),
  };
}

export function runningToJson(run: RunningRun): object {
  return {
    id: run.id,
    script: run.script,
    startedAt: instant(run.startedAtMs),
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
