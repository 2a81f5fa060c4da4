import { createLogUpdate } from 'log-update';
import { tierNames } from '../../discovery/jobs-folder.ts';
import { openLiveOutput } from '../../report/model/runs/output.ts';
import { createScreen } from '../../report/terminal/screen.ts';
import { wrap } from '../../report/terminal/table.ts';
import { describeMisnamed } from '../../schedule/period.ts';
import type { Runner, Settings } from '../../settings/settings.ts';
import { isFailure } from '../../store/words.ts';
import { printableLine, toPrintableLines, withInstants } from '../../system/base/text.ts';
import type { PassStarted, WorkerEvents } from '../../worker/invocation/invocation.ts';
import type { CommandContext } from '../shared/context.ts';
import { countRuns, drawFailure, drawWork, PassView } from './pass-view.ts';

const FRAME_MS = 80;

interface PassDisplay {
  /** Whether what the scripts print is shown as it comes. */
  readonly isLive: boolean;
  readonly settings: Pick<Settings, 'tiers' | 'concurrency'>;
}

/** Guards a pass against its own display: if the display fails, one message is printed and the pass goes on. */
export function createGuard(stderr: Pick<NodeJS.WriteStream, 'write'>) {
  let isTold = false;
  return <Values extends readonly unknown[]>(show: (...values: Values) => void) =>
    (...values: Values): void => {
      try {
        show(...values);
      } catch (error) {
        if (isTold) return;
        isTold = true;
        stderr.write(
          `runner: This display has a defect (${String(error)}); the pass goes on. \`npx folder-runner report\` shows its runs.\n`,
        );
      }
    };
}

/** Shows each script while it runs, and how it ended. Only for a terminal. */
export function showPassProgress(context: CommandContext, events: WorkerEvents, display: PassDisplay): void {
  const { isLive, settings } = display;
  const terminal = openTerminal(context);
  const outputs = new Map<string, LiveOutput>();
  let view: PassView | null = null;
  let timer: NodeJS.Timeout | undefined;
  const guard = createGuard(context.stderr);
  const draw = guard((): void => {
    if (!isLive && view !== null) terminal.draw(view.drawRunning(terminal.room(), performance.now()));
  });
  showNotices(events, terminal);
  events.on('pass-started', (started) => {
    const concurrency = settings.tiers[started.tier]?.concurrency ?? settings.concurrency;
    view = new PassView(started, performance.now(), concurrency);
    void readUsual(started, view);
    // Should the pass break off, the spinner must not keep the runner alive.
    timer = setInterval(draw, FRAME_MS).unref();
  });
  events.on('run-started', (run) => {
    view?.start(run, performance.now());
    const output = isLive ? followOutput(run.output, (text) => context.stdout.write(text)) : null;
    if (output !== null) outputs.set(run.key, output);
    draw();
  });
  let told: Promise<unknown> = Promise.resolve();
  events.on('run-finished', (run) => {
    const ofPass = view;
    ofPass?.end(run);
    const output = outputs.get(run.key);
    const tell = guard((): void => {
      terminal.above(ofPass?.drawEnd(run, terminal.room(), output === undefined) ?? []);
    });
    if (output === undefined) tell();
    else told = told.then(() => output.end()).then(tell);
    draw();
  });
  events.on('pass-finished', () => {
    clearInterval(timer);
    const ofPass = view;
    const endedAt = performance.now();
    const tell = guard((): void => {
      if (ofPass !== null) terminal.above(ofPass.drawSummary(terminal.room(), endedAt));
      terminal.close();
    });
    if (isLive) told = told.then(tell);
    else tell();
  });
  events.on('closing', (waits) => void waits.push(told));
}

/** Asked beside the pass, which does not wait for it; without an answer there is no estimate. */
async function readUsual({ scripts, usualDurationMs }: PassStarted, view: PassView): Promise<void> {
  if (usualDurationMs === undefined || scripts.length < 2) return;
  for (const script of scripts) {
    const usualMs = await usualDurationMs(script);
    if (usualMs !== null) view.setUsual(script, usualMs);
  }
}

const REDRAW_MS = 100;

/** One line that tells how a worker of the queue gets on; what fails stays above it. For a terminal. */
export function showWorkProgress(context: CommandContext, events: WorkerEvents): void {
  const terminal = openTerminal(context);
  const running = new Map<string, string>();
  const counts = countRuns(events);
  const startedAt = performance.now();
  const draw = (): string => {
    const work = { ...counts, running: [...running.values()], elapsedMs: performance.now() - startedAt };
    return drawWork(work, terminal.room());
  };
  // Thousands of jobs a second must not be drawn one by one.
  const timer = setInterval(() => terminal.draw([draw()]), REDRAW_MS).unref();
  showNotices(events, terminal);
  events.on('run-started', ({ key, script }) => running.set(key, script));
  events.on('run-finished', (run) => {
    running.delete(run.key);
    if (isFailure(run.end.outcome)) terminal.above(drawFailure(run, terminal.room()));
  });
  events.on('pass-finished', () => {
    clearInterval(timer);
    terminal.above([draw()]);
    terminal.close();
  });
}

/** Lines that stay, and below them some that are drawn anew. */
interface Terminal {
  /** As it is now: a terminal may be made wider. */
  room(): Pick<ReturnType<typeof createScreen>, 'clock' | 'columns' | 'palette'>;
  draw(lines: readonly string[]): void;
  above(lines: readonly string[]): void;
  close(): void;
}

function openTerminal(context: CommandContext): Terminal {
  const { stdout } = context;
  const screen = createLogUpdate(stdout);
  return {
    room: () => createScreen(context),
    draw: (lines) => screen(lines.join('\n')),
    above: (lines) => {
      screen.clear();
      for (const line of lines) stdout.write(`${line}\n`);
    },
    close: () => screen.done(),
  };
}

function showNotices(events: WorkerEvents, { above, room }: Terminal): void {
  const show = (text: string) => above(wrap(printableLine(text), room().columns));
  const warn = (warning: string) => {
    const { columns, palette } = room();
    const [first = '', ...more] = wrap(printableLine(warning), columns - 2);
    above([`${palette.warning('!')} ${first}`, ...more.map((line) => `  ${line}`)]);
  };
  events.on('pass-skipped', ({ reason }) => show(`Skipped: ${withInstants(reason, room().clock.short)}.`));
  events.on('warning', warn);
  events.on('deferred', warn);
}

/** The output of a run, on its way to a terminal. */
interface LiveOutput {
  /** The run has ended: fulfilled once all that it has printed is written. */
  end(): Promise<void>;
}

/** Soon enough to look live. */
const POLL_MS = 40;

/**
 * Hands on what a run writes to its file: safe to show, and none of it lost when the file goes.
 *
 * @returns null where there is no such file
 */
function followOutput(path: string | null, write: (text: string) => void): LiveOutput | null {
  if (path === null) return null;
  let isRunning = true;
  const { signal } = new AbortController();
  const pieces = openLiveOutput({ path, isRunning: async () => isRunning, signal, pollMs: POLL_MS });
  if (pieces === null) return null;
  const written = writeAll(pieces, write);
  return {
    end: () => {
      isRunning = false;
      return written;
    },
  };
}

async function writeAll(pieces: AsyncIterable<string>, write: (text: string) => void): Promise<void> {
  let isAtLineStart = true;
  for await (const text of toPrintableLines(pieces)) {
    write(text);
    isAtLineStart = text.endsWith('\n');
  }
  if (!isAtLineStart) write('\n');
}

/** Names the files that somebody has written to be run, and that no pass runs. */
export async function tellNeverRun({ stderr }: CommandContext, { root, settings }: Runner): Promise<void> {
  const { discover } = await import('../../discovery/discover.ts');
  const { describeCures, describeNeverRun, findNeverRun } = await import('../../discovery/not-run.ts');
  const found = findNeverRun(root, (await discover(root, settings)).ignored);
  if (found.length > 0) stderr.write(`Note: ${describeNeverRun(found)}\n  → ${describeCures(found)}\n`);
}

/** Names the folders that look like tiers, and that no crontab line can call: whoever runs a tier may miss one. */
export function tellMisnamed({ stderr }: CommandContext, { root }: Runner): void {
  for (const tier of tierNames(root)) {
    const reason = describeMisnamed(tier);
    if (reason !== null) stderr.write(`Note: jobs/${tier} is ${reason}\n`);
  }
}
