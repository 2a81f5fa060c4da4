import {
  countOf,
  describeOutcome,
  describeRises,
  formatBytes,
  formatCount,
  formatDuration,
  formatMeasured,
  formatNumber,
  formatRatio,
  UNKNOWN,
} from '../../system/base/format.ts';
import { printable, printableLine } from '../../system/base/text.ts';
import type { ComparedFigure, RunComparison } from '../model/runs/compare.ts';
import type { RunRecord } from '../model/runs/run.ts';
import type { RunWithOutput, ScriptRuns } from '../model/runs/runs.ts';
import type { Rises } from '../model/runs/script.ts';
import type { Clock } from '../text/clock.ts';
import {
  describeChange,
  describeDeviation,
  describeRunError,
  describeWarning,
  describeWarningInColumn,
} from '../text/words.ts';
import { paintOutcome, type Screen } from './screen.ts';
import { type Column, drawFacts, drawTable, type Fact, joinFitting, wrap } from './table.ts';

/** Everything about one run but its output. */
export function renderRun(run: RunWithOutput, screen: Screen): string {
  const { palette, clock } = screen;
  const outcome = paintOutcome(palette, run)(describeOutcome(run));
  const notes = [
    ...(run.change ? [describeChange(run.change, clock)] : []),
    ...(run.warning === null ? [] : [describeWarning(run.warning)]),
    ...run.deviations.map((deviation) => describeDeviation(deviation, clock)),
  ];
  const lines = [
    ...joinFitting([palette.bold(printableLine(run.script)), `run ${run.id}`, outcome], screen.columns),
    ...(run.reason === null ? [] : wrap(printableLine(run.reason), screen.columns)),
    ...notes.flatMap((note) => wrap(note, screen.columns)).map(palette.warning),
    '',
    ...drawFacts(factsOf(run, screen), screen),
    ...renderError(run, screen),
  ];
  return `${lines.join('\n')}\n`;
}

/** The figures of a run beside those of another one. */
export function renderComparison(id: number, comparison: RunComparison, screen: Screen): string {
  const { palette, clock } = screen;
  const { with: other, script, outcome, startedAtMs, isContentSame, figures } = comparison;
  const column = (title: string, text: (figure: ComparedFigure) => string) =>
    ({ title, text, align: 'right' }) as const;
  const columns: Column<ComparedFigure>[] = [
    { title: 'figure', text: ({ measure, name }) => printableLine(name) || measure },
    column(`run ${id}`, ({ measure, value }) => formatMeasured(measure, value)),
    column(`run ${other}`, ({ measure, other: value }) => formatMeasured(measure, value)),
    column('ratio', ({ value, other: base }) => formatRatio(value, base)),
  ];
  const head = joinFitting(
    [`beside run ${other} of ${printableLine(script)}`, outcome, clock.dateTime(startedAtMs)],
    screen.columns,
  );
  const file = isContentSame === null ? [] : ['', isContentSame ? 'Both ran the same file.' : 'Their files differ.'];
  return `\n${[...head.map(palette.dim), ...drawTable(columns, figures, screen), ...file].join('\n')}\n`;
}

/** Stands above the output, and says so when it is not all that is kept. */
export function renderOutputTitle(run: RunWithOutput, isFull: boolean, screen: Screen): string {
  const isCut = run.outputFile !== null && !isFull;
  const note = isCut ? `output, head and tail; --full shows all stored output` : 'output';
  return `\n${screen.palette.dim(note)}\n`;
}

function factsOf(run: RunWithOutput, { clock }: Screen): Fact[] {
  const instant = (ms: number | null): string | null => (ms === null ? null : clock.dateTime(ms));
  return [
    ['job', run.jobId === null ? null : `${run.jobId} · \`npx folder-runner job ${run.jobId}\` shows it`],
    [
      'started',
      `${clock.dateTime(run.startedAtMs)} (${clock.zone})${run.startedBy === null ? '' : `, by ${printableLine(run.startedBy)}`}`,
    ],
    ['finished', instant(run.finishedAtMs)],
    ['was due', describeDue(run, clock)],
    ['attempt', String(run.attempt)],
    ['duration', run.durationMs === null ? null : formatDuration(run.durationMs)],
    ['cpu', describeCpu(run)],
    ['memory', run.maxRssBytes === null ? null : `${formatBytes(run.maxRssBytes)} at its peak`],
    ['measured by', describeMeasurement(run)],
    ['exit code', run.exitCode === null ? null : String(run.exitCode)],
    ['signal', run.signal && printableLine(run.signal)],
    ['machine', run.host && printableLine(run.host)],
    ['pid', run.pid === null ? null : String(run.pid)],
    ['content', run.contentHash && `sha256 ${printableLine(run.contentHash.slice(0, 12))}`],
    ['output', describeOutput(run)],
    ['counts', describeCounts(run)],
  ];
}

function describeDue({ scheduledForMs, startedAtMs }: RunRecord, clock: Clock): string | null {
  if (scheduledForMs === null) return null;
  const lateMs = startedAtMs - scheduledForMs;
  const late = lateMs > 0 ? `, ${formatDuration(lateMs)} before it started` : '';
  return `${clock.dateTime(scheduledForMs)}${late}`;
}

function describeCpu(run: RunRecord): string | null {
  if (run.userCpuMs === null && run.systemCpuMs === null) return null;
  return `${formatDuration(run.userCpuMs)} user, ${formatDuration(run.systemCpuMs)} system`;
}

function describeMeasurement({ measuredBy }: RunRecord): string | null {
  if (measuredBy === null) return null;
  return measuredBy === 'self' ? 'exact, by the script’s own process' : 'sampled from its processes';
}

function describeOutput({ outputBytes, outputDroppedBytes }: RunRecord): string | null {
  if (outputBytes === null) return null;
  if (outputBytes === 0) return 'none';
  const dropped = outputDroppedBytes ? `, ${formatBytes(outputDroppedBytes)} of them dropped` : '';
  return formatBytes(outputBytes) + dropped;
}

function describeCounts({ counts }: RunRecord): string | null {
  const all = Object.entries(counts).map(([name, value]) => `${printableLine(name)} ${formatNumber(value)}`);
  return all.length === 0 ? null : all.join(' · ');
}

function renderError({ error, output }: RunWithOutput, { palette }: Screen): string[] {
  // Node prints what a script throws.
  if (error === null || (error.stack !== null && output?.includes(error.stack))) return [];
  const title = [error.name, error.message].filter(Boolean).join(': ');
  const stack = error.stack ?? '';
  // A stack usually begins with name and message; they are not said twice.
  const isSaid = error.message !== null && stack.includes(error.message);
  const text = isSaid || title === '' ? stack : `${title}\n${stack}`;
  return ['', palette.dim('error'), palette.bad(printable(text).trimEnd())];
}

/** One script's runs as a table, newest first, below what has risen of it. */
export function renderRuns(report: ScriptRuns, rises: Rises, screen: Screen): string {
  const { palette, clock } = screen;
  const [first = '', ...more] = joinFitting(
    [printableLine(report.script), `since ${clock.short(report.sinceMs)}`, `times in ${clock.zone}`],
    screen.columns,
  );
  const risen = describeRises(rises, clock.short).flatMap((text) => wrap(text, screen.columns));
  const head = [palette.bold(first), ...more.map(palette.dim), ...risen.map(palette.warning)];
  return `${[...head, '', ...renderBody(report, screen)].join('\n')}\n`;
}

function renderBody({ runs, isCut }: ScriptRuns, screen: Screen): string[] {
  if (runs.length === 0) return ['No such run in this time range; --since 90d goes further back.'];
  const table = renderRunTable(runs, screen);
  const note = `the newest ${countOf(runs.length, 'run')}; --limit shows more`;
  return isCut ? [...table, '', screen.palette.dim(note)] : table;
}

/** @param isOfAll whether they are of several scripts: then each line names its own */
export function renderRunTable(runs: readonly RunRecord[], screen: Screen, isOfAll = false): string[] {
  const [run, ...more] = runColumns(screen) as [Column<RunRecord>, ...Column<RunRecord>[]];
  return drawTable(isOfAll ? [run, scriptColumn, ...more] : [run, ...more], runs, screen);
}

const scriptColumn: Column<RunRecord> = {
  title: 'script',
  text: ({ script }) => printableLine(script),
  shrinks: { first: 24, last: 12 },
  isName: true,
};

function runColumns({ palette, clock }: Screen): readonly Column<RunRecord>[] {
  const figure = (title: string, rank: number, text: Column<RunRecord>['text']) =>
    ({ title, rank, text, align: 'right' }) as const;
  return [
    { title: 'run', text: (run) => String(run.id), align: 'right' },
    { title: 'started', text: (run) => clock.dateTime(run.startedAtMs), paint: palette.dim },
    {
      title: 'outcome',
      text: describeOutcome,
      paint: (text, run) => paintOutcome(palette, run)(text),
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
      text: (run) => whyOf(run, clock),
      paint: (text, run) => (run.outcome === 'succeeded' ? palette.warning(text) : text),
      shrinks: { first: 16, last: 16 },
    },
  ];
}

function whyOf(run: RunRecord, clock: Clock): string {
  if (run.outcome === 'succeeded' || run.outcome === 'running') {
    const unusual = run.deviations.map((deviation) => describeDeviation(deviation, clock));
    const warning = run.warning === null ? [] : [describeWarningInColumn(run.warning)];
    return [...warning, ...unusual].join('; ');
  }
  return describeRunError(run, '') ?? UNKNOWN;
}
