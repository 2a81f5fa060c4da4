import type { Job, JobCount, JobTotals } from '../../queue/api.ts';
import type { JobCounters } from '../../store/statements/list-jobs.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import type { JobState } from '../../store/words.ts';
import { writeExactly } from '../../system/base/exact-json.ts';
import {
  countOf,
  describePace,
  formatCount,
  formatDuration,
  formatElapsed,
  UNKNOWN,
} from '../../system/base/format.ts';
import { firstLine, printable, printableLine, withInstants } from '../../system/base/text.ts';
import { HOUR_MS } from '../../system/base/values.ts';
import type { Activity, JobActivity } from '../model/activity.ts';
import type { JobChild, JobList, JobStory } from '../model/jobs.ts';
import type { UpcomingJob } from '../model/next/upcoming-jobs.ts';
import type { JobPace, QueuePace } from '../model/pace.ts';
import { describeEvent, describeWarningInColumn, findHold } from '../text/words.ts';
import { renderRunTable } from './runs.ts';
import type { Palette, Screen } from './screen.ts';
import { describePause, renderPauses } from './status.ts';
import { type Column, drawFacts, drawTable, type Fact, joinBlocks, joinFitting, wrap } from './table.ts';

/** Jobs of the queue as a table, in the order they come in. */
export function renderJobs({ jobs, isCut, pauses }: JobList, screen: Screen): string {
  if (jobs.length === 0) return 'No jobs found in the queue.\n';
  const { palette, clock } = screen;
  const rows = jobs.map((job) => ({ ...job, hold: findHold(pauses, job) }));
  const holding = pauses.filter((pause) => rows.some(({ hold }) => hold === pause));
  const cut = isCut ? `the first ${countOf(jobs.length, 'job')}; --limit shows more · ` : '';
  return joinBlocks([
    drawTable(jobColumns(screen), rows, screen),
    renderPauses(holding, screen),
    [palette.dim(`${cut}times in ${clock.zone}`)],
  ]);
}

interface HeldJob extends Job {
  readonly hold: Pause | null;
}

function jobColumns(screen: Screen): readonly Column<HeldJob>[] {
  const { palette } = screen;
  return [
    { title: 'job', text: (job) => String(job.id), align: 'right' },
    { title: 'name', text: (job) => printableLine(job.name), shrinks: { first: 32, last: 12 }, isName: true },
    {
      title: 'state',
      text: (job) => job.state,
      paint: (text, job) => paintState(palette, job.state)(text),
    },
    { title: 'when', text: (job) => describeJobTime(job, job.hold, screen) || UNKNOWN },
    { title: 'tries', rank: 1, text: describeTries, align: 'right' },
    {
      title: 'why',
      rank: 2,
      text: (job) => firstLine(job.reason ?? ''),
      shrinks: { first: 16, last: 16 },
    },
  ];
}

/** Everything about one job of the queue. */
export function renderJob(story: JobStory, screen: Screen): string {
  const { job, children, runs, activity } = story;
  const { palette } = screen;
  const state = paintState(palette, job.state)(job.state);
  const lines = [
    ...joinFitting([palette.bold(printableLine(job.name)), `job ${job.id}`, state], screen.columns),
    ...(job.reason === null ? [] : wrap(cutLine(printableLine(job.reason)), screen.columns)),
    '',
    ...drawFacts(factsOf(story, screen), screen),
    ...renderData('data', job.data, palette),
    ...(job.result === null ? [] : renderData('result', job.result, palette)),
    ...titled(
      'children',
      children.flatMap((child) => joinFitting(describeChild(child), screen.columns)),
      screen,
    ),
    ...titled('runs', runs.length === 0 ? [] : renderRunTable(runs, screen), screen),
    ...titled(
      'activity',
      activity.flatMap((each) => describeActivity(each, screen)),
      screen,
    ),
  ];
  return `${lines.join('\n')}\n`;
}

function factsOf({ job, pause }: JobStory, screen: Screen): Fact[] {
  const { clock } = screen;
  const instant = (date: Date | null): string | null => (date === null ? null : clock.dateTime(date.getTime()));
  const isWaiting = job.finishedAt === null && job.state !== 'running';
  return [
    ['added', `${instant(job.createdAt)} (${clock.zone})`],
    [isWaiting ? 'due' : 'was due', instant(job.runAt)],
    ['paused', pause && describePause(pause, screen).join(' · ')],
    ['scheduled for', instant(job.scheduledFor)],
    ['started', instant(job.startedAt)],
    ['ended', instant(job.finishedAt)],
    ['claimed until', instant(job.leasedUntil)],
    ['tries', describeTries(job)],
    ['priority', formatCount(job.priority)],
    ['repeats', job.repeat && `${cutLine(printableLine(job.repeat))} · missed times: ${job.missed}`],
    ['unique key', job.uniqueKey && cutLine(printableLine(job.uniqueKey))],
    ['group', job.group && cutLine(printableLine(job.group))],
    ['parent', job.parent === null ? null : `job ${job.parent}`],
    ['lease', job.leaseMs === null ? null : formatDuration(job.leaseMs)],
    ['so far', describeCounters(job.counters)],
  ];
}

const counterWords: Readonly<Record<keyof JobCounters, readonly [one: string, many: string]>> = {
  reserves: ['claim', 'claims'],
  timeouts: ['expired lease', 'expired leases'],
  releases: ['release', 'releases'],
  buries: ['burial', 'burials'],
  kicks: ['kick', 'kicks'],
  crashes: ['crash', 'crashes'],
};

function describeCounters(counters: JobCounters): string | null {
  const names = Object.keys(counterWords) as (keyof JobCounters)[];
  const said = names.filter((name) => counters[name] > 0);
  if (said.length === 0) return null;
  return said.map((name) => countOf(counters[name], ...counterWords[name])).join(' · ');
}

function describeChild({ id, name, state }: JobChild): string[] {
  return [`job ${id}`, printableLine(name), state];
}

function describeActivity(activity: JobActivity, screen: Screen): string[] {
  const { atMs, event, runId, actor } = activity;
  const parts = [
    `${screen.clock.dateTime(atMs)}  ${describeEvent(event)}`,
    runId === null ? '' : `run ${runId}`,
    actor === null ? '' : `by ${printableLine(actor)}`,
    describeWhy(activity, screen),
  ];
  return joinFitting(parts.filter(Boolean), screen.columns);
}

function describeWhy({ detail, warning, runId }: JobActivity, { clock }: Screen): string {
  const said = warning === null ? '' : describeWarningInColumn(warning);
  const why = firstLine(detail ?? '');
  // A run may have ended by what a script said.
  return [runId === null ? withInstants(why, clock.short) : why, said].filter(Boolean).join('; ');
}

/** Renders the events of jobs and workers, in the given order. */
export function renderActivity(activity: readonly Activity[], isCut: boolean, screen: Screen): string {
  if (activity.length === 0) return 'Nothing of that kind is in the log.\n';
  const { palette, clock } = screen;
  const table = drawTable(activityColumns(screen, activity), activity, screen);
  const cut = isCut ? `the first ${countOf(activity.length, 'entry', 'entries')}; --limit shows more · ` : '';
  return `${[...table, '', palette.dim(`${cut}times in ${clock.zone}`)].join('\n')}\n`;
}

function activityColumns(screen: Screen, activity: readonly Activity[]): readonly Column<Activity>[] {
  const { clock } = screen;
  const number = (id: number | null): string => (id === null ? '' : String(id));
  const by: Column<Activity> = {
    title: 'by',
    rank: 4,
    text: ({ actor }) => printableLine(actor ?? ''),
    shrinks: { first: 16, last: 16 },
  };
  const machine: Column<Activity> = { title: 'machine', rank: 5, text: ({ host }) => printableLine(host ?? '') };
  const hasMachines = new Set(activity.flatMap(({ host }) => host ?? [])).size > 1;
  return [
    { title: 'when', text: ({ atMs }) => clock.dateTime(atMs) },
    { title: 'worker', rank: 1, text: ({ workerId }) => number(workerId), align: 'right' },
    ...(hasMachines ? [machine] : []),
    { title: 'job', text: ({ jobId }) => number(jobId), align: 'right' },
    { title: 'name', text: ({ name }) => printableLine(name ?? ''), shrinks: { first: 18, last: 12 }, isName: true },
    { title: 'run', rank: 2, text: ({ runId }) => number(runId), align: 'right' },
    { title: 'what', text: ({ event }) => describeEvent(event) },
    ...(activity.some(({ actor }) => actor !== null) ? [by] : []),
    { title: 'why', rank: 3, text: (each) => describeWhy(each, screen), shrinks: { first: 16, last: 16 } },
  ];
}

const MOST_LINES = 30;

/** The newest lines stand last, so that the first ones go. */
function titled(title: string, lines: readonly string[], { palette }: Screen): string[] {
  if (lines.length === 0) return [];
  const isCut = lines.length > MOST_LINES;
  const shown = title === 'activity' ? lines.slice(-MOST_LINES) : lines.slice(0, MOST_LINES);
  return ['', palette.dim(isCut ? `${title}, not all; --json shows more` : title), ...shown];
}

/** The next times of jobs, in their order. */
export function renderUpcoming(upcoming: readonly UpcomingJob[], screen: Screen): string {
  if (upcoming.length === 0) return 'No job is waiting or repeating.\n';
  const { palette, clock } = screen;
  const table = drawTable(upcomingColumns(screen), upcoming, screen);
  const notes = [
    ...(upcoming.some(({ isExpected }) => isExpected) ? ['~ if the runs before it take no time'] : []),
    `times in ${clock.zone}`,
  ];
  return `${[...table, '', palette.dim(notes.join(' · '))].join('\n')}\n`;
}

function upcomingColumns({ clock, nowMs }: Screen): readonly Column<UpcomingJob>[] {
  return [
    {
      title: 'when',
      text: ({ atMs, isExpected }) => `${isExpected ? '~' : ''}${clock.dateTime(atMs)}`,
    },
    {
      title: 'in',
      rank: 2,
      align: 'right',
      text: ({ atMs }) => (atMs <= nowMs ? 'due now' : formatElapsed(atMs - nowMs)),
    },
    { title: 'job', text: ({ id }) => String(id), align: 'right' },
    { title: 'name', text: ({ name }) => printableLine(name), shrinks: { first: 32, last: 12 }, isName: true },
    {
      title: 'repeats',
      rank: 1,
      text: ({ repeat }) => printableLine(repeat ?? ''),
      shrinks: { first: 16, last: 16 },
    },
  ];
}

const states = [
  'ready',
  'delayed',
  'running',
  'retrying',
  'paused',
  'failed',
  'finished',
  'cancelled',
] as const satisfies readonly (keyof JobCount)[];

/** How many jobs of each handler are in which state; a last line adds them up. */
export function renderJobCounts(counts: readonly JobCount[], screen: Screen): string {
  if (counts.length === 0) return 'No jobs found in the queue.\n';
  const rows = counts.length === 1 ? counts : [...counts, addUp(counts)];
  return `${drawTable(countColumns, rows, screen).join('\n')}\n`;
}

/** Whether the workers keep up with the queue: a verdict, then a line for each name. */
export function renderQueuePace({ sinceMs, untilMs, all, names }: QueuePace, screen: Screen): string {
  if (names.length === 0) return 'No job was due, added or processed within the last hour.\n';
  const { palette, nowMs } = screen;
  const perHour = (count: number): string => formatCount(Math.round((count * HOUR_MS) / (untilMs - sinceMs)));
  const figure = (title: string, rank: number, text: Column<JobPace>['text']) =>
    ({ title, rank, text, align: 'right' }) as const;
  const oldest = ({ oldestDueMs }: JobPace): string =>
    oldestDueMs === null ? UNKNOWN : formatElapsed(Math.max(0, nowMs - oldestDueMs));
  const columns: readonly Column<JobPace>[] = [
    { title: 'name', text: ({ name }) => printableLine(name), shrinks: { first: 32, last: 12 }, isName: true },
    figure('due', 6, ({ due }) => formatCount(due)),
    figure('oldest', 2, oldest),
    figure('added/h', 4, ({ added }) => perHour(added)),
    figure('ended/h', 5, ({ ended }) => perHour(ended)),
    figure('wait p50', 1, ({ waitP50Ms }) => formatDuration(waitP50Ms)),
    figure('wait p95', 3, ({ waitP95Ms }) => formatDuration(waitP95Ms)),
    {
      title: 'verdict',
      text: describePace,
      paint: (text, { verdict }) => (verdict === 'keeps-up' ? palette.good(text) : palette.warning(text)),
      shrinks: { first: 24, last: 16 },
    },
  ];
  const paint = all.verdict === 'keeps-up' ? palette.good : palette.warning;
  const head = [`all names: ${describePace(all)}`, `by the last ${formatElapsed(untilMs - sinceMs)}`];
  return `${[...joinFitting(head, screen.columns).map(paint), '', ...drawTable(columns, names, screen)].join('\n')}\n`;
}

/** The ended ones are the first to go from a narrow screen. */
const countColumns: readonly Column<JobCount>[] = [
  { title: 'name', text: ({ name }) => printableLine(name), shrinks: { first: 32, last: 12 }, isName: true },
  ...states.map(
    (state, index) =>
      ({
        title: state,
        text: (count: JobCount) => formatCount(count[state]),
        align: 'right',
        rank: states.length - index,
      }) as const,
  ),
];

function addUp(counts: readonly JobCount[]): JobCount {
  const sums = states.map((state) => [state, sum(counts.map((count) => count[state]))]);
  return { name: countOf(counts.length, 'name'), ...Object.fromEntries(sums) };
}

const happenings = {
  added: 'added',
  runs: 'runs',
  succeeded: 'succeeded',
  failed: 'failed',
  timedOut: 'timed out',
  crashed: 'crashed',
  released: 'released',
  stopped: 'stopped',
  leasesExpired: 'leases expired',
  buried: 'buried',
  kicked: 'kicked',
} as const satisfies Readonly<Record<Exclude<keyof JobTotals, 'name'>, string>>;

/** Renders the counts of each handler's jobs since the log began. */
export function renderJobTotals(totals: readonly JobTotals[], screen: Screen): string {
  if (totals.length === 0) return 'No jobs found in the queue, nor earlier ones.\n';
  const keys = Object.keys(happenings) as (keyof typeof happenings)[];
  const columns: readonly Column<JobTotals>[] = [
    { title: 'name', text: ({ name }) => printableLine(name), shrinks: { first: 32, last: 12 }, isName: true },
    ...keys.map((key, index) => ({
      title: happenings[key],
      text: (each: JobTotals) => formatCount(each[key]),
      align: 'right' as const,
      rank: keys.length - index,
    })),
  ];
  return `${drawTable(columns, totals, screen).join('\n')}\n`;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

const MOST_DATA_LINES = 40;
/** Plain SQL may have written megabytes. */
const LONGEST_LINE = 2000;

/** JSON for people: indented, and cut where it is long. */
function renderData(title: string, value: unknown, palette: Palette): string[] {
  const lines = printable(writeExactly(value)).split('\n');
  const more = lines.length - MOST_DATA_LINES;
  const isCut = more > 0 || lines.some((line) => line.length > LONGEST_LINE);
  const note = more > 0 ? `${title}, without its last ${countOf(more, 'line')}` : `${title}, cut`;
  return [
    '',
    palette.dim(isCut ? `${note}; --json shows all of it` : title),
    ...lines.slice(0, MOST_DATA_LINES).map(cutLine),
  ];
}

function cutLine(line: string): string {
  return line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line;
}

/** When a job is due, or has begun, or has ended, as its state asks for. */
function describeJobTime(job: Job, hold: Pause | null, { clock, nowMs }: Pick<Screen, 'clock' | 'nowMs'>): string {
  const short = (date: Date | null): string => (date === null ? '' : clock.short(date.getTime()));
  if (job.state === 'running') return `since ${short(job.startedAt)}`;
  if (job.state === 'paused') return 'waits for parent or children';
  if (job.finishedAt !== null) return short(job.finishedAt);
  const due = job.runAt.getTime() <= nowMs ? 'due now' : `due ${short(job.runAt)}`;
  if (hold === null) return due;
  return hold.kind === 'fail-fast' ? `${due}, will fail` : `${due}, paused`;
}

/** `1 of 4`; without the number of tries that only its handler knows: `1`. */
function describeTries({ attempts, maxAttempts }: Job): string {
  const made = formatCount(attempts);
  return maxAttempts === null ? made : `${made} of ${formatCount(maxAttempts)}`;
}

function paintState(palette: Palette, state: JobState): (text: string) => string {
  return {
    queued: same,
    claimed: palette.live,
    running: palette.live,
    retrying: palette.warning,
    paused: palette.warning,
    finished: palette.good,
    failed: palette.bad,
    cancelled: palette.dim,
  }[state];
}

const same = (text: string): string => text;
