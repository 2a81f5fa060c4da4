import kleur from 'kleur';
import { createLogUpdate } from 'log-update';
import { formatBytes, formatDuration } from '../../report/text/format.ts';
import { isFailure, type Outcome } from '../../store/schema.ts';
import { firstLine, printableLine } from '../../system/base/text.ts';
import type { PassStarted, RunFinished, RunStarted, WorkerEvents } from '../../worker/invocation/events.ts';
import type { CommandContext } from '../shared/context.ts';

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const FRAME_MS = 80;

/** Shows each script while it runs, and how it ended. Only for a terminal. */
export function showPassProgress({ stdout }: CommandContext, events: WorkerEvents): void {
  const screen = createLogUpdate(stdout);
  const running = new Map<string, Running>();
  let pass: ShownPass | null = null;
  let width = 0;
  let frame = 0;
  const render = (): void => {
    frame += 1;
    screen([...running.values()].map((run) => describeRunning(run, width, frame)).join('\n'));
  };
  let timer: NodeJS.Timeout | undefined;
  events.on('pass-skipped', ({ reason }) => stdout.write(`Skipped: ${printableLine(reason)}.\n`));
  const warn = (warning: string) => stdout.write(`${kleur.yellow('!')} ${printableLine(warning)}\n`);
  events.on('warning', warn);
  events.on('deferred', warn);
  events.on('pass-started', (started) => {
    pass = { ...started, startedAt: performance.now(), ended: [] };
    width = Math.max(0, ...started.scripts.map((name) => printableLine(name).length));
    // Should the pass break off, the spinner must not keep the runner alive.
    timer = setInterval(render, FRAME_MS).unref();
  });
  events.on('run-started', (run) => {
    running.set(run.key, { ...run, startedAt: performance.now() });
    render();
  });
  events.on('run-finished', (run) => {
    running.delete(run.key);
    pass?.ended.push(run);
    screen.clear();
    stdout.write(`${describeFinished(run, width)}\n`);
    render();
  });
  events.on('pass-finished', () => {
    clearInterval(timer);
    screen.clear();
    screen.done();
    if (pass !== null) stdout.write(`${describePass(pass)}\n`);
  });
}

interface ShownPass extends PassStarted {
  readonly startedAt: number;
  readonly ended: RunFinished[];
}

function describePass({ tier, scripts, hasScripts, ended, startedAt }: ShownPass): string {
  if (!hasScripts) return `jobs/${tier} contains no scripts.`;
  if (scripts.length === 0 && ended.length === 0) return `${tier}: nothing to run now; \`runner status\` shows why.`;
  const succeeded = ended.filter(({ end }) => end.outcome === 'succeeded').length;
  const failed = ended.filter(({ end }) => isFailure(end.outcome)).length;
  const released = ended.length - succeeded - failed;
  const counts = [`${succeeded} succeeded`];
  if (failed > 0) counts.push(`${failed} did not`);
  if (released > 0) counts.push(`${released} released`);
  if (scripts.length > ended.length) counts.push(`${scripts.length - ended.length} not started`);
  return `${tier}: ${counts.join(', ')}, in ${formatDuration(performance.now() - startedAt)}`;
}

interface Running extends RunStarted {
  readonly startedAt: number;
}

function describeRunning(run: Running, width: number, frame: number): string {
  const spinner = FRAMES[frame % FRAMES.length] ?? '';
  const elapsed = formatDuration(performance.now() - run.startedAt);
  return `${kleur.cyan(spinner)} ${printableLine(run.script).padEnd(width)}  ${elapsed}`;
}

function describeFinished({ script, end }: RunFinished, width: number): string {
  const { sign, paint } = lookOf(end.outcome);
  const padding = ' '.repeat(Math.max(0, 'not-started'.length - end.outcome.length));
  const figures = `${formatDuration(end.durationMs).padStart(8)}  ${formatBytes(end.maxRssBytes).padStart(8)}`;
  const reason = end.reason === null ? '' : `  ${firstLine(end.reason)}`;
  return `${paint(sign)} ${printableLine(script).padEnd(width)}  ${paint(end.outcome)}${padding}  ${figures}${reason}`;
}

function lookOf(outcome: Outcome) {
  if (outcome === 'succeeded') return { sign: '✔', paint: kleur.green };
  return isFailure(outcome) ? { sign: '✖', paint: kleur.red } : { sign: '↻', paint: kleur.yellow };
}

const REDRAW_MS = 100;

/** One line that tells how a worker of the queue gets on; what fails stays above it. For a terminal. */
export function showWorkProgress({ stdout }: CommandContext, events: WorkerEvents): void {
  const screen = createLogUpdate(stdout);
  const running = new Map<string, string>();
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
  events.on('deferred', warn);
  events.on('run-started', ({ key, script }) => running.set(key, script));
  events.on('run-finished', (run) => {
    running.delete(run.key);
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
  const now = running.size === 0 ? '' : `, running ${[...running.values()].map(printableLine).join(', ')}`;
  return `queue: ${done} in ${formatDuration(elapsedMs)} (${perSecond}/s)${now}`;
}

function describeFailure({ script, jobId, end }: RunFinished): string {
  const reason = end.reason === null ? '' : `  ${firstLine(end.reason)}`;
  return `${kleur.red('✖')} ${printableLine(script)}  job ${jobId}  ${kleur.red(end.outcome)}${reason}`;
}

/** How the runs of a worker have ended so far. */
interface RunCounts {
  readonly succeeded: number;
  readonly failed: number;
  readonly released: number;
}

/** Counts them as they end. */
export function countRuns(events: WorkerEvents): RunCounts {
  const counts = { succeeded: 0, failed: 0, released: 0 };
  events.on('run-finished', ({ end: { outcome } }) => {
    if (outcome === 'succeeded') counts.succeeded += 1;
    else if (isFailure(outcome)) counts.failed += 1;
    else counts.released += 1;
  });
  return counts;
}
