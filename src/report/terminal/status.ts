import type { Waiter } from '../../queue/claim/waiters.ts';
import { guessPeriodName } from '../../schedule/period.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import {
  countOf,
  describePace,
  describeRises,
  formatBytes,
  formatCount,
  formatDuration,
  formatElapsed,
  formatPeriod,
  UNKNOWN,
} from '../../system/base/format.ts';
import { printableLine, withInstants } from '../../system/base/text.ts';
import { shellWord } from '../../system/base/values.ts';
import { describeWait } from '../../system/base/wait-words.ts';
import { machineName } from '../../system/process/identity.ts';
import type { NextTime } from '../model/next/next-times.ts';
import type { RunningRun } from '../model/runs/run.ts';
import {
  describeSpooled,
  isQueueQuiet,
  type PacedQueue,
  type QueueCounts,
  type Status,
  type StatusRun,
  type UnhandledName,
} from '../model/status.ts';
import type { TierHolder, TierState, WaitingScriptJob } from '../model/tier.ts';
import type { Verdict } from '../model/verdict.ts';
import { describeNext, describeSchedule } from '../text/next-time.ts';
import { describePaused, describeResume, nameOfPaused } from '../text/words.ts';
import { renderOpenIncidents } from './incidents.ts';
import type { Screen } from './screen.ts';
import { type Column, drawTable, fitColumns, joinBlocks, joinFitting, renderTable, wrap } from './table.ts';

/** How things stand, as blocks of lines; what there is nothing of is left out. */
export function renderStatus(status: Status, screen: Screen): string {
  return joinBlocks([
    renderVerdict(status.verdict, screen),
    renderOpenIncidents(status.incidents, screen),
    renderRisen(status, screen),
    renderRunning(status, screen),
    renderWaiting(status, screen),
    renderQueue(status.queue, screen),
    renderPauses(status.pauses, screen),
    renderDisabled(status.disabled, screen),
    renderTiers(status, screen),
    renderNextTimes(status.scheduled, screen),
    renderNotes(status, screen),
  ]);
}

const levelPaints = { good: 'good', waiting: 'live', paused: 'warning', warning: 'warning', bad: 'bad' } as const;

/** `2 scripts are failing · since 3 Nov 14:03` */
function renderVerdict({ level, title, sinceMs }: Verdict, { palette, clock, columns }: Screen): string[] {
  const parts = [title, ...(sinceMs === null ? [] : [`since ${clock.short(sinceMs)}`])];
  return joinFitting(parts, columns).map(palette[levelPaints[level]]);
}

/** How much there is of each block, for a screen that has no room for all; nothing where nothing goes on. */
export function renderSummary({ incidents, running, waiting, queue, pauses }: Status, screen: Screen): string[] {
  const { ready, failed } = queue.counts;
  const of = (count: number, text: string): string[] => (count === 0 ? [] : [text]);
  const parts = [
    ...of(incidents.length, countOf(incidents.length, 'open incident')),
    ...of(running.length, `${formatCount(running.length)} running`),
    ...of(waiting.length, `${formatCount(waiting.length)} waiting`),
    ...of(ready, `${countOf(ready, 'job')} ready`),
    ...of(failed, `${countOf(failed, 'job')} failed`),
    ...of(pauses.length, countOf(pauses.length, 'pause')),
  ];
  if (parts.length === 0) return [];
  const { bad, live } = screen.palette;
  return [...joinFitting(parts, screen.columns).map(incidents.length > 0 ? bad : live), ''];
}

function renderRunning(status: Status, screen: Screen): string[] {
  const { running, holders } = status;
  const isIdle = ({ tier }: TierHolder): boolean =>
    !running.some(({ script }) => script === tier || script.startsWith(`${tier}/`));
  const idle = holders.filter(isIdle);
  if (running.length + idle.length === 0) return [describeQuiet(status)];
  const { palette } = screen;
  return [
    palette.bold('running'),
    ...running.flatMap((run) => entry(describeRun(run, screen), screen, paintOf(run, screen))),
    ...idle.flatMap((holder) => entry(describeIdle(holder), screen, palette.live)),
  ];
}

function renderRisen({ risen }: Status, screen: Screen): string[] {
  const { palette, clock } = screen;
  const lines = risen
    .slice(0, MOST_NAMES)
    .flatMap(({ script, ...rises }) =>
      entry([printableLine(script), ...describeRises(rises, clock.short)], screen, palette.warning),
    );
  const rest = risen.length - MOST_NAMES;
  const more = rest > 0 ? entry([`${countOf(rest, 'more script')}: \`npx folder-runner report\``], screen, same) : [];
  return risen.length === 0 ? [] : [palette.bold('slower than usual'), ...lines, ...more];
}

function describeQuiet({ waiting, queue, isLogUnread, spooledRuns }: Status): string {
  if (isLogUnread) return 'Unknown without the log: what is running and what is waiting.';
  const { ready, delayed, running, paused } = queue.counts;
  if (running > 0) return 'Nothing is running except externally claimed jobs.';
  if (waiting.length + ready + delayed + paused > 0) return 'Nothing is running.';
  return spooledRuns > 0
    ? 'Nothing is running or waiting, according to the log.'
    : 'Nothing is running, nothing is waiting.';
}

function describeIdle({ tier, kind }: TierHolder): string[] {
  const what = kind === null ? 'works without the log' : 'begins, waits or ends';
  return [printableLine(tier), what];
}

function paintOf({ liveness, isOrphan }: StatusRun, { palette }: Screen) {
  if (liveness === 'dead') return palette.bad;
  return isOrphan ? palette.warning : palette.live;
}

function describeRun(run: StatusRun, { clock, nowMs }: Screen): string[] {
  const usual = run.usualDurationMs === null ? '' : `, usually ${formatDuration(run.usualDurationMs)}`;
  return [
    printableLine(run.script),
    `for ${formatElapsed(nowMs - run.startedAtMs)}${usual}`,
    describeLiveness(run),
    run.attempt > 1 ? `try ${run.attempt}` : '',
    run.maxRssBytes === null ? '' : formatBytes(run.maxRssBytes),
    `since ${clock.short(run.startedAtMs)}`,
    run.pid === null ? '' : `pid ${run.pid}`,
    `run ${run.id}`,
  ].filter(Boolean);
}

function renderWaiting({ waiting }: Status, screen: Screen): string[] {
  if (waiting.length === 0) return [];
  const lines = waiting.flatMap((job) => entry(describeWaiting(job, screen), screen, same));
  return [screen.palette.bold('waiting'), ...lines];
}

function describeWaiting(job: WaitingScriptJob, screen: Screen): string[] {
  const reason = job.reason === null || job.state === 'linked' ? '' : printableLine(job.reason);
  return [printableLine(job.script), tellWait(job, screen), reason].filter(Boolean);
}

function renderDisabled(disabled: readonly string[], screen: Screen): string[] {
  const lines = disabled
    .map(printableLine)
    .flatMap((name) =>
      entry([name, `\`npx folder-runner enable ${shellWord(name)}\` ends it`], screen, screen.palette.warning),
    );
  return lines.length === 0 ? [] : [screen.palette.bold('disabled'), ...lines];
}

export const NO_TIERS =
  'There is no tier in jobs/ yet: `npx folder-runner init` creates some, `npx folder-runner new` one with a script.';

function renderTiers(status: Status, screen: Screen): string[] {
  const { tiers } = status;
  if (tiers.length === 0) return wrap(NO_TIERS, screen.columns);
  const columns: readonly Column<TierState>[] = [
    {
      title: 'tier',
      text: (state) => printableLine(state.tier),
      shrinks: { first: 24, last: 8 },
      isName: true,
    },
    { title: 'last pass', text: (state) => lastPassOf(state, screen) },
    {
      title: 'next',
      text: (state) => nextOf(state, status, screen),
      paint: (text, state) => paintNext(text, state, screen),
      shrinks: { first: 30, last: 10 },
    },
  ];
  return drawTable(columns, tiers, screen);
}

function lastPassOf({ lastPass }: TierState, { clock }: Screen): string {
  if (lastPass === null) return UNKNOWN;
  const crashed = lastPass.state === 'crashed' ? ', crashed' : '';
  return clock.short(lastPass.startedAtMs) + crashed;
}

function nextOf(state: TierState, { isLogUnread }: Status, screen: Screen): string {
  const { clock, nowMs } = screen;
  if (state.holder !== null) return describeHolder(state.holder, screen);
  if (state.pause !== null) return describePaused(state.pause, state.tier, clock);
  if (state.periodMs === null && state.expected === null) return describeByHand(state.tier);
  if (isLogUnread) return UNKNOWN;
  const { expected, isInCrontab, lastScheduledCallMs } = state;
  if (state.isUncalled) return 'no crontab line calls it';
  if (expected === null)
    return isInCrontab ? 'by its crontab line' : `never called by cron (${formatPeriod(state.periodMs ?? 0)})`;
  const { atMs, isOverdue } = expected;
  if (isOverdue) return `overdue since ${clock.short(atMs)}: cron has not called it`;
  if (state.dueAgainFor !== null) return 'with the next call of `npx folder-runner due`';
  if (atMs <= nowMs) return `due since ${clock.short(atMs)}`;
  const first = lastScheduledCallMs === null ? ' (first call)' : '';
  return `${clock.short(atMs)}, in ${formatElapsed(Math.max(0, atMs - nowMs))}${first}`;
}

function describeByHand(tier: string): string {
  const guess = guessPeriodName(tier);
  return guess === null ? 'runs by hand' : `cron cannot call it; did you mean ${guess}?`;
}

/** `running: pid 4711 on web3, since 3 Nov 14:03` */
function describeHolder(holder: TierHolder, { clock }: Screen): string {
  const what = {
    tier: 'running',
    script: 'one script by hand',
    backlog: 'its backlog',
    queue: 'jobs of the queue',
  };
  const who = `pid ${holder.pid} on ${printableLine(holder.host)}`;
  return `${holder.kind === null ? 'without the log' : what[holder.kind]}: ${who}, since ${clock.short(holder.sinceMs)}`;
}

function paintNext(text: string, state: TierState, { palette }: Screen) {
  const { holder, pause, isOverdue, isUncalled } = state;
  if (holder !== null) return palette.live(text);
  if (pause !== null || isOverdue || isUncalled) return palette.warning(text);
  return text;
}

/** When scripts run next that have times of their own; nothing where there are none. */
function renderNextTimes(times: readonly NextTime[], { palette, clock, nowMs, columns }: Screen): string[] {
  if (times.length === 0) return [];
  const fitted = fitColumns<NextTime>(
    [
      { title: 'script', text: ({ script }) => printableLine(script), shrinks: { first: 24, last: 12 } },
      {
        title: 'next',
        text: (time) => describeNext(time, clock, nowMs),
        paint: (text, { atMs }) => (atMs !== null && atMs <= nowMs ? palette.warning(text) : text),
        shrinks: { first: 34, last: 12 },
      },
      { title: 'schedule', rank: 1, text: describeWhen, shrinks: { first: 24, last: 16 } },
    ],
    times,
    columns,
  );
  return renderTable(fitted, times, { palette, indent: '' });
}

function describeWhen(time: NextTime): string {
  const boot = time.isAfterBoot ? 'after each boot' : '';
  return [describeSchedule(time), boot].filter(Boolean).join('; ');
}

function renderNotes({ spooledRuns, quarantinedLogs, tiers, differences }: Status, screen: Screen): string[] {
  const unpaused = tiers.filter(({ pause }) => pause === null);
  const isLate = ({ isOverdue, isUncalled }: TierState): boolean => isOverdue && !isUncalled;
  const notes = [
    ...differences.map(printableLine),
    unpaused.some(({ isUncalled }) => isUncalled)
      ? '`npx folder-runner cron --install` writes a crontab line for each tier.'
      : '',
    unpaused.some(isLate) ? '`npx folder-runner doctor` checks why cron does not call.' : '',
    spooledRuns > 0 ? describeSpooled(spooledRuns) : '',
    quarantinedLogs.length > 0
      ? `${countOf(quarantinedLogs.length, 'broken log')} quarantined in .runner/: ${quarantinedLogs.map(printableLine).join(', ')}`
      : '',
  ];
  const zone = screen.palette.dim(`times in ${screen.clock.zone}`);
  const lines = notes.filter(Boolean).flatMap((note) => wrap(note, screen.columns));
  return [...lines.map(screen.palette.warning), zone];
}

const same = (text: string): string => text;

/** How the queue stands; nothing where there is nothing to tell. */
export function renderQueue(status: PacedQueue, screen: Screen): string[] {
  if (isQueueQuiet(status)) return [];
  const { counts, workers, idleWorkers, waiting, withoutHandler, pace } = status;
  const { palette } = screen;
  const idle = idleWorkers === 0 ? '' : ` (${formatCount(idleWorkers)} idle)`;
  const work = workers === 0 ? 'no worker' : countOf(workers, 'worker') + idle;
  return [
    palette.bold('queue'),
    ...entry([...describeCounts(counts), work], screen, same),
    ...(pace === null ? [] : entry([describePace(pace)], screen, palette.warning)),
    ...renderWaiters(waiting, screen),
    ...renderWithoutHandler(withoutHandler, screen),
  ];
}

function describeCounts(counts: QueueCounts): string[] {
  const said = Object.entries(counts).filter(([, count]) => count > 0);
  return said.map(([state, count]) => `${formatCount(count)} ${state}`);
}

/** More would drown the rest. */
const MOST_NAMES = 10;

/** `pid 4711 waits for mail/*, export`, `since 3 Nov 14:03`. */
function renderWaiters(waiting: readonly Waiter[], screen: Screen): string[] {
  const here = machineName();
  const shown = waiting.slice(0, MOST_NAMES).map(({ host, pid, patterns, sinceMs }) => {
    const who = host === here ? `pid ${pid}` : `pid ${pid} on ${printableLine(host)}`;
    const what = printableLine(patterns.join(', '));
    return [`${who} waits for ${what === '*' ? 'any job' : what}`, `since ${screen.clock.short(sinceMs)}`];
  });
  const rest = waiting.length - shown.length;
  const more = rest === 0 ? [] : [[`${formatCount(rest)} more wait for jobs`]];
  return [...shown, ...more].flatMap((parts) => entry(parts, screen, same));
}

function renderWithoutHandler(names: readonly UnhandledName[], screen: Screen): string[] {
  const shown = names.slice(0, MOST_NAMES).map(describe);
  const rest = names.length - shown.length;
  const more = rest === 0 ? [] : [`${countOf(rest, 'more name')} without a handler here`];
  return [...shown, ...more].flatMap((text) => entry([text], screen, screen.palette.warning));
}

function describe({ name, jobs, nearest }: UnhandledName): string {
  const guess = nearest === null ? '' : `; did you mean ${printableLine(nearest)}?`;
  return `${printableLine(name)}: ${countOf(jobs, 'job')} without a handler here${guess}`;
}

/** Renders the pauses and their ends; nothing if nothing is paused. */
export function renderPauses(pauses: readonly Pause[], screen: Screen): string[] {
  if (pauses.length === 0) return [];
  const { palette } = screen;
  const lines = pauses.flatMap((pause) => entry(describePause(pause, screen), screen, palette.warning));
  return [palette.bold('paused'), ...lines];
}

/** `mail/*`, `fails when it is due`, `until 3 Nov 16:00`, `by ada`, `` `runner resume 'mail/*'` ends it ``. */
export function describePause(pause: Pause, { clock }: Pick<Screen, 'clock'>): string[] {
  const until = pause.until === null ? 'until resumed' : `until ${clock.short(pause.until)}`;
  const failFast = pause.kind === 'fail-fast' ? ['fails when it is due'] : [];
  const by = pause.by === null ? [] : [`by ${printableLine(pause.by)}`];
  return [nameOfPaused(pause), ...failFast, until, ...by, `\`${describeResume(pause)}\` ends it`];
}

const INDENT = '  ';

/** One thing: its name, and what there is to say of it, on further lines where there is no room. */
export function entry(parts: readonly string[], { columns }: Screen, paint: (text: string) => string): string[] {
  const room = columns - 2 * INDENT.length;
  return joinFitting(parts, room).map((line, index) => INDENT + (index === 0 ? '' : INDENT) + paint(line));
}

/** A note about a running run, limited to what can be seen from here; '' for none. */
export function describeLiveness({ isOrphan, liveness, host, hasResult }: RunningRun): string {
  if (liveness === 'dead') {
    return hasResult ? 'has ended; the next pass records how' : 'cut off: its process is gone';
  }
  if (liveness === 'alive') return isOrphan ? 'still running, although its runner is gone' : '';
  return `${isOrphan ? 'may still be running, ' : ''}on ${printableLine(host)}`;
}

/** How a script's job waits, by the clock of the screen. */
export function tellWait(job: WaitingScriptJob, { clock, nowMs }: Pick<Screen, 'clock' | 'nowMs'>): string {
  return withInstants(printableLine(describeWait(job, nowMs, clock.short)), clock.short);
}
