import { closeSync, createReadStream, fstatSync, readSync } from 'node:fs';
import { StringDecoder } from 'node:string_decoder';
import { setTimeout as wait } from 'node:timers/promises';
import type { LogView } from '../../../discovery/site.ts';
import { readPieces } from '../../../execution/result/output.ts';
import { runFilesOf } from '../../../execution/run-files.ts';
import { readNotes } from '../../../execution/secret-notes.ts';
import { maskSecrets } from '../../../execution/secrets.ts';
import { formatDuration } from '../../../system/base/format.ts';
import { openPlainFile } from '../../../system/base/plain-file.ts';
import { printableLine, toPrintableLines } from '../../../system/base/text.ts';
import { keptOutputPath, type StateFolder } from '../../../system/place/state-folder.ts';
import type { TextOutput } from '../../terminal/screen.ts';
import { describeRunError, describeWarning } from '../../text/words.ts';
import { isStillRunning, type RunRecord } from './run.ts';
import { type RunWithOutput, selectNewestRun, selectRun } from './runs.ts';

/**
 * Yields the output of a run piece by piece: head and tail as the log holds them, or with `isFull` all that is kept.
 * For a run without an end in the log, it is the output so far.
 */
export async function* readRunOutput(state: StateFolder, run: RunWithOutput, isFull: boolean): AsyncGenerator<string> {
  const { filesKey, outputFile, output } = run;
  if (filesKey !== null) yield* readSoFar(state, runFilesOf(state, filesKey).output);
  else if (isFull && outputFile !== null) yield* readKeptFile(state, outputFile, output);
  else if (output !== null) yield output;
}

/** If the file is gone or damaged, the text says it. */
async function* readKeptFile(state: StateFolder, file: string, ends: string | null): AsyncGenerator<string> {
  const path = keptOutputPath(state, file);
  if (path === null) {
    yield '\n[… what the log says of the whole output is not the name of such a file; head and tail follow …]\n';
    yield ends ?? '';
    return;
  }
  try {
    yield* unzip(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    yield `\n[… ${path} cannot be read (${code ?? 'damaged'}); head and tail from the log follow …]\n`;
    yield ends ?? '';
  }
}

async function* unzip(path: string): AsyncGenerator<string> {
  const file = createReadStream(path, { fd: openPlainFile(path) });
  const unzipped = process.getBuiltinModule('node:zlib').createGunzip().setEncoding('utf8');
  file.on('error', (error) => unzipped.destroy(error));
  try {
    yield* file.pipe(unzipped) as AsyncIterable<string>;
  } finally {
    file.destroy();
  }
}

interface LiveOutput {
  /** The file that the run writes to; it goes away when the run has ended. */
  readonly path: string;
  /** Whether the run still goes on. */
  readonly isRunning: () => Promise<boolean>;
  readonly signal: AbortSignal;
  readonly pollMs: number;
}

const CHUNK_BYTES = 64 * 1024;

/**
 * Yields the output of a running run, from its beginning, until the run ends or the signal is given. Null at once if
 * there is no such file: the run has ended, or has not begun to write.
 */
export function openLiveOutput(live: LiveOutput): AsyncGenerator<string> | null {
  const bytes = openLiveBytes(live);
  return bytes && decode(bytes);
}

async function* decode(bytes: AsyncGenerator<Buffer>): AsyncGenerator<string> {
  const decoder = new StringDecoder('utf8');
  for await (const piece of bytes) yield decoder.write(piece);
}

/** The same as the run has written it. A piece is valid until the next one is asked for. */
export function openLiveBytes(live: LiveOutput): AsyncGenerator<Buffer> | null {
  const fd = openIfThere(live.path);
  return fd === null ? null : follow(fd, live);
}

/** Once open, the file can be read to its end even after it was removed. */
async function* follow(fd: number, live: LiveOutput): AsyncGenerator<Buffer> {
  const reader = new GrowingFile(fd);
  try {
    while (!live.signal.aborted) {
      // Asked before reading: what is written between the two would be missed the other way round.
      const isRunning = await live.isRunning();
      yield* reader.readNew();
      if (!isRunning) return;
      await waitForOutput(live);
    }
  } finally {
    closeSync(fd);
  }
}

/** Yields the present content of the file without later additions, masked as its runner will do it. */
async function* readSoFar(state: StateFolder, path: string): AsyncGenerator<string> {
  const fd = openIfThere(path);
  if (fd === null) return;
  try {
    const decoder = new StringDecoder('utf8');
    const pieces = readPieces(fd, 0, fstatSync(fd).size);
    for await (const piece of maskSecrets([], readNotes(state)).stream(pieces)) yield decoder.write(piece);
  } finally {
    closeSync(fd);
  }
}

/** Remembers how far a file was read. */
class GrowingFile {
  readonly #fd: number;
  readonly #chunk = Buffer.alloc(CHUNK_BYTES);
  #position = 0;

  constructor(fd: number) {
    this.#fd = fd;
  }

  *readNew(): Generator<Buffer> {
    const { size } = fstatSync(this.#fd);
    if (size < this.#position) {
      // The runner cut the middle out of a file that grew too long.
      this.#position = size;
      yield Buffer.from('\n[… output left out …]\n');
    }
    while (this.#position < size) {
      const length = Math.min(CHUNK_BYTES, size - this.#position);
      const read = readSync(this.#fd, this.#chunk, 0, length, this.#position);
      if (read === 0) return;
      this.#position += read;
      yield this.#chunk.subarray(0, read);
    }
  }
}

/** Waits for the next look; an abort ends the wait at once. */
async function waitForOutput({ pollMs, signal }: LiveOutput): Promise<void> {
  await wait(pollMs, undefined, { signal }).catch(() => undefined);
}

/** Null: there is no such file. */
export function openIfThere(path: string): number | null {
  try {
    return openPlainFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

interface Tail extends LogView {
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
  const newest = await selectNewestRun(tail, tail.script);
  if (!tail.isFollowing) {
    if (newest === null) tail.note(`${printableLine(tail.script)} has never run.`);
    else await writeRun(tail, newest);
    return;
  }
  const isRunning = newest !== null && (await isStillRunning(tail, newest.id));
  const run = isRunning ? newest : await waitForNextRun(tail, newest);
  if (run !== null) await writeRun(tail, run);
}

/** The message before waiting for a script's next run. */
export function describeTailWait(script: string, hasRun: boolean): string {
  const state = hasRun ? 'is not running; waiting for its next run' : 'has never run; waiting for its first run';
  return `${printableLine(script)} ${state} (Ctrl-C ends).`;
}

async function waitForNextRun(tail: Tail, last: RunRecord | null): Promise<RunRecord | null> {
  if (last !== null) await writeEnd(tail, last);
  const lastId = last?.id ?? 0;
  tail.note(describeTailWait(tail.script, lastId > 0));
  while (!tail.signal.aborted) {
    const newest = await selectNewestRun(tail, tail.script);
    if (newest !== null && newest.id > lastId) return newest;
    await waitForRuns(tail);
  }
  return null;
}

/** As many as `tail` shows. */
const LAST_LINES = 10;

/** The last lines of a run that has ended, and how it did: who waits for the next one knows where things stand. */
async function writeEnd(tail: Tail, run: RunRecord): Promise<void> {
  let text = '';
  for await (const piece of toPrintableLines(storedOutput(tail, run.id, false))) text += piece;
  const lines = text.trimEnd().split('\n').slice(-LAST_LINES).join('\n');
  if (lines !== '') await tail.output.write(`${lines}\n`);
  await noteEnd(tail, run.id);
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
  const isRunning = () => isStillRunning(tail, id);
  const key = (await selectRun(tail, id))?.filesKey ?? null;
  while (key !== null && !tail.signal.aborted) {
    const goesOn = await isRunning();
    const { output: path } = runFilesOf(tail.state, key);
    const live = openLiveOutput({ path, isRunning, signal: tail.signal, pollMs: POLL_MS });
    if (live !== null) return yield* live;
    if (!goesOn) break;
    await waitForRuns(tail);
  }
  yield* storedOutput(tail, id);
}

async function* storedOutput(tail: Tail, id: number, isFull = true): AsyncGenerator<string> {
  const run = await selectRun(tail, id);
  if (run !== null) yield* readRunOutput(tail.state, run, isFull);
}

async function noteEnd(tail: Tail, id: number): Promise<void> {
  const run = await selectRun(tail, id);
  if (run === null) return;
  const name = `run ${run.id} of ${printableLine(run.script)}`;
  if (run.outcome === 'running') {
    const goesOn = await isStillRunning(tail, id);
    tail.note(goesOn ? `${name} is still running; -f follows it.` : `${name}: ${run.reason}.`);
  } else if (run.outcome === 'succeeded') {
    const warning = run.warning === null ? '' : `, with a ${describeWarning(run.warning)}`;
    tail.note(`${name} succeeded in ${formatDuration(run.durationMs)}${warning}.`);
  } else tail.note(`${name}: ${run.outcome}, ${describeRunError(run, '')}.`);
}

/** An abort ends the wait at once. */
async function waitForRuns({ signal }: Tail): Promise<void> {
  await wait(POLL_MS, undefined, { signal }).catch(() => undefined);
}
