import type { JobCounters } from '../../queue/queue.ts';
import { countOf, formatCount } from '../format.ts';
import type { JobStory } from '../job-json.ts';
import { firstLine, printableLine } from '../printable.ts';
import type { JobActivity, JobChild } from '../select-job-story.ts';
import { describeTries, paintState } from './describe-job.ts';
import { renderData } from './render-data.ts';
import { describePause } from './render-pauses.ts';
import { renderRunTable } from './render-runs.ts';
import type { Screen } from './screen.ts';
import { joinFitting } from './truncate.ts';

/** Everything about one job of the queue. */
export function renderJob(story: JobStory, screen: Screen): string {
  const { job, children, runs, activity } = story;
  const { palette } = screen;
  const state = paintState(palette, job.state)(job.state);
  const facts = factsOf(story, screen).filter(([, value]) => value !== null);
  const lines = [
    `${palette.bold(printableLine(job.name))} · job ${job.id} · ${state}`,
    ...(job.reason === null ? [] : [printableLine(job.reason)]),
    '',
    ...facts.map(([label, value]) => `${palette.dim(label.padEnd(13))} ${value}`),
    ...renderData('data', job.data, palette),
    ...(job.result === null ? [] : renderData('result', job.result, palette)),
    ...titled('children', children.map(describeChild), screen),
    ...titled('runs', runs.length === 0 ? [] : renderRunTable(runs, screen), screen),
    ...titled(
      'activity',
      activity.flatMap((each) => describeActivity(each, screen)),
      screen,
    ),
  ];
  return `${lines.join('\n')}\n`;
}

type Fact = readonly [label: string, value: string | null];

function factsOf({ job, hold }: JobStory, screen: Screen): Fact[] {
  const { clock } = screen;
  const instant = (date: Date | null): string | null =>
    date === null ? null : clock.dateTime(date.getTime());
  const isWaiting = job.finishedAt === null && job.state !== 'running';
  return [
    ['added', `${instant(job.createdAt)} (${clock.zone})`],
    [isWaiting ? 'due' : 'was due', instant(job.runAt)],
    ['paused', hold && describePause(hold, screen).join(' · ')],
    ['scheduled for', instant(job.scheduledFor)],
    ['started', instant(job.startedAt)],
    ['ended', instant(job.finishedAt)],
    ['claimed until', instant(job.leasedUntil)],
    ['tries', describeTries(job)],
    ['priority', formatCount(job.priority)],
    ['repeats', job.repeat && `${printableLine(job.repeat)} · missed times: ${job.missed}`],
    ['unique key', job.uniqueKey && printableLine(job.uniqueKey)],
    ['group', job.group && printableLine(job.group)],
    ['parent', job.parent === null ? null : `job ${job.parent}`],
    ['so far', describeCounters(job.counters)],
  ];
}

const counterWords: Readonly<Record<keyof JobCounters, readonly [one: string, many: string]>> = {
  reserves: ['claim', 'claims'],
  timeouts: ['lease that ran out', 'leases that ran out'],
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

function describeChild({ id, name, state }: JobChild): string {
  return `job ${id} · ${printableLine(name)} · ${state}`;
}

function describeActivity({ atMs, event, detail, runId }: JobActivity, screen: Screen): string[] {
  const parts = [
    `${screen.clock.dateTime(atMs)}  ${printableLine(event)}`,
    runId === null ? '' : `run ${runId}`,
    detail === null ? '' : firstLine(detail),
  ];
  return joinFitting(parts.filter(Boolean), screen.columns);
}

const MOST_LINES = 30;

/** The newest lines stand last, so that the first ones go. */
function titled(title: string, lines: readonly string[], { palette }: Screen): string[] {
  if (lines.length === 0) return [];
  const isCut = lines.length > MOST_LINES;
  const shown = title === 'activity' ? lines.slice(-MOST_LINES) : lines.slice(0, MOST_LINES);
  return ['', palette.dim(isCut ? `${title}, not all; --json shows more` : title), ...shown];
}
