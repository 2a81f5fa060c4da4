import type { CheckCode } from '../../monitor/finding.ts';
import { isOfRuns } from '../../store/words.ts';

/** Stands where a report of a file leaves out what a script has said. */
export const LEFT_OUT = 'left out of this report';

/**
 * The fields of the API's answers that anybody may see; all others are left out, as long as they are not named here. It
 * names nothing that holds what scripts print, count and are checked for, what jobs carry, or a URL or variable of hints.
 */
const shown = new Set(
  `acknowledgedAt activity added alertAfter aliveMaxMs aliveMinMs aliveMs at attempt attempts buckets buried buries busyMs by calls
  cancelled change changedAt changeText checks children code contentHash count counters cpuLimit cpuMs cpuRuns
  crashed crashes createdAt date days delayed description differences disabled dueSince durationMs ended ending
  error errors event everyHost exitCode factor failed file finished finishedAt firstMs firstRunAt from gaps
  handlers hasOutput hint holder host id idleWorkers incidents isAfterBoot isDueAgain isExpected isInCrontab
  isLogUnread isOfScript isolate isOrphan isOverdue isPinged items job jobs kicked kicks kind lastAt
  lastCalledBySchedule lastError lastGood lastPass lastRun lastSkippedPass lastSuccessAt lateMs leasedUntil leaseMs
  leasesExpired liveness logProblem longestMs max maxAttempts maxDurationMs maxOutputBytes maxRssBytes mean measure
  measuredBy memoryBytes message min missed missedPasses name nearest next nextCall nextPass nice nodeVersion now
  occurrences offline onCrash openedAt options outcome outputBytes outputDroppedBytes p50 p50DurationMs p95
  p95DurationMs p99 parent passes path patterns pause paused pauses period periodMs pid presence previous priority
  quarantinedLogs queue ready reason reboot recentRuns recoveredAt recoveryToldAt refusals released releases
  remindedAt repeat reserves retries retryDelay retrying rssSustainMs run runAt runMs runnerVersion running runs
  schedule scheduled scheduledFor script scripts searched series serviceMs settingsProblem severity shell signal
  since skipCode skipped skippedPasses spooledRuns stack started startedAt state status subject succeeded
  successRate sum summary suspect systemCpuMs tags text throughputMax throughputMean tier tiers timedOut timeoutMs timeouts
  timezone to toldAt total totalCpuMs totalDurationMs totals trigger unread until userCpuMs usual usualDurationMs
  utilization value versions waiting waitingMs warned warning warnings warnRssBytes withoutHandler withWarning
  worker workers zone`.split(/\s+/),
);

/** Of these, only what the runner itself says stays. */
const sayings = new Set(['reason', 'warning', 'lastError', 'message', 'error', 'summary']);

/** A pass has no words of a script: "another pass of hourly is running". */
const ofPasses = new Set(['lastPass', 'lastSkippedPass', 'holder']);

/** How a run ended, where neither an exit code nor a signal says so. */
const endings: Readonly<Record<string, string>> = {
  'timed-out': 'timed out',
  crashed: 'nobody saw it end',
  'not-started': 'did not start',
};

/**
 * An answer of the API without what scripts have printed or thrown, and what jobs carry: a page that others may see
 * says that something failed, when and how often, not what was said of it.
 *
 * @param isOwn whether the words in it are the runner's own
 */
export function leaveOut(value: unknown, isOwn = false): unknown {
  if (Array.isArray(value)) return value.map((each) => leaveOut(each, isOwn));
  if (typeof value === 'string') return withoutParameters(value);
  if (typeof value !== 'object' || value === null) return value;
  const isWordOfOwn = isOwn || ('code' in value && !isOfScripts(value.code));
  const fields = Object.entries(value).map(([name, each]) => [name, leaveOutField(value, name, each, isWordOfOwn)]);
  return Object.fromEntries(fields);
}

function leaveOutField(of: object, name: string, value: unknown, isOwn: boolean): unknown {
  if (!shown.has(name)) return emptied(value);
  if (name === 'error' && isThrown(value)) return { name: LEFT_OUT, message: LEFT_OUT, stack: '' };
  if (name === 'stack') return typeof value === 'string' ? '' : null;
  if (isOwn || typeof value !== 'string' || !sayings.has(name)) return leaveOut(value, ofPasses.has(name));
  if (name === 'warning') return 'suspect' in of && of.suspect === true ? SUSPICION : LEFT_OUT;
  return (name === 'reason' ? describeEnd(of) : null) ?? LEFT_OUT;
}

const SUSPICION = 'exit code 0, but its output tells of a failure';

/** The end of a run by its other fields: its reason may quote what the script has said. */
function describeEnd(run: { readonly outcome?: unknown; readonly exitCode?: unknown; readonly signal?: unknown }) {
  const { outcome, exitCode, signal } = run;
  if (typeof outcome === 'string' && outcome in endings) return endings[outcome];
  if (typeof signal === 'string') return `ended by ${signal}`;
  return typeof exitCode === 'number' && exitCode !== 0 ? `exit code ${exitCode}` : null;
}

function isThrown(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'stack' in value;
}

/** The name of a job says what the job is of: `invoice?customer=4711`. */
function withoutParameters(text: string): string {
  return /^[\w./-]+\?\S*$/.test(text) ? text.slice(0, text.indexOf('?')) : text;
}

/** What a check finds is in the runner's words, unless it is about runs that failed. */
function isOfScripts(code: unknown): boolean {
  return typeof code !== 'string' || isOfRuns(code) || code === ('jobs-failing' satisfies CheckCode);
}

/** Of the same kind, so that the page needs no other way for it. */
function emptied(value: unknown): unknown {
  if (Array.isArray(value)) return [];
  if (typeof value === 'object' && value !== null) return {};
  return typeof value === 'string' ? '' : null;
}
