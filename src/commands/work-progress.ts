import kleur from 'kleur';
import { createLogUpdate } from 'log-update';
import { formatDuration } from '../report/format.ts';
import { firstLine, printableLine } from '../report/printable.ts';
import { isFailure } from '../store/outcomes.ts';
import type { RunFinished, RunStarted, WorkerEvents } from '../worker/worker-events.ts';
import type { CommandContext } from './command-context.ts';
import { countRuns, type RunCounts } from './count-runs.ts';

const REDRAW_MS = 100;

/** One line that tells how a worker of the queue gets on; what fails stays above it. For a terminal. */
export function showProgress({ stdout }: CommandContext, events: WorkerEvents): void {
  const screen = createLogUpdate(stdout);
  const running = new Map<RunStarted['runId'], string>();
  const counts = countRuns(events);
  const startedAt = performance.now();
  const above = (line: string): void => {
    screen.clear();
    stdout.write(`${line}\n`);
  };
  const warn = (warning: string) => above(`${kleur.yellow('!')} ${printableLine(warning)}`);
  const redraw = () => screen(describeWork(counts, running, performance.now() - startedAt));
  // Thousands of jobs a second must not be drawn one by one.
  const timer = setInterval(redraw, REDRAW_MS).unref();
  events.on('pass-skipped', ({ reason }) => stdout.write(`Skipped: ${printableLine(reason)}.\n`));
  events.on('warning', warn);
  events.on('left', warn);
  events.on('run-started', ({ runId, script }) => running.set(runId, script));
  events.on('run-finished', (run) => {
    running.delete(run.runId);
    if (isFailure(run.end.outcome)) above(describeFailure(run));
  });
  events.on('pass-finished', () => {
    clearInterval(timer);
    above(describeWork(counts, running, performance.now() - startedAt));
    screen.done();
  });
}

function describeWork(
  { succeeded, failed, released }: RunCounts,
  running: ReadonlyMap<unknown, string>,
  elapsedMs: number,
): string {
  const givenBack = released === 0 ? '' : `, ${released} released`;
  const done = `${succeeded} succeeded, ${failed} failed${givenBack}`;
  const perSecond = Math.round(((succeeded + failed + released) * 1000) / Math.max(elapsedMs, 1));
  const now =
    running.size === 0 ? '' : `, running ${[...running.values()].map(printableLine).join(', ')}`;
  return `queue: ${done} in ${formatDuration(elapsedMs)} (${perSecond}/s)${now}`;
}

function describeFailure({ script, jobId, end }: RunFinished): string {
  const reason = end.reason === null ? '' : `  ${firstLine(end.reason)}`;
  return `${kleur.red('✖')} ${printableLine(script)}  job ${jobId}  ${kleur.red(end.outcome)}${reason}`;
}
