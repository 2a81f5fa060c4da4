import { randomUUID } from 'node:crypto';
import {
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readlinkSync,
  renameSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { Script } from '../../discovery/script.ts';
import { toFinishedRun } from '../../execution/result/result.ts';
import { hostOf } from '../../queue/add/scripts.ts';
import { policyOf } from '../../queue/settle/retry-policy.ts';
import type { Runner } from '../../settings/settings.ts';
import { describeStoreFailure } from '../../store/describe-failure.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import { closedPath, newSpoolPath } from '../../store/spool/files.ts';
import {
  SPOOL_VERSION,
  type SpoolEntry,
  type SpooledRun,
  type SpoolFinish,
  type SpoolingWorker,
  type SpoolRecord,
} from '../../store/spool/format.ts';
import { releaseReserve } from '../../store/sqlite/reserve.ts';
import type { NewWorker } from '../../store/statements/workers.ts';
import { listNames } from '../../system/base/values.ts';
import { type StateFolder, stateFolderOf } from '../../system/place/state-folder.ts';
import { usableStateFolder } from '../../system/place/usable.ts';
import type { Invocation } from '../invocation/invocation.ts';
import { type ClaimedRun, type EndedRun, type PassJob, startOf } from './recorder.ts';
import { type PlacedRecorder, type ScriptRun, toScriptRun } from './script-recorder.ts';

/** The place where a worker without a log records its runs. */
export interface OpenSpool {
  readonly recorder: PlacedRecorder;
  /** Adds ends of runs that have begun in the log. */
  append(entry: SpoolEntry): void;
  /** Hands the records over to the next process that has the log; never throws. */
  close(): void;
}

/**
 * Finds a place to write, and makes room there.
 *
 * @param reason the words after "because"
 * @throws {UsageError} if nothing can be written anywhere
 */
export function openSpool(call: Invocation, worker: NewWorker, reason: string): OpenSpool {
  const { runner, stop, events } = call;
  const movedTo = findMovedRoot(runner.state);
  if (movedTo !== null) tellMoved(call, movedTo);
  // On a full disk the reserve is the only room.
  releaseReserve(runner.state);
  const state = movedTo === null ? usableStateFolder(runner.root) : stateFolderOf(movedTo);
  const spool = createSpoolWriter(state, { ...worker, reason });
  const waiting = new Set<string>();
  const mayClaim = ({ script }: PassJob): boolean => {
    if (movedTo !== null) return false;
    if (!mayRunAlone(script)) waiting.add(script.name);
    return mayRunAlone(script);
  };
  const recorder = createSpoolRecorder(spool, { state, now: runner.now }, mayClaim);
  return {
    recorder,
    append: (entry) => append(spool, state, entry),
    close: () => {
      if (waiting.size > 0) events.emit('problem', describeWaiting([...waiting]));
      try {
        spool.close({ finishedAt: runner.now(), reason: stop.reason });
      } catch (error) {
        // All ends are recorded: even without its last line the file is taken in.
        events.emit('warning', (error as Error).message);
      }
    },
  };
}

/** Nothing can start under the old path any more; the next pass runs the rest at the new place. */
function tellMoved({ runner, stop, events }: Invocation, movedTo: string): void {
  stop.startNothing(`${runner.root} was moved to ${movedTo}`);
  events.emit(
    'problem',
    `${runner.root} was moved to ${movedTo} during the pass: the next pass there records the finished runs and runs the rest.`,
  );
}

/** Records runs beside the log while it cannot be written; the contents of the log are unknown then. */
function createSpoolRecorder(
  spool: SpoolWriter,
  { state, now }: Pick<Runner, 'state' | 'now'>,
  mayClaim: (job: PassJob) => boolean,
): PlacedRecorder {
  const claim = (job: PassJob): ScriptRun[] =>
    mayClaim(job) ? [toScriptRun(job, { key: newSpoolId(), state, claim: null })] : [];
  return {
    state,
    turn: async (ended, then) => {
      for (const each of ended) append(spool, state, toEntry(each));
      const next = then === null || then === 'finish' ? [] : claim(then);
      return { settled: ended.map(() => ({ decision: null, runId: null })), next, isFinished: false };
    },
    // A claim made in the log is released by the process that finds that this worker has ended.
    release: async () => {},
    cancel: async () => {},
    readHistory: async () => ({
      ...{ lastSuccess: null, previouslyCrashed: false, lastDurationMs: null },
    }),
    begin: async (run) => {
      const startedAt = now();
      if (run.claim === null) append(spool, state, { type: 'begun', ...toSpooled(run, startedAt) });
      return startedAt;
    },
    recordProgress: async () => {},
    onDurable: (notify) => notify(null),
  };
}

/** On a full disk the reserve is the only room. */
function append(spool: SpoolWriter, state: StateFolder, entry: SpoolEntry): void {
  try {
    spool.append(entry);
  } catch (error) {
    if (!releaseReserve(state)) throw error;
    spool.append(entry);
  }
}

/** The log knows a run that began there by its claim; the spool identifies its records by ids. */
function toSpooled(run: ClaimedRun, startedAt: number): SpooledRun {
  const { job, key, claim, script } = run;
  const ofPass = 'script' in job ? job : null;
  const onlyHost = ofPass === null ? null : hostOf(ofPass.script);
  return {
    ...{ spoolId: claim === null ? key : newSpoolId(), claim, jobId: job.id },
    ...{ tier: ofPass?.script.tier ?? null, ...(onlyHost !== null && { onlyHost }) },
    ...{ slot: ofPass === null ? run.dueAt : ofPass.scheduledFor },
    ...{ start: startOf(run, startedAt), policy: policyOf(script?.options) },
  };
}

function toEntry({ run, startedAt, end, isRetryable }: EndedRun): SpoolEntry {
  const { result = null, ask: decision = null } = end;
  return { type: 'ended', ...toSpooled(run, startedAt), end: toFinishedRun(end), isRetryable, result, decision };
}

const DESCRIPTORS = '/proc/self/fd';

/**
 * The present place of the root whose log this process has open, if the root was moved as a whole: that is where people
 * look for the runs.
 *
 * @returns null: it was not moved, or its place is unknown
 */
function findMovedRoot({ database }: StateFolder): string | null {
  const moved = listNames(DESCRIPTORS).map(readTarget).find(isLogOfRoot);
  return moved === undefined || isSameFile(moved, database) ? null : rootOf(moved);
}

const isLogOfRoot = (path: string): boolean =>
  path === stateFolderOf(rootOf(path)).database && existsSync(path) && existsSync(join(rootOf(path), 'jobs'));

const rootOf = (database: string): string => dirname(dirname(database));

/** '' for a descriptor without a name, such as the one by which this folder itself was read. */
function readTarget(fd: string): string {
  try {
    return readlinkSync(join(DESCRIPTORS, fd));
  } catch {
    return '';
  }
}

function isSameFile(one: string, other: string): boolean {
  const [first, second] = [one, other].map((path) => statSync(path, { throwIfNoEntry: false }));
  return first?.ino === second?.ino && first?.dev === second?.dev;
}

/** A worker's spool file, open for appending. */
interface SpoolWriter {
  /**
   * Once it returns, the record survives a power loss.
   *
   * @throws {SpoolError} if the record could not be written; the file is unchanged, and the same record may be tried
   * again
   */
  append(entry: SpoolEntry): void;
  /**
   * Ends the file: from now on any worker that has the log takes it in.
   *
   * @throws {SpoolError} if the last line could not be written; the file is handed over nevertheless
   */
  close(finish: Omit<SpoolFinish, 'type'>): void;
}

/** A record that is not on the disk; `code` comes from the file system: `ENOSPC` … */
class SpoolError extends Error {
  override readonly name = 'SpoolError';
  readonly code: string | undefined;

  constructor(path: string, cause: unknown) {
    const { code, message } = cause as NodeJS.ErrnoException;
    super(`${path} cannot be written: ${message}`, { cause });
    this.code = code;
  }
}

/** Identifies a run; also the name of its files, because the log has no number for it. */
export function newSpoolId(): string {
  return randomUUID();
}

/**
 * Makes the worker's spool file, with its first line on the disk.
 *
 * @throws {SpoolError} if it cannot be made; nothing is left behind then
 */
export function createSpoolWriter(state: StateFolder, worker: SpoolingWorker): SpoolWriter {
  const path = newSpoolPath(state, worker);
  const fd = orSpoolError(path, () => createFile(state.spool, path));
  const lines = createLineFile(path, fd);
  try {
    lines.append({ type: 'worker', version: SPOOL_VERSION, spoolId: newSpoolId(), ...worker });
    orSpoolError(path, () => syncFolder(state.spool));
  } catch (error) {
    closeSync(fd);
    unlinkSync(path);
    throw error;
  }
  return {
    append: (entry) => lines.append(entry),
    close: (finish) => {
      try {
        lines.append({ type: 'finished', ...finish });
      } finally {
        closeSync(fd);
        orSpoolError(path, () => handOver(path, state.spool));
      }
    },
  };
}

function createFile(folder: string, path: string): number {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return openSync(path, 'wx', 0o600);
}

function handOver(path: string, folder: string): void {
  renameSync(path, closedPath(path));
  syncFolder(folder);
}

/** Without this, a power loss could leave the file's bytes on the disk without a name. */
function syncFolder(path: string): void {
  const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Adds whole lines or nothing: each line is written behind the last one that is known to be on the disk. */
function createLineFile(path: string, fd: number) {
  let length = 0;
  let isTorn = false;
  const cut = (): void => {
    ftruncateSync(fd, length);
    isTorn = false;
  };
  return {
    append(record: SpoolRecord): void {
      const line = Buffer.from(`${JSON.stringify(record)}\n`);
      orSpoolError(path, () => {
        if (isTorn) cut();
        isTorn = true;
        try {
          writeWhole(fd, line, length);
          fsyncSync(fd);
        } catch (error) {
          ignoreFailure(cut);
          throw error;
        }
        isTorn = false;
        length += line.length;
      });
    },
  };
}

/** A disk that becomes full first takes a part, and fails for the rest. */
function writeWhole(fd: number, bytes: Buffer, position: number): void {
  for (let written = 0; written < bytes.length; ) {
    written += writeSync(fd, bytes, written, bytes.length - written, position + written);
  }
}

/** The half line is cut off before the next one is written, or dropped by its reader. */
function ignoreFailure(work: () => void): void {
  try {
    work();
  } catch {}
}

function orSpoolError<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new SpoolError(path, error);
  }
}

/**
 * Whether a script runs while the log cannot be read. A log in a file concerns this machine only, which knows its own
 * runs.
 */
export function mayRunAlone({ options }: Pick<Script, 'options'>): boolean {
  return options.offline === 'run' || !isOnServer();
}

const MOST_NAMED = 5;

/** One sentence that says why these scripts do not run for now. */
export function describeWaiting(names: readonly string[]): string {
  const more = names.length - MOST_NAMED;
  const named = `${names.slice(0, MOST_NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  const [verb, tag] = names.length === 1 ? ['waits', 'it has'] : ['wait', 'they have'];
  return `${named} ${verb} until the database is back, unless ${tag} the tag \`@offline run\`.`;
}

/**
 * Leaves ends of queued jobs to this machine's next invocation, which delivers them. Until then another machine may
 * take the jobs over, once their leases have expired; its result then counts.
 */
export function spoolEnds(call: Invocation, worker: NewWorker, ended: readonly EndedRun[], error: unknown): void {
  const spool = openSpool(call, worker, describeStoreFailure(error, call.runner.state));
  try {
    for (const run of ended) spool.append(toEntry(run));
  } finally {
    spool.close();
  }
}
