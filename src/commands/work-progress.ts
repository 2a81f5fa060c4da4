import kleur from 'kleur';
import { createLogUpdate } from 'log-update';
import { formatDuration } from '../report/format.ts';
import { firstLine, printableLine } from '../report/printable.ts';
import type { RunFinished, RunStarted, WorkerEvents } from '../worker/worker-events.ts';
import type { CommandContext } from './command-context.ts';
import { isFailure } from './failure-summary.ts';

const REDRAW_MS = 100;

/** One line that tells how a worker of the queue gets on; what fails stays above it. For a terminal. */
export function showProgress({ stdout }: CommandContext, events: WorkerEvents): void {
  const screen = createLogUpdate(stdout);
  const running = new Map<RunStarted['runId'], string>();
  const counts = { succeeded: 0, failed: 0, givenBack: 0 };
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
    if (run.end.outcome === 'succeeded') counts.succeeded += 1;
    else if (!isFailure(run.end)) counts.givenBack += 1;
    else {
      counts.failed += 1;
      above(describeFailure(run));
    }
  });
  events.on('pass-finished', () => {
    clearInterval(timer);
    above(describeWork(counts, running, performance.now() - startedAt));
    screen.done();
  });
}

interface Counts {
  readonly succeeded: number;
  readonly failed: number;
  readonly givenBack: number;
}

function describeWork(
  { succeeded, failed, givenBack }: Counts,
  running: ReadonlyMap<unknown, string>,
  elapsedMs: number,
): string {
  const released = givenBack === 0 ? '' : `, ${givenBack} given back`;
  const done = `${succeeded} succeeded, ${failed} failed${released}`;
  const perSecond = Math.round(((succeeded + failed + givenBack) * 1000) / Math.max(elapsedMs, 1));
  const now =
    running.size === 0 ? '' : `, running ${[...running.values()].map(printableLine).join(', ')}`;
  return `queue: ${done} in ${formatDuration(elapsedMs)} (${perSecond}/s)${now}`;
}

function describeFailure({ script, end }: RunFinished): string {
  const reason = end.reason === null ? '' : `  ${firstLine(end.reason)}`;
  return `${kleur.red('✖')} ${printableLine(script)}  ${kleur.red(end.outcome)}${reason}`;
}
