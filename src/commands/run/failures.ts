import { createHash } from 'node:crypto';
import { closeSync, constants, futimesSync, lstatSync, openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { toFinishedRun } from '../../execution/result/result.ts';
import type { UnsentMail } from '../../monitor/alert/deliver.ts';
import { type AlertMessage, afterHowLong, type IncidentDetail } from '../../monitor/alert/message.ts';
import type { PrintedIncident } from '../../monitor/alert/tell.ts';
import { fingerprintOf } from '../../queue/settle/incidents.ts';
import { type Clock, createClock } from '../../report/text/clock.ts';
import type { Runner } from '../../settings/settings.ts';
import { openExistingStore } from '../../store/open.ts';
import { describeEnding, isOfRuns, type Outcome, SUSPECT } from '../../store/words.ts';
import { now } from '../../system/base/clock.ts';
import { countOf, formatDuration } from '../../system/base/format.ts';
import { printable, printableLine, printableOutput } from '../../system/base/text.ts';
import { commandIn, listNames, pageAt } from '../../system/base/values.ts';
import { createFallbackStateFolder, fallbackStateFoldersOf, trustedFallbacksOf } from '../../system/place/fallback.ts';
import type { StateFolder } from '../../system/place/state-folder.ts';
import { machineName } from '../../system/process/identity.ts';
import type { RunFinished } from '../../worker/invocation/invocation.ts';
import type { CommandContext } from '../shared/context.ts';

/** The events of a call to report on stderr, which cron mails. */
interface CallFailures {
  readonly runs: number;
  readonly failures: number;
  /** Number of runs with a warning that did not fail. */
  readonly warned: number;
  /** The first failed runs. */
  readonly failed: readonly RunFinished[];
  /** All that ran. */
  readonly scripts: ReadonlySet<string>;
  /** By their jobs, those told of that nothing has followed yet: a next try of them is still to come. */
  readonly awaiting: ReadonlyMap<number | string, RunFinished>;
  /** The news of the log's incidents; null: each failure is reported. */
  readonly incidents: readonly PrintedIncident[] | null;
  /** Alerts that a mail channel could not send, so that cron's mail has to. */
  readonly unsent: readonly UnsentMail[];
  /** Whether the log may lack what has failed: then there is no incident of it. */
  readonly isLogTroubled: boolean;
}

/** Writes it to stderr, as one text. */
export async function tellFailures(context: CommandContext, runner: Runner, call: CallFailures): Promise<void> {
  const blocks = call.incidents === null ? await describeAll(runner, call) : await describeNews(runner, call);
  if (blocks.length === 0) return;
  context.stderr.write(`${blocks.join('\n\n')}\n`);
}

/** Each run that failed. */
async function describeAll(runner: Runner, call: CallFailures): Promise<string[]> {
  const { failures, failed } = call;
  if (failures === 0) return [];
  const removed = await findRemovedRuns(runner, failed);
  const blocks = failed.map((run) => describeFailure(viewOf(run, removed.has(run), isAwaiting(run, call)), runner));
  const rest =
    failures > failed.length ? [`${failures - failed.length} more: ${commandIn(runner.root, 'report')}`] : [];
  return [headOf(runner, call), ...blocks, ...rest];
}

/** Most incidents that are reported with their runs' output. */
const MOST_TOLD = 100;

/** The news of the log's incidents, and the failures that the log does not know. */
async function describeNews(runner: Runner, call: CallFailures): Promise<string[]> {
  const incidents = [...(call.incidents ?? []), ...call.unsent.flatMap(({ message }) => toPrinted(message))];
  const clock = createClock(runner.now());
  const unlogged = await findUnlogged(runner, call);
  const isOfRun = ({ news, incident }: PrintedIncident) => news === 'opened' && !isFinding(incident);
  const opened = incidents.filter(isOfRun);
  const later = incidents.filter((each) => !isOfRun(each));
  const first = [
    ...unlogged.map((run) => describeFailure(viewOf(run, false, isAwaiting(run, call)), runner)),
    ...opened.slice(0, MOST_TOLD).map(({ incident }) => describeIncident(incident, clock, runner)),
    ...(opened.length > MOST_TOLD ? [`${opened.length - MOST_TOLD} more: ${commandIn(runner.root, 'incidents')}`] : []),
  ];
  const blocks = [
    ...first,
    ...later.map((each) => (isFinding(each.incident) ? describeFinding : describeLater)(each, clock, runner)),
  ];
  blocks.push(...call.unsent.map(describeUnsent));
  if (blocks.length === 0) return [];
  const hasWarnings = call.warned > 0 && opened.some(({ incident }) => incident.code === SUSPECT);
  if (first.length === 0 || (call.failures === 0 && !hasWarnings)) {
    return [`runner: ${nameNews(incidents)} ${placeOf(runner)}`, ...blocks];
  }
  const described = runsOf(incidents);
  const others = call.failed.filter((run) => !unlogged.includes(run) && !described.has(run.runId));
  return [headOf(runner, call), ...blocks, ...nameOthers(others, call)];
}

/** Failed runs that the head counts, and that no block describes. */
function nameOthers(runs: readonly RunFinished[], call: CallFailures): string[] {
  if (runs.length === 0) return [];
  const names = runs.map((run) => {
    const isRetried = run.nextTryAt !== null && isAwaiting(run, call);
    return `${printableLine(run.script)} (${isRetried ? 'will be retried' : 'as before'})`;
  });
  return [`Also failed: ${[...new Set(names)].join(', ')}.`];
}

/** The incidents of an alert message, in the form of cron's mail. */
function toPrinted({ event, incidents }: AlertMessage): PrintedIncident[] {
  return incidents.map((incident) => {
    if (incident.recoveredAt !== null) return { news: 'recovered', incident };
    return { news: event === 'reminder' ? 'reminder' : 'opened', incident };
  });
}

function describeUnsent({ channel, reason }: UnsentMail): string {
  return `The alert channel ${printableLine(channel)} could not send this mail, and tries it again: ${printableLine(reason)}`;
}

function nameNews(incidents: readonly PrintedIncident[]): string {
  if (incidents.every(({ incident }) => isFinding(incident))) return 'findings of checks';
  const areWarnings = incidents.every(({ incident }) => incident.code === SUSPECT);
  return `${areWarnings ? 'warnings' : 'failures'} and recoveries`;
}

const runsOf = (incidents: readonly PrintedIncident[]): ReadonlySet<number | null> =>
  new Set(incidents.map(({ incident }) => incident.lastRun?.id ?? null));

/** Failures that have no incident, because the log does not know them. Equal failures are reported once a day. */
async function findUnlogged(runner: Runner, call: CallFailures): Promise<readonly RunFinished[]> {
  const told = runsOf(call.incidents ?? []);
  const unlogged = call.failed.filter(({ runId }) => runId === null || (call.isLogTroubled && !told.has(runId)));
  if (unlogged.length === 0) return [];
  return unlogged.filter(({ script, end }) => isNewToMail(runner, `${script} ${fingerprintOf(toFinishedRun(end))}`));
}

function headOf(runner: Runner, { failures, warned, runs, scripts }: CallFailures): string {
  const names = nameRuns(scripts, runs);
  if (failures === 0) return `runner: ${warned} of ${runs} ${names} succeeded with a warning ${placeOf(runner)}`;
  const also = warned === 0 ? '' : `, ${warned} succeeded with a warning`;
  return `runner: ${failures} of ${runs} ${names} did not succeed${also} ${placeOf(runner)}`;
}

function placeOf({ root }: Runner): string {
  return `(${root} on ${machineName()})`;
}

/** A script whose next try was made in the same call has run twice. */
function nameRuns(scripts: ReadonlySet<string>, runs: number): string {
  const tiers = new Set([...scripts].map((script) => script.split('/', 1)[0]));
  const hasJobs = tiers.delete('queue');
  const names = [...(tiers.size > 0 ? [[...tiers].join(', ')] : []), ...(hasJobs ? ['the queue'] : [])].join(' and ');
  return `${scripts.size === runs && tiers.size > 0 ? 'scripts' : 'runs'} of ${names}`;
}

/** The facts about a failed run to report. */
interface FailureView {
  readonly script: string;
  readonly jobId: number | null;
  readonly runId: number | null;
  /** Null: its run is gone. */
  readonly outcome: Outcome | null;
  readonly durationMs: number | null;
  readonly reason: string;
  readonly output: string;
  /** Sentences about its tries. */
  readonly tries: readonly string[];
  /** Went with its job, as the settings ask for. */
  readonly isRemoved: boolean;
}

function isAwaiting(run: RunFinished, { awaiting }: CallFailures): boolean {
  return awaiting.get(run.jobId ?? run.script) === run;
}

function viewOf({ script, jobId, runId, end, nextTryAt }: RunFinished, isRemoved: boolean, isAwaiting: boolean) {
  const who = script.startsWith('queue/') ? 'worker' : 'pass of any tier';
  const nextTry = (at: number) =>
    `  will be retried by the next ${who}, ${formatDuration(Math.max(0, at - now()))} from now or later`;
  const tries = nextTryAt === null ? [] : [isAwaiting ? nextTry(nextTryAt) : '  tried again meanwhile'];
  const { outcome, durationMs, reason, output } = end;
  return { script, jobId, runId, outcome, durationMs, reason: reason ?? '', output: output.text, tries, isRemoved };
}

const LAST_LINES = 20;

function describeFailure(run: FailureView, runner: Runner): string {
  const { script, jobId, outcome, tries, isRemoved } = run;
  const reason = printable(run.reason).replaceAll('\n', '\n  ');
  const lines = printableOutput(run.output).trimEnd().split('\n').slice(-LAST_LINES);
  const none = outcome === 'not-started' || outcome === null ? [] : ['(no output)'];
  const output = lines.join('') === '' ? none : lines;
  return [
    `${printableLine(script)}${jobId === null ? '' : ` (job ${jobId})`} ${describeHow(run, reason)}`,
    ...output.map((line) => `  | ${line}`),
    ...tries,
    ...(isRemoved ? ['  no more is kept of it: queue.archive'] : whereToLook(run, runner)),
  ].join('\n');
}

/** "failed after 5ms: exit code 3", "timed out after 5s (limit 5s), ended with SIGTERM" */
function describeHow({ outcome, durationMs }: FailureView, reason: string): string {
  if (outcome === null) return `failed: ${reason}`;
  // Its reason says why it was ended and, unless its runner had died, how long it took.
  if (outcome === 'timed-out') return reason;
  return `${outcome} after ${formatDuration(durationMs)}: ${reason}`;
}

function describeIncident(incident: IncidentDetail, clock: Clock, runner: Runner): string {
  const { subject, lastRun, occurrences, openedAt, error, output, changed } = incident;
  const how = incident.code === SUSPECT ? 'succeeded with a warning' : 'failed';
  const times = `  ${how} ${countOf(occurrences, 'time')} since ${clock.short(openedAt)}`;
  return describeFailure(
    {
      ...{ script: subject, jobId: lastRun?.jobId ?? null, runId: lastRun?.id ?? null },
      ...{ outcome: lastRun?.outcome ?? null, durationMs: lastRun?.durationMs ?? null },
      ...{
        reason: error ?? '',
        output: output ?? '',
        tries: [...(occurrences > 1 ? [times] : []), ...(changed === null ? [] : [`  ${changed}`])],
      },
      isRemoved: lastRun === null && subject.startsWith('queue/'),
    },
    runner,
  );
}

function describeLater({ news, incident }: PrintedIncident, clock: Clock, { root }: Runner): string {
  const { id, subject, code, occurrences, openedAt, error, command, page } = incident;
  const ending = describeEnding(incident);
  const [what, still, again] =
    code === SUSPECT
      ? (['warning', 'still succeeds with a warning', 'succeeds without a warning'] as const)
      : (['failure', 'still fails', 'succeeds again'] as const);
  const since = `${countOf(occurrences, what)} since ${clock.short(openedAt)}`;
  const name = printableLine(subject);
  if (ending !== null) return `${name}: ${ending}, after ${since}`;
  if (news === 'recovered') return `${name} ${again}, after ${since}`;
  return [
    `${name} ${still}, ${since}: ${printable(error ?? '').replaceAll('\n', '\n  ')}`,
    `  full output: ${command}`,
    ...linesOfPage(page),
    `  to stop these reminders: ${commandIn(root, `acknowledge ${id}`)}`,
  ].join('\n');
}

/** Whether a check opened the incident; otherwise failing runs did. */
function isFinding({ code }: IncidentDetail): boolean {
  return !isOfRuns(code);
}

/** The message of a check usually names its subject; its command is the cure. */
function describeFinding({ news, incident }: PrintedIncident, clock: Clock, { root }: Runner): string {
  const { id, subject, code, openedAt, error, command, page } = incident;
  const ending = describeEnding(incident);
  if (news === 'recovered') {
    return `${code}: over${afterHowLong(incident)} (${printableLine(subject)}${ending === null ? '' : `, ${ending}`})`;
  }
  const since = news === 'reminder' ? ` since ${clock.short(openedAt)}` : '';
  return [
    `${code}${since}: ${printableLine(error ?? subject)}`,
    `  ${printableLine(command)}`,
    ...linesOfPage(page),
    ...(news === 'reminder' ? [`  to stop these reminders: ${commandIn(root, `acknowledge ${id}`)}`] : []),
  ].join('\n');
}

/** Commands that show the run and its job; none for a run that is not in the log yet. */
function whereToLook({ runId, jobId }: Pick<FailureView, 'runId' | 'jobId'>, { root, settings }: Runner): string[] {
  const run = runId === null ? [] : [`  full output: ${commandIn(root, `show ${runId}`)}`];
  const job = jobId === null ? [] : [`  its job: ${commandIn(root, `job ${jobId}`)}`];
  return [...run, ...linesOfPage(runId === null ? null : pageAt(settings.web.url, 'runs', runId)), ...job];
}

function linesOfPage(page: string | null): string[] {
  return page === null ? [] : [`  page: ${printableLine(page)}`];
}

/** Finds the runs that were removed with their jobs, as the settings ask for. */
async function findRemovedRuns(
  { state, settings }: Runner,
  runs: readonly RunFinished[],
): Promise<ReadonlySet<RunFinished>> {
  const ids = runs.flatMap(({ runId, jobId }) => (runId === null ? [] : (jobId ?? [])));
  if (Object.keys(settings.queue.archive).length === 0 || ids.length === 0) return new Set();
  const store = await openExistingStore(state).catch(() => null);
  if (store === null) return new Set();
  const jobs = await store.jobs.byId(ids).finally(() => store.close());
  const kept = new Set(jobs.map(({ id }) => id));
  return new Set(runs.filter(({ runId, jobId }) => runId !== null && jobId !== null && !kept.has(jobId)));
}

type Mailer = Pick<Runner, 'root' | 'state' | 'now'> & { readonly settings: Pick<Runner['settings'], 'alerts'> };

/**
 * Whether this is news to cron's mail, which has not had it for a day (`alerts.remind`). Notes beside the log that the
 * mail gets it now: the log itself may be out of order.
 *
 * @param what identifies the message: two equal ones count as one
 * @returns true if it cannot be recorded: better two mails than none
 */
export function isNewToMail({ root, state, now, settings }: Mailer, what: string): boolean {
  const note = { name: PREFIX + hashOf(what), at: now(), validMs: settings.alerts.remindMs };
  try {
    if ([state, ...trustedFallbacksOf(root)].some(({ cache }) => isValid(join(cache, note.name), note))) return false;
    if (!tryNote(state, note)) fallbackStateFoldersOf(root).some((place) => tryNote(place, note, true));
  } catch {
    // The root itself may be gone: then there is nowhere to note it.
  }
  return true;
}

/** The same of a sentence on what is wrong with the log: the numbers in it do not matter. */
export function isNewTrouble(runner: Mailer, sentence: string): boolean {
  return isNewToMail(runner, sentence.replace(numbers, '0'));
}

/** Process ids, times and sizes are other ones each time; those that names begin with, as of tiers, are no numbers. */
const numbers = /(?<![\w./])\d+(?!\d|min\b|hours\b|days\b)/g;

/** An empty file, for which a full disk mostly has room; its time is when it was told. */
interface Note {
  readonly name: string;
  /** UTC epoch milliseconds. */
  readonly at: number;
  readonly validMs: number;
}

const PREFIX = 'mailed-';

function hashOf(what: string): string {
  return createHash('sha256').update(what).digest('hex').slice(0, 16);
}

/** @returns whether it is noted there */
function tryNote(place: StateFolder, note: Note, isFallback = false): boolean {
  const { cache } = place;
  try {
    if (isFallback) createFallbackStateFolder(place);
    const others = listNames(cache).filter((name) => name.startsWith(PREFIX) && name !== note.name);
    for (const name of others) if (!isValid(join(cache, name), note)) rmSync(join(cache, name), { force: true });
    touch(join(cache, note.name), note.at);
    return true;
  } catch {
    // The next place is tried.
    return false;
  }
}

function touch(path: string, at: number): void {
  const { O_CREAT, O_WRONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const file = openSync(path, O_CREAT | O_WRONLY | O_NOFOLLOW | O_NONBLOCK, 0o600);
  try {
    futimesSync(file, at / 1000, at / 1000);
  } finally {
    closeSync(file);
  }
}

/** After a clock was set back a time may be to come: that does not count. */
function isValid(path: string, { at, validMs }: Note): boolean {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  return stats?.isFile() === true && Math.floor(stats.mtimeMs) <= at && at - stats.mtimeMs < validMs;
}
