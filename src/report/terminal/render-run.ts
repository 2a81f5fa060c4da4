import { formatBytes, formatDuration } from '../format.ts';
import { printable, printableLine } from '../printable.ts';
import type { RunRecord, RunWithOutput } from '../run-record.ts';
import { paintOutcome } from './palette.ts';
import type { Screen } from './screen.ts';

/** Everything about one run but its output. */
export function renderRun(run: RunRecord, screen: Screen): string {
  const { palette } = screen;
  const outcome = paintOutcome(palette, run.outcome)(run.outcome);
  const facts = factsOf(run, screen).filter(([, value]) => value !== null);
  const lines = [
    `${palette.bold(printableLine(run.script))} · run ${run.id} · ${outcome}`,
    ...(run.reason === null ? [] : [printableLine(run.reason)]),
    ...(run.warning === null ? [] : [palette.warning(printableLine(run.warning))]),
    '',
    ...facts.map(([label, value]) => `${palette.dim(label.padEnd(13))} ${value}`),
    ...renderError(run, screen),
  ];
  return `${lines.join('\n')}\n`;
}

/** Stands above the output, and says so when it is not all that is kept. */
export function renderOutputTitle(run: RunWithOutput, isFull: boolean, screen: Screen): string {
  const isCut = run.outputFile !== null && !isFull;
  const note = isCut ? `output, its head and tail; --full shows all that was kept` : 'output';
  return `\n${screen.palette.dim(note)}\n`;
}

type Fact = readonly [label: string, value: string | null];

function factsOf(run: RunRecord, { clock }: Screen): Fact[] {
  const instant = (ms: number | null): string | null => (ms === null ? null : clock.dateTime(ms));
  return [
    ['job', run.jobId === null ? null : `${run.jobId} · \`runner job ${run.jobId}\` shows it`],
    ['started', `${clock.dateTime(run.startedAtMs)} (${clock.zone})`],
    ['finished', instant(run.finishedAtMs)],
    ['scheduled for', instant(run.scheduledForMs)],
    ['attempt', String(run.attempt)],
    ['duration', run.durationMs === null ? null : formatDuration(run.durationMs)],
    ['cpu', describeCpu(run)],
    ['memory', run.maxRssBytes === null ? null : `${formatBytes(run.maxRssBytes)} at its peak`],
    ['measured by', describeMeasurement(run)],
    ['exit code', run.exitCode === null ? null : String(run.exitCode)],
    ['signal', run.signal && printableLine(run.signal)],
    ['pid', run.pid === null ? null : String(run.pid)],
    ['content', run.contentHash && `sha256 ${printableLine(run.contentHash.slice(0, 12))}`],
    ['output', describeOutput(run)],
  ];
}

function describeCpu(run: RunRecord): string | null {
  if (run.userCpuMs === null && run.systemCpuMs === null) return null;
  return `${formatDuration(run.userCpuMs)} user, ${formatDuration(run.systemCpuMs)} system`;
}

function describeMeasurement({ measuredBy }: RunRecord): string | null {
  if (measuredBy === null) return null;
  return measuredBy === 'self' ? 'the script’s own process, exactly' : 'samples of its processes';
}

function describeOutput({ outputBytes, outputDroppedBytes }: RunRecord): string | null {
  if (outputBytes === null) return null;
  if (outputBytes === 0) return 'none';
  const dropped = outputDroppedBytes
    ? `, of which ${formatBytes(outputDroppedBytes)} were dropped`
    : '';
  return formatBytes(outputBytes) + dropped;
}

function renderError({ error }: RunRecord, { palette }: Screen): string[] {
  if (error === null) return [];
  const title = [error.name, error.message].filter(Boolean).join(': ');
  const stack = error.stack ?? '';
  // A stack usually begins with name and message; they are not said twice.
  const text = stack.startsWith(title) || title === '' ? stack : `${title}\n${stack}`;
  return ['', palette.dim('error'), palette.bad(printable(text).trimEnd())];
}
