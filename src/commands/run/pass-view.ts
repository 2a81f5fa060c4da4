import type { RunEnd } from '../../execution/result/result.ts';
import type { Screen } from '../../report/terminal/screen.ts';
import { joinFitting, truncate, truncateMiddle, widthOf, wrap } from '../../report/terminal/table.ts';
import { describeWarning } from '../../report/text/words.ts';
import { isFailure } from '../../store/words.ts';
import { countSucceeded, formatBytes, formatDuration, hasWarning } from '../../system/base/format.ts';
import { firstLine, printable, printableLine } from '../../system/base/text.ts';
import type { PassStarted, RunFinished, RunStarted, WorkerEvents } from '../../worker/invocation/invocation.ts';

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const FRAME_MS = 80;

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
    const released = ended.length - succeeded - failed;
    const warned = ended.filter(({ end }) => hasWarning(end)).length;
    const counts = [countSucceeded(succeeded, warned)];
    if (failed > 0) counts.push(`${failed} did not`);
    if (released > 0) counts.push(`${released} released`);
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
  const said = printable(output.text).trimEnd().split('\n').slice(-LAST_LINES);
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
export interface Work {
  readonly succeeded: number;
  readonly failed: number;
  readonly released: number;
  readonly running: readonly string[];
  readonly elapsedMs: number;
}

export function drawWork(work: Work, room: Pick<Room, 'columns'>): string {
  const { succeeded, failed, released, running, elapsedMs } = work;
  const givenBack = released === 0 ? '' : `, ${released} released`;
  const done = `${succeeded} succeeded, ${failed} failed${givenBack}`;
  const perSecond = Math.round(((succeeded + failed + released) * 1000) / Math.max(elapsedMs, 1));
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
