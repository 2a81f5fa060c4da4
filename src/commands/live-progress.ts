import kleur from 'kleur';
import { createLogUpdate } from 'log-update';
import { formatBytes, formatDuration } from '../report/format.ts';
import { firstLine, printableLine } from '../report/printable.ts';
import type { TierRequest } from '../worker/run-tier.ts';
import type { RunFinished, RunStarted, WorkerEvents } from '../worker/worker-events.ts';
import type { CommandContext } from './command-context.ts';

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const FRAME_MS = 80;

/** Shows each script while it runs, and how it ended. Only for a terminal. */
export function showProgress(
  { stdout }: CommandContext,
  request: TierRequest,
  events: WorkerEvents,
): void {
  const screen = createLogUpdate(stdout);
  const running = new Map<number, Running>();
  const ended: RunFinished[] = [];
  const startedAt = performance.now();
  const width = Math.max(0, ...request.scripts.map(({ name }) => printableLine(name).length));
  let frame = 0;
  const render = (): void => {
    frame += 1;
    screen([...running.values()].map((run) => describeRunning(run, width, frame)).join('\n'));
  };
  // Should the pass break off, the spinner must not keep the runner alive.
  const timer = setInterval(render, FRAME_MS).unref();
  events.on('pass-skipped', ({ reason }) => {
    clearInterval(timer);
    stdout.write(`Skipped: ${printableLine(reason)}.\n`);
  });
  events.on('warning', (warning) =>
    stdout.write(`${kleur.yellow('!')} ${printableLine(warning)}\n`),
  );
  events.on('run-started', (run) => {
    running.set(run.runId, { ...run, startedAt: performance.now() });
    render();
  });
  events.on('run-finished', (run) => {
    running.delete(run.runId);
    ended.push(run);
    screen.clear();
    stdout.write(`${describeFinished(run, width)}\n`);
    render();
  });
  events.on('pass-finished', () => {
    clearInterval(timer);
    screen.clear();
    screen.done();
    stdout.write(`${describePass(request, ended, performance.now() - startedAt)}\n`);
  });
}

function describePass(
  { tier, scripts }: TierRequest,
  ended: readonly RunFinished[],
  durationMs: number,
): string {
  if (scripts.length === 0) return `${tier.name} holds no scripts.`;
  const succeeded = ended.filter(({ end }) => end.outcome === 'succeeded').length;
  const counts = [`${succeeded} succeeded`];
  if (ended.length > succeeded) counts.push(`${ended.length - succeeded} did not`);
  if (scripts.length > ended.length) counts.push(`${scripts.length - ended.length} not started`);
  return `${tier.name}: ${counts.join(', ')}, in ${formatDuration(durationMs)}`;
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
  const succeeded = end.outcome === 'succeeded';
  const mark = succeeded ? kleur.green('✔') : kleur.red('✖');
  const outcome = succeeded ? kleur.green(end.outcome) : kleur.red(end.outcome);
  const padding = ' '.repeat(Math.max(0, 'not-started'.length - end.outcome.length));
  const figures = `${formatDuration(end.durationMs).padStart(8)}  ${formatBytes(end.maxRssBytes).padStart(8)}`;
  const reason = end.reason === null ? '' : `  ${firstLine(end.reason)}`;
  return `${mark} ${printableLine(script).padEnd(width)}  ${outcome}${padding}  ${figures}${reason}`;
}
