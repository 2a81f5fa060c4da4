import { describeExit } from '../../execution/result/wording.ts';
import type { DuplicatePolicy, Job } from '../../queue/api.ts';
import { findPause, resumeCommandOf, WHOLE_QUEUE, wordsOfPaused } from '../../queue/pauses.ts';
import { defaultTimeoutMs } from '../../schedule/period.ts';
import { KNOWN_SIGNS, type RetryDelay } from '../../settings/readers.ts';
import type { ScriptOptions } from '../../settings/settings.ts';
import type { ContentChange, Deviation } from '../../store/statements/monitor/usual.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import { type ActivityEvent, DOUBT, isWaiting, type PauseKind } from '../../store/words.ts';
import { countOf, formatBytes, formatDuration, formatMeasured, formatTimes } from '../../system/base/format.ts';
import { capitalized, firstLine, lastLine, printableLine, withInstants } from '../../system/base/text.ts';
import { linkWords } from '../../system/base/wait-words.ts';
import type { RunRecord } from '../model/runs/run.ts';
import type { SkippedPass } from '../model/tier.ts';
import { type Clock, spanOf } from './clock.ts';

/** `paused by ada until 3 Nov 16:00`, `paused`; of what is paused as part of more: `daily is paused`. */
export function describePaused(pause: Pause, of: string, clock: Clock): string {
  const until = pause.until === null ? '' : ` until ${clock.short(pause.until)}`;
  const by = pause.by ? ` by ${printableLine(pause.by)}` : '';
  return pause.name === of ? `paused${by}${until}` : `${nameOfPaused(pause)} is paused${by}${until}`;
}

/** `everything`, `daily`, `hourly/clean-tmp`, `the queue`, `mail/*`. */
export function nameOfPaused({ name }: Pick<Pause, 'name'>): string {
  return printableLine(wordsOfPaused(name));
}

/** The same at the start of a sentence: `Everything`, `The queue`; names keep their letters. */
export function startWithPaused(pause: Pick<Pause, 'name'>): string {
  const words = nameOfPaused(pause);
  return pause.name.endsWith(words) ? words : capitalized(words);
}

/** The command that ends a pause. */
export function describeResume({ name }: Pick<Pause, 'name'>): string {
  return printableLine(resumeCommandOf(name));
}

/** Everything that is in force for a script; what is left to its default is named as such. */
export function describeOptions(options: ScriptOptions, tier: string): string[] {
  const timeout = `timeout ${formatDuration(options.timeoutMs ?? defaultTimeoutMs(tier))}`;
  const source = options.timeoutMs === undefined ? ' (default)' : '';
  const retries = countOf(options.retries ?? 0, 'retry', 'retries');
  const { timeoutMs: _, retries: __, ...others } = options;
  return [timeout + source, retries, ...describeSetOptions(others)];
}

/** The options that are set for a script, a few words each. */
export function describeSetOptions(options: ScriptOptions): string[] {
  const { timeoutMs, retries, retryDelay, onCrash, offline, memoryBytes, nice, env, tags } = options;
  const { warnRssBytes, maxRssBytes, rssSustainMs, maxOutputBytes, isolate, host, everyHost } = options;
  const { schedule, timezone, between, except, reboot, after, afterFailure, always } = options;
  const { shell, failOn, expect } = options;
  const said = <T>(value: T | undefined, tell: (value: T) => string): string[] =>
    value === undefined ? [] : [tell(value)];
  return [
    ...said(schedule, (rule) => rule),
    ...said(between, (window) => `between ${window}`),
    ...said(except, (files) => `not on the dates in ${files.join(' ')}`),
    ...((schedule ?? between ?? except) === undefined ? [] : said(timezone, (zone) => `by the clock of ${zone}`)),
    ...(reboot === true ? ['after each boot'] : []),
    ...said(after, (names) => `${linkWords.after} ${names.join(' ')}`),
    ...said(afterFailure, (names) => `${linkWords.afterFailure} ${names.join(' ')}`),
    ...said(always, (names) => `${linkWords.always} ${names.join(' ')}`),
    ...said(timeoutMs, (ms) => `timeout ${formatDuration(ms)}`),
    ...said(retries, (count) => countOf(count, 'retry', 'retries')),
    ...said(retryDelay, describeRetryDelay),
    ...said(onCrash, (policy) => `on crash ${policy}`),
    ...said(offline, (policy) => `${policy === 'run' ? 'runs' : 'waits'} while the database is away`),
    ...said(memoryBytes, (bytes) => `heap ${formatBytes(bytes)}`),
    ...said(warnRssBytes, (bytes) => `warn at ${formatBytes(bytes)}`),
    ...said(maxRssBytes, (bytes) => `end at ${formatBytes(bytes)}`),
    ...said(rssSustainMs, (ms) => `sustained ${formatDuration(ms)}`),
    ...said(maxOutputBytes, (bytes) => `keep ${formatBytes(bytes)} of output`),
    ...said(nice, (value) => `nice ${value}`),
    ...said(env, (names) => `env ${names.join(' ')}`),
    ...said(shell, (words) => `shell ${words.join(' ')}`),
    ...said(failOn, describeFailOn),
    ...said(expect, (patterns) => `expects ${patterns.map(describePattern).join(', ')}`),
    ...(isolate === true ? ['a process for each job'] : []),
    ...said(host, (patterns) => `on ${patterns.join(', ')}`),
    ...(everyHost === true ? ['on each machine'] : []),
    ...said(tags, (words) => `tags ${words.join(' ')}`),
  ];
}

function describeFailOn(patterns: readonly string[]): string {
  if (patterns.length === 0) return 'no warning of its output';
  return `fails on ${patterns.map(describePattern).join(', ')}`;
}

function describePattern(pattern: string): string {
  return pattern === KNOWN_SIGNS ? 'any known sign of a failure' : JSON.stringify(pattern);
}

function describeRetryDelay({ firstMs, factor, longestMs }: RetryDelay): string {
  const first = `retry after ${formatDuration(firstMs)}`;
  return factor === 1 ? first : `${first}, doubling up to ${formatDuration(longestMs)}`;
}

/** A run's warning in one line. */
export function describeWarning(warning: string): string {
  return `warning: ${printableLine(warning)}`;
}

/** The same where there is little room: that the exit code was 0 goes without saying. */
export function describeWarningInColumn(warning: string): string {
  return describeWarning(firstLine(warning.startsWith(DOUBT) ? warning.slice(DOUBT.length) : warning));
}

/**
 * One line that says why a run did not succeed: the error it threw, else how it ended and the last
 * line that it wrote.
 */
export function describeRunError(run: RunRecord, outputEnd: string): string | null {
  const { error } = run;
  if (error !== null) {
    const message = firstLine(error.message ?? error.stack ?? '');
    return [error.name && firstLine(error.name), message].filter(Boolean).join(': ') || null;
  }
  const reason = firstLine(run.reason ?? run.outcome);
  const line = lastLine(outputEnd);
  // The reason of a crash ends with that line.
  const isSaid = line === '' || reason.endsWith(line) || hasCause(run);
  return isSaid || isStackFrame(line) ? reason : `${reason}: ${line}`;
}

/** Whether its reason says more after the exit code: a known cause says more than the last line. */
function hasCause({ exitCode, reason }: RunRecord): boolean {
  if (exitCode === null || reason === null) return false;
  const exit = describeExit(exitCode, null);
  return [':', ','].some((mark) => reason.startsWith(`${exit}${mark}`));
}

/** Why a pass was skipped: `because the pass before it was still running (14:02 to 14:05)`. */
export function describeSkip({ heldBy, reason }: SkippedPass, clock: Clock): string {
  if (heldBy === null) return withInstants(printableLine(reason ?? 'no reason recorded'), clock.short);
  const { startedAtMs: from, finishedAtMs: to } = heldBy;
  const when = to === null ? `since ${clock.short(from)}` : spanOf(from, to, clock);
  return `because the pass before it was still running (${when})`;
}

/** A line that Node prints when its heap is full: ` 7: 0x7f1c2d node::Abort() [node]`. */
function isStackFrame(line: string): boolean {
  return /^\s*(?:#?\d+:? )?0x[0-9a-f]+\b|\[[^\]]*node\]$/.test(line);
}

/** In what a run was unlike those before it: `3.2× its usual 41s`, `orders: 3 instead of the usual 120`. */
export function describeDeviation(deviation: Deviation, clock: Clock): string {
  const { measure, name, value, usual, since } = deviation;
  const figure = (of: number): string => formatMeasured(measure, of);
  if (measure === 'creep') {
    const begun = since === null ? '' : ` since ${clock.short(since)}`;
    return `memory has grown from ${figure(usual)} to ${figure(value)}${begun}`;
  }
  const what = measure === 'count' ? `${printableLine(name)}: ` : wordOf[measure];
  const times = value / usual;
  if (times > 1 && Number.isFinite(times)) return `${what}${formatTimes(times)}× its usual ${figure(usual)}`;
  return `${what}${figure(value)} instead of its usual ${figure(usual)}`;
}

/** The figures in which a script's last run was unusual, without those that have risen for all its recent runs. */
export function describeUnusual(
  deviations: readonly Deviation[],
  { slower, heavier }: { readonly slower: unknown; readonly heavier: unknown },
  clock: Clock,
): string[] {
  const told = [...(slower ? ['duration'] : []), ...(heavier ? ['memory'] : [])];
  return deviations.filter(({ measure }) => !told.includes(measure)).map((each) => describeDeviation(each, clock));
}

const wordOf = { duration: '', memory: 'memory: ', output: 'output: ' } as const;

/** A sentence about a script's content that has changed since it last succeeded. */
export function describeChange({ changedAt, lastSuccessAt }: ContentChange, clock: Clock): string {
  const [changed, succeeded] = [clock.short(changedAt), clock.short(lastSuccessAt)];
  return `its content has changed: it last succeeded ${succeeded}, and the new content first ran ${changed}`;
}

/** `Job 12 (mail/welcome)`. */
function nameOfJob({ id, name }: Pick<Job, 'id' | 'name'>): string {
  return `Job ${id} (${printableLine(name)})`;
}

/** `Added job 12 (mail/welcome), due now.` */
export function describeAdded(job: Job, clock: Clock, nowMs: number): string {
  return `Added job ${job.id} (${printableLine(job.name)}), ${describeDue(job, clock, nowMs)}.`;
}

/** `due now`, `due 2026-12-24 18:00:00 (Europe/Berlin)`; of a child whose parent runs, what it waits for. */
function describeDue(job: Job, clock: Clock, nowMs: number): string {
  if (job.state === 'paused') return `waits until job ${job.parent} has finished`;
  const runAtMs = job.runAt.getTime();
  return runAtMs <= nowMs ? 'due now' : `due ${clock.dateTime(runAtMs)} (${clock.zone})`;
}

const changes: Readonly<Record<DuplicatePolicy, string>> = {
  keep: 'nothing was changed',
  replace: 'its data was replaced',
  merge: 'the data was merged into its own',
  'replace-all': 'it took what was given',
};

/**
 * Describes a job that had the unique key already.
 *
 * @param ignored options that the job did not take, as the user gave them: `--at`
 */
export function describeKept(
  job: Job,
  policy: DuplicatePolicy,
  isChanged: boolean,
  ignored: readonly string[],
): string {
  const isBusy = policy !== 'keep' && job.state === 'running';
  const kept = isBusy ? 'it is running, so nothing was changed' : changes.keep;
  const what = isChanged ? changes[policy] : kept;
  const rest = ignored.length === 0 || policy === 'keep' ? '' : ` Ignored: ${ignored.join(', ')}.`;
  return `${nameOfJob(job)} already has that unique key; ${what}.${rest}`;
}

/** `Job 12 (mail/welcome) is queued, due now.` */
export function describeJob(job: Job, clock: Clock, nowMs: number): string {
  return `${nameOfJob(job)} ${describeState(job, clock, nowMs)}.`;
}

function describeState(job: Job, clock: Clock, nowMs: number): string {
  const { state, reason, leasedUntil } = job;
  if (state === 'queued' || state === 'retrying') return `is ${state}, ${describeDue(job, clock, nowMs)}`;
  if (state === 'running' && leasedUntil !== null) {
    return `is running; its claim expires ${clock.dateTime(leasedUntil.getTime())} (${clock.zone})`;
  }
  if (state === 'paused') return 'is paused until its parent or children have ended';
  return state === 'failed' && reason !== null ? `is failed: ${firstLine(reason)}` : `is ${state}`;
}

/**
 * The pause that keeps a waiting job of the queue from running. A real pause comes before one that lets jobs fail,
 * because a paused job does not fail. Null: none does.
 */
export function findHold(pauses: readonly Pause[], job: Pick<Job, 'name' | 'state'>): Pause | null {
  if (!isWaiting(job.state)) return null;
  const name = `${WHOLE_QUEUE}/${job.name}`;
  const ofKind = (wanted: PauseKind) => pauses.filter(({ kind }) => kind === wanted);
  return findPause(ofKind('pause'), name) ?? findPause(ofKind('fail-fast'), name);
}

const eventWords: Readonly<Record<ActivityEvent, string>> = {
  'worker-started': 'worker started',
  'worker-skipped': 'pass skipped',
  'worker-finished': 'worker finished',
  'worker-crashed': 'worker died',
  'lock-taken-over': 'lock taken over',
  'lock-lost': 'lock lost',
  'run-started': 'started',
  'run-orphaned': 'runs on without its worker',
  'run-stop-requested': 'stop asked for',
  'job-queued': 'queued',
  'job-paused': 'waits for its children',
  'job-finished': 'finished',
  'job-retrying': 'to be tried again',
  'job-released': 'given back',
  'job-failed': 'failed',
  'job-cancelled': 'cancelled',
  'job-buried': 'buried',
  'job-deferred': 'deferred',
  'job-kicked': 'made due now',
  'job-updated': 'updated',
  'job-added': 'added',
  'job-claimed': 'claimed',
  'job-ended': 'ended by its caller',
  'job-requeued': 'queued anew',
  'job-deleted': 'deleted',
  'job-imported': 'imported',
  'job-lease-expired': 'its claim expired',
  paused: 'paused',
  resumed: 'resumed',
  muted: 'muted',
  unmuted: 'unmuted',
  'incident-acknowledged': 'acknowledged',
  'incident-closed': 'closed',
  'run-requested': 'run asked for',
  'log-quarantined': 'log quarantined',
  'log-pruned': 'log pruned',
  'alert-undelivered': 'alert not delivered',
  'spool-replayed': 'spool replayed',
};

/** All events of the activity. */
export const activityEvents = Object.keys(eventWords) as ActivityEvent[];

/** The event in words. A code written by plain SQL may be unknown, and stands for itself. */
export function describeEvent(event: ActivityEvent): string {
  return eventWords[event] ?? printableLine(event);
}
