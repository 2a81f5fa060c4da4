import { createLogUpdate } from 'log-update';
import { discover } from '../../discovery/discover.ts';
import { tierNames } from '../../discovery/jobs-folder.ts';
import { describeCures, describeNeverRun, findNeverRun } from '../../discovery/not-run.ts';
import type { RunEnd } from '../../execution/result/result.ts';
import { openLiveOutput } from '../../report/model/runs/output.ts';
import { createScreen, type Screen } from '../../report/terminal/screen.ts';
import { joinFitting, truncate, truncateMiddle, widthOf, wrap } from '../../report/terminal/table.ts';
import { describeWarning } from '../../report/text/words.ts';
import { describeMisnamed } from '../../schedule/period.ts';
import type { Runner, Settings } from '../../settings/settings.ts';
import { isFailure } from '../../store/words.ts';
import { countSucceeded, formatBytes, formatDuration, hasWarning } from '../../system/base/format.ts';
import {
  firstLine,
  printable,
  printableLine,
  printableOutput,
  toPrintableLines,
  withInstants,
} from '../../system/base/text.ts';
import type { PassStarted, RunFinished, RunStarted, WorkerEvents } from '../../worker/invocation/invocation.ts';
import type { CommandContext } from '../shared/context.ts';
import type { RunCounts } from './run-tier.ts';

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
export function showWorkProgress(context: CommandContext, events: WorkerEvents, counts: RunCounts): void {
  const terminal = openTerminal(context);
  const running = new Map<string, string>();
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
  events.on('deferred', (text) => warn(withInstants(text, room().clock.short)));
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

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

type Room = Pick<Screen, 'columns' | 'palette'>;

interface Running {
  readonly script: string;
  readonly startedAt: number;
}

/**
 * The progress of a pass on a terminal: its runs, its position, and the end of each run. Instants are those of
 * `performance.now()`. No line is wider than the terminal, and nothing is shown twice.
 */
export class PassView {
  readonly #pass: PassStarted;
  readonly #startedAt: number;
  readonly #running = new Map<string, Running>();
  readonly #ended: RunFinished[] = [];
  readonly #usualMs = new Map<string, number>();
  readonly #concurrency: number;

  /** @param concurrency how many of its scripts run at the same time */
  constructor(pass: PassStarted, startedAt: number, concurrency = 1) {
    this.#pass = pass;
    this.#startedAt = startedAt;
    this.#concurrency = concurrency;
  }

  /** Sets a script's usual duration, known from earlier runs. */
  setUsual(script: string, usualMs: number): void {
    this.#usualMs.set(script, usualMs);
  }

  start({ key, script }: Pick<RunStarted, 'key' | 'script'>, startedAt: number): void {
    this.#running.set(key, { script, startedAt });
  }

  end(run: RunFinished): void {
    this.#running.delete(run.key);
    this.#ended.push(run);
  }

  /** A line for each script that runs, and one that says how far the pass is. */
  drawRunning(room: Room, at: number): string[] {
    if (this.#running.size === 0) return [];
    const spinner = FRAMES[Math.floor(at / FRAME_MS) % FRAMES.length] ?? '';
    const lines = [...this.#running.values()].map(({ script, startedAt }) => {
      const usual = this.#usualMs.get(script);
      const expected = usual === undefined || usual < 1000 ? '' : ` of about ${formatDuration(roundTime(usual))}`;
      const elapsed = formatDuration(at - startedAt) + expected;
      return `${room.palette.live(spinner)} ${this.#fitName(script, room)}  ${elapsed}`;
    });
    const progress = this.#describeProgress(at);
    return [...lines, ...(progress === '' ? [] : [room.palette.dim(progress)])].map((line) =>
      truncate(line, room.columns),
    );
  }

  /** `12 of 60 · about 40s left`; nothing of a single script. */
  #describeProgress(at: number): string {
    const { length } = this.#pass.scripts;
    if (length < 2) return '';
    return [`${this.#ended.length} of ${length}`, this.#describeLeft(at)].filter(Boolean).join(' · ');
  }

  #describeLeft(at: number): string {
    const begun = new Set([...this.#ended, ...this.#running.values()].map(({ script }) => script));
    const waiting = this.#pass.scripts.filter((script) => !begun.has(script));
    const unknown = [...waiting, ...[...this.#running.values()].map(({ script }) => script)].some(
      (script) => !this.#usualMs.has(script),
    );
    const ofWaiting = waiting.map((script) => this.#usualMs.get(script) ?? 0);
    const ofRunning = [...this.#running.values()].map(({ script, startedAt }) =>
      Math.max(0, (this.#usualMs.get(script) ?? 0) - (at - startedAt)),
    );
    const leftMs = [...ofWaiting, ...ofRunning].reduce((sum, ms) => sum + ms, 0) / this.#concurrency;
    if (leftMs < 1000) return '';
    return `${unknown ? 'at least' : 'about'} ${formatDuration(roundTime(leftMs))} left`;
  }

  /** How a run has ended; of one that failed also why, and the last that it said. */
  drawEnd(run: RunFinished, room: Room, hasOutput = true): string[] {
    const { script, end } = run;
    const { palette } = room;
    const { sign, paint } = lookOf(end, palette);
    const outcome = paint(end.outcome) + ' '.repeat(Math.max(0, OUTCOME_COLUMNS - end.outcome.length));
    const figures = `${formatDuration(end.durationMs).padStart(8)}  ${formatBytes(end.maxRssBytes).padStart(8)}`;
    const line = `${paint(sign)} ${this.#fitName(script, room)}  ${outcome}  ${figures}`;
    const reason = end.reason === null ? '' : firstLine(end.reason);
    const isShort = widthOf(`${line}  ${reason}`) <= room.columns;
    const below = [...(isShort ? [] : [reason]), ...(isFailure(end.outcome) ? describeNext(run) : [])];
    return [
      reason !== '' && isShort ? `${line}  ${reason}` : truncate(line, room.columns),
      ...indent(joinFitting(below.filter(Boolean), room.columns - 2)),
      ...(end.warning === null
        ? []
        : indent(wrap(describeWarning(end.warning), room.columns - 2)).map(palette.warning)),
      ...(hasOutput && isFailure(end.outcome) ? drawOutput(run, room) : []),
    ];
  }

  /** Draws the result of the pass. */
  drawSummary(room: Pick<Room, 'columns'>, at: number): string[] {
    return wrap(this.#describe(at), room.columns);
  }

  #describe(at: number): string {
    const { scripts, hasScripts } = this.#pass;
    const tier = printableLine(this.#pass.tier);
    if (!hasScripts) return `jobs/${tier} contains no scripts.`;
    const ended = this.#ended;
    if (scripts.length === 0 && ended.length === 0)
      return `${tier}: nothing to run now; \`npx folder-runner status\` shows why.`;
    const succeeded = ended.filter(({ end }) => end.outcome === 'succeeded').length;
    const failed = ended.filter(({ end }) => isFailure(end.outcome)).length;
    const stopped = ended.filter(({ end }) => end.outcome === 'stopped').length;
    const released = ended.length - succeeded - failed - stopped;
    const warned = ended.filter(({ end }) => hasWarning(end)).length;
    const counts = [countSucceeded(succeeded, warned)];
    if (failed > 0) counts.push(`${failed} did not`);
    if (released > 0) counts.push(`${released} released`);
    if (stopped > 0) counts.push(`${stopped} stopped`);
    if (scripts.length > ended.length) counts.push(`${scripts.length - ended.length} not started`);
    return `${tier}: ${counts.join(', ')}, in ${formatDuration(at - this.#startedAt)}`;
  }

  /** As wide as the longest name, where the rest of the line leaves that. */
  #fitName(script: string, { columns }: Pick<Room, 'columns'>): string {
    const names = this.#pass.scripts.includes(script) ? this.#pass.scripts : [...this.#pass.scripts, script];
    const longest = Math.max(...names.map((name) => widthOf(printableLine(name))));
    const width = Math.min(longest, WIDEST_NAME, Math.max(NARROWEST_NAME, columns - COLUMNS_BESIDE_NAME));
    const name = truncateMiddle(printableLine(script), width);
    return name + ' '.repeat(Math.max(0, width - widthOf(name)));
  }
}

/** `not-started` is the longest. */
const OUTCOME_COLUMNS = 11;

/** The sign, the outcome, two figures, and the gaps between. */
const COLUMNS_BESIDE_NAME = 2 + 2 + OUTCOME_COLUMNS + 2 + 8 + 2 + 8;
const NARROWEST_NAME = 8;
/** Because of one long name the outcomes of all others are not to stand far away from theirs. */
const WIDEST_NAME = 60;

/** More is in the log; less would often hide the reason. */
const LAST_LINES = 5;

/** Below a failure: the last that it printed, or where in its code it threw. */
function drawOutput({ end }: RunFinished, { palette, columns }: Room): string[] {
  const { error, output } = end;
  const said = printableOutput(output.text).trimEnd().split('\n').slice(-LAST_LINES);
  // The output of an uncaught error ends with its stack; the place of the error says as much.
  const place = findPlace(error?.stack ?? '');
  const lines = place === null ? said.map((line) => `| ${line}`) : [place];
  const isSilent = place === null && said.join('') === '';
  return isSilent ? [] : lines.map((line) => palette.dim(`  ${truncate(line, columns - 2)}`));
}

/** The first line of a stack that is in a file, and not in Node itself. */
function findPlace(stack: string): string | null {
  const frames = printable(stack)
    .split('\n')
    .map((line) => line.trim());
  return frames.find((line) => /^at .*[/\\]/.test(line) && !line.includes('node:')) ?? null;
}

/** How to see all of it, and when it is tried again. */
function describeNext({ runId, jobId, nextTryAt, end }: RunFinished): string[] {
  return [
    ...(runId === null ? [] : [`\`npx folder-runner show ${runId}\``]),
    ...(jobId === null ? [] : [`\`npx folder-runner job ${jobId}\``]),
    ...(nextTryAt === null ? [] : [`retried in ${formatDuration(Math.max(0, nextTryAt - end.finishedAt))} or later`]),
  ];
}

function lookOf(end: Pick<RunEnd, 'outcome' | 'warning'>, { good, bad, warning }: Screen['palette']) {
  const { outcome } = end;
  if (hasWarning(end)) return { sign: '!', paint: warning };
  if (outcome === 'succeeded') return { sign: '✔', paint: good };
  return isFailure(outcome) ? { sign: '✖', paint: bad } : { sign: '↻', paint: warning };
}

const indent = (lines: readonly string[]): string[] => lines.map((line) => `  ${line}`);

/** To what somebody who waits counts in. */
function roundTime(ms: number): number {
  const step = ms < 10_000 ? 1_000 : ms < 60_000 ? 5_000 : 10_000;
  return Math.max(step, Math.round(ms / step) * step);
}

/** `queue: 12 succeeded, 1 failed in 3s (4/s), running mail/welcome`. */
interface Work extends RunCounts {
  readonly running: readonly string[];
  readonly elapsedMs: number;
}

export function drawWork(work: Work, room: Pick<Room, 'columns'>): string {
  const { succeeded, failed, released, stopped, running, elapsedMs } = work;
  const givenBack = released === 0 ? '' : `, ${released} released`;
  const ended = stopped === 0 ? '' : `, ${stopped} stopped`;
  const done = `${succeeded} succeeded, ${failed} failed${givenBack}${ended}`;
  const perSecond = Math.round(((succeeded + failed + released + stopped) * 1000) / Math.max(elapsedMs, 1));
  const now = running.length === 0 ? '' : `, running ${running.map(printableLine).join(', ')}`;
  return truncate(`queue: ${done} in ${formatDuration(elapsedMs)} (${perSecond}/s)${now}`, room.columns);
}

/** A job of the queue that failed: why, and the last that its handler printed. */
export function drawFailure(run: RunFinished, room: Room): string[] {
  const { script, jobId, end } = run;
  const { bad } = room.palette;
  const parts = [`${bad('✖')} ${printableLine(script)}`, `job ${jobId}`, bad(end.outcome)];
  const reason = end.reason === null ? [] : [firstLine(end.reason)];
  const [first = '', ...more] = joinFitting([...parts, ...reason, ...describeNext(run)], room.columns - 2);
  return [first, ...indent(more), ...drawOutput(run, room)];
}
