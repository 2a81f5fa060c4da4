import { setTimeout as wait } from 'node:timers/promises';
import type { Kysely } from 'kysely';
import type { StateFolder } from '../config/state-folder.ts';
import { runFilesOf } from '../execution/run-files.ts';
import type { ActivityLog } from '../store/schema.ts';
import { describeError } from './describe-error.ts';
import { openLiveOutput } from './follow-output.ts';
import { formatDuration } from './format.ts';
import { printableLine } from './printable.ts';
import { toPrintableLines } from './printable-lines.ts';
import { readRunOutput } from './read-output.ts';
import type { RunRecord } from './run-record.ts';
import { isStillRunning } from './select-running.ts';
import { selectNewestRun, selectRun } from './select-runs.ts';
import type { TextOutput } from './text-output.ts';

export interface Tail {
  readonly db: Kysely<ActivityLog>;
  readonly state: StateFolder;
  /** Its full name. */
  readonly script: string;
  readonly isFollowing: boolean;
  /** Ends everything, at once and quietly. */
  readonly signal: AbortSignal;
  readonly output: TextOutput;
  /** Takes what is about the run and not of it. */
  readonly note: (text: string) => void;
}

/** Short enough to look live, long enough to cost nothing. */
const POLL_MS = 200;

/** Writes the output of the newest run; following, of the one that goes on or of the next. */
export async function tailScript(tail: Tail): Promise<void> {
  const newest = await selectNewestRun(tail.db, tail.script);
  if (!tail.isFollowing) {
    if (newest === null) tail.note(`${printableLine(tail.script)} has never run.`);
    else await writeRun(tail, newest);
    return;
  }
  const isRunning = newest !== null && (await isStillRunning(tail.db, newest.id));
  const run = isRunning ? newest : await waitForNextRun(tail, newest?.id ?? 0);
  if (run !== null) await writeRun(tail, run);
}

/** What is said before waiting for a script's next run. */
export function describeWait(script: string, hasRun: boolean): string {
  const state = hasRun
    ? 'is not running; waiting for its next run'
    : 'has never run; waiting for its first run';
  return `${printableLine(script)} ${state} (Ctrl-C ends).`;
}

async function waitForNextRun(tail: Tail, lastId: number): Promise<RunRecord | null> {
  tail.note(describeWait(tail.script, lastId > 0));
  while (!tail.signal.aborted) {
    const newest = await selectNewestRun(tail.db, tail.script);
    if (newest !== null && newest.id > lastId) return newest;
    await pause(tail);
  }
  return null;
}

async function writeRun(tail: Tail, run: RunRecord): Promise<void> {
  const isLive = tail.isFollowing && run.outcome === 'running';
  const pieces = isLive ? liveOutput(tail, run.id) : storedOutput(tail, run.id);
  let isAtLineStart = true;
  for await (const text of toPrintableLines(pieces)) {
    if (!(await tail.output.write(text))) return;
    isAtLineStart = text.endsWith('\n');
  }
  if (!isAtLineStart) await tail.output.write('\n');
  if (!tail.signal.aborted) await noteEnd(tail, run.id);
}

/** The file where the run writes, as soon as there is one; the log, if the run ended before that. */
async function* liveOutput(tail: Tail, id: number): AsyncGenerator<string> {
  const { path, isRunning } = {
    path: runFilesOf(tail.state, id).output,
    isRunning: () => isStillRunning(tail.db, id),
  };
  while (!tail.signal.aborted) {
    const goesOn = await isRunning();
    const live = openLiveOutput({ path, isRunning, signal: tail.signal, pollMs: POLL_MS });
    if (live !== null) return yield* live;
    if (!goesOn) return yield* storedOutput(tail, id);
    await pause(tail);
  }
}

async function* storedOutput(tail: Tail, id: number): AsyncGenerator<string> {
  const run = await selectRun(tail.db, id);
  if (run !== null) yield* readRunOutput(tail.state, run, true);
}

async function noteEnd(tail: Tail, id: number): Promise<void> {
  const run = await selectRun(tail.db, id);
  if (run === null) return;
  const name = `run ${run.id} of ${printableLine(run.script)}`;
  if (run.outcome === 'running') {
    const goesOn = await isStillRunning(tail.db, id);
    tail.note(
      goesOn ? `${name} goes on; -f follows it.` : `${name} was cut off: its process is gone.`,
    );
  } else if (run.outcome === 'succeeded') {
    tail.note(`${name} succeeded in ${formatDuration(run.durationMs)}.`);
  } else tail.note(`${name}: ${run.outcome}, ${describeError(run, '')}.`);
}

/** An abort ends the wait at once. */
async function pause({ signal }: Tail): Promise<void> {
  await wait(POLL_MS, undefined, { signal }).catch(() => undefined);
}
