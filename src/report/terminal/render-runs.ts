import { describeError } from '../describe-error.ts';
import { countOf, formatBytes, formatCount, formatDuration } from '../format.ts';
import { firstLine, printableLine } from '../printable.ts';
import type { ScriptRuns } from '../read-script-runs.ts';
import type { RunRecord } from '../run-record.ts';
import { UNKNOWN } from '../unknown.ts';
import { paintOutcome } from './palette.ts';
import type { Screen } from './screen.ts';
import { type Column, fitColumns, renderTable } from './table.ts';
import { joinFitting } from './truncate.ts';

/** One script's runs as a table, newest first. */
export function renderRuns(report: ScriptRuns, screen: Screen): string {
  const { palette, clock } = screen;
  const [first = '', ...more] = joinFitting(
    [
      printableLine(report.script),
      `since ${clock.short(report.sinceMs)}`,
      `times in ${clock.zone}`,
    ],
    screen.columns,
  );
  const head = [palette.bold(first), ...more.map(palette.dim)];
  return `${[...head, '', ...renderBody(report, screen)].join('\n')}\n`;
}

function renderBody({ runs, isCut }: ScriptRuns, screen: Screen): string[] {
  if (runs.length === 0) return ['No such run in this time; --since 90d looks further back.'];
  const table = renderRunTable(runs, screen);
  const note = `the newest ${countOf(runs.length, 'run')}; --limit shows more`;
  return isCut ? [...table, '', screen.palette.dim(note)] : table;
}

export function renderRunTable(runs: readonly RunRecord[], screen: Screen): string[] {
  const columns = fitColumns(runColumns(screen), runs, screen.columns);
  return renderTable(columns, runs, { palette: screen.palette, indent: '' });
}

function runColumns({ palette, clock }: Screen): readonly Column<RunRecord>[] {
  const figure = (title: string, rank: number, text: Column<RunRecord>['text']) =>
    ({ title, rank, text, align: 'right' }) as const;
  return [
    { title: 'run', text: (run) => String(run.id), align: 'right' },
    { title: 'started', text: (run) => clock.dateTime(run.startedAtMs), paint: palette.dim },
    {
      title: 'outcome',
      text: (run) => run.outcome,
      paint: (text, run) => paintOutcome(palette, run.outcome)(text),
    },
    figure('try', 2, (run) => formatCount(run.attempt)),
    figure('duration', 6, (run) => formatDuration(run.durationMs)),
    figure('user', 3, (run) => formatDuration(run.userCpuMs)),
    figure('system', 3, (run) => formatDuration(run.systemCpuMs)),
    figure('memory', 4, (run) => formatBytes(run.maxRssBytes)),
    figure('output', 1, (run) => formatBytes(run.outputBytes)),
    {
      title: 'why',
      rank: 5,
      text: whyOf,
      paint: (text, run) => (run.outcome === 'succeeded' ? palette.warning(text) : text),
      shrinks: { first: 16, last: 16 },
    },
  ];
}

function whyOf(run: RunRecord): string {
  if (run.outcome === 'succeeded' || run.outcome === 'running') return firstLine(run.warning ?? '');
  return describeError(run, '') ?? UNKNOWN;
}
