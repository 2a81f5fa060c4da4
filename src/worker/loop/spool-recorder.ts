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
import { ifPossible } from '../../execution/run-files.ts';
import { hostOf } from '../../queue/add/scripts.ts';
import { policyOf } from '../../queue/settle/retry-policy.ts';
import { describeStoreFailure } from '../../store/describe-failure.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import { closedPath, newSpoolPath, SPOOL_VERSION } from '../../store/spool/files.ts';
import type { SpoolEntry, SpooledRun, SpoolFinish, SpoolingWorker, SpoolRecord } from '../../store/spool/read.ts';
import type { NotifyDurable } from '../../store/sqlite/session.ts';
import type { NewWorker } from '../../store/statements/workers.ts';
import { listNames } from '../../system/base/values.ts';
import { usableStateFolder } from '../../system/place/fallback.ts';
import { releaseReserve, type StateFolder, stateFolderOf } from '../../system/place/state-folder.ts';
import type { Invocation } from '../invocation/invocation.ts';
import { type ClaimedRun, type EndedRun, type PassJob, startOf } from './recorder.ts';
import { type KnownHistory, type ScriptRun, type ScriptTurn, toScriptRun } from './script-recorder.ts';

/** Records runs beside the log while it cannot be written; the contents of the log are unknown then. */
export class SpoolRecorder {
  readonly #call: Invocation;
  /** The folder of its runs' files. */
  readonly state: StateFolder;
  readonly #writer: SpoolWriter;
  readonly #isMoved: boolean;
  /** The names of scripts that wait for the log. */
  readonly #waiting = new Set<string>();

  /**
   * Finds a place to write, and makes room there.
   *
   * @param reason the words after "because"
   * @throws {UsageError} if nothing can be written anywhere
   */
  constructor(call: Invocation, worker: NewWorker, reason: string) {
    const { state, root } = call.runner;
    const movedTo = findMovedRoot(state);
    if (movedTo !== null) tellMoved(call, movedTo);
    // On a full disk the reserve is the only room.
    releaseReserve(state);
    this.#call = call;
    this.#isMoved = movedTo !== null;
    this.state = movedTo === null ? usableStateFolder(root) : stateFolderOf(movedTo);
    this.#writer = new SpoolWriter(this.state, { ...worker, reason });
  }

  async turn(ended: readonly EndedRun[], then: PassJob | 'finish' | null): Promise<ScriptTurn> {
    for (const each of ended) this.#append(toEntry(each));
    const next = then === null || then === 'finish' || !this.#mayClaim(then) ? [] : [this.#claim(then)];
    return { settled: ended.map(() => ({ decision: null, runId: null })), next, isFinished: false };
  }

  #mayClaim({ script }: PassJob): boolean {
    if (this.#isMoved) return false;
    const mayRun = mayRunAlone(script);
    if (!mayRun) this.#waiting.add(script.name);
    return mayRun;
  }

  #claim(job: PassJob): ScriptRun {
    return toScriptRun(job, { key: newSpoolId(), state: this.state, claim: null });
  }

  /** A claim made in the log is released by the process that finds that this worker has ended. */
  async release(): Promise<void> {}

  async cancel(): Promise<void> {}

  async readHistory(): Promise<KnownHistory> {
    return { lastSuccess: null, previouslyCrashed: false, lastDurationMs: null };
  }

  async begin(run: ScriptRun): Promise<number> {
    const startedAt = this.#call.runner.now();
    if (run.claim === null) this.#append({ type: 'begun', ...toSpooled(run, startedAt) });
    return startedAt;
  }

  /** Without the log, other processes neither see the run nor can stop it. */
  async recordProgress(): Promise<null> {
    return null;
  }

  onDurable(notify: NotifyDurable): void {
    notify(null);
  }

  /** On a full disk the reserve is the only room. */
  #append(entry: SpoolEntry): void {
    try {
      this.#writer.append(entry);
    } catch (error) {
      if (!releaseReserve(this.state)) throw error;
      this.#writer.append(entry);
    }
  }

  /** Hands the records over to the next process that has the log; never throws. */
  close(): void {
    const { events, runner, stop } = this.#call;
    if (this.#waiting.size > 0) events.emit('problem', describeWaiting([...this.#waiting]));
    try {
      this.#writer.close({ finishedAt: runner.now(), reason: stop.reason });
    } catch (error) {
      // All ends are recorded: even without its last line the file is taken in.
      events.emit('warning', (error as Error).message);
    }
  }
}

/**
 * Leaves ends of queued jobs to this machine's next invocation, which delivers them. Until then another machine may
 * take the jobs over, once their leases have expired; its result then counts.
 */
export async function spoolEnds(
  call: Invocation,
  worker: NewWorker,
  ended: readonly EndedRun[],
  error: unknown,
): Promise<void> {
  const spool = new SpoolRecorder(call, worker, describeStoreFailure(error, call.runner.state));
  await spool.turn(ended, null).finally(() => spool.close());
}

/** Nothing can start under the old path any more; the next pass runs the rest at the new place. */
function tellMoved({ runner, stop, events }: Invocation, movedTo: string): void {
  stop.startNothing(`${runner.root} was moved to ${movedTo}`);
  events.emit(
    'problem',
    `${runner.root} was moved to ${movedTo} during the pass: the next pass there records the finished runs and runs the rest.`,
  );
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
    ...(ofPass?.usedEnds && { usedEnds: ofPass.usedEnds }),
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

/** A worker's spool file, open for appending whole lines. */
export class SpoolWriter {
  readonly #folder: string;
  readonly #path: string;
  readonly #fd: number;
  /** The length of the lines that are known to be on the disk. */
  #length = 0;
  #isTorn = false;

  /**
   * Makes the file, with its first line on the disk.
   *
   * @throws {SpoolError} if it cannot be made; nothing is left behind then
   */
  constructor(state: StateFolder, worker: SpoolingWorker) {
    this.#folder = state.spool;
    this.#path = newSpoolPath(state, worker);
    this.#fd = this.#attempt(() => {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      return openSync(this.#path, 'wx', 0o600);
    });
    try {
      this.append({ type: 'worker', version: SPOOL_VERSION, spoolId: newSpoolId(), ...worker });
      this.#attempt(() => syncFolder(this.#folder));
    } catch (error) {
      closeSync(this.#fd);
      unlinkSync(this.#path);
      throw error;
    }
  }

  /**
   * Once it returns, the record survives a power loss.
   *
   * @throws {SpoolError} if the record could not be written; the file is unchanged, and the same record may be tried
   * again
   */
  append(record: SpoolRecord): void {
    const line = Buffer.from(`${JSON.stringify(record)}\n`);
    this.#attempt(() => {
      if (this.#isTorn) this.#cut();
      this.#isTorn = true;
      try {
        writeWhole(this.#fd, line, this.#length);
        fsyncSync(this.#fd);
      } catch (error) {
        // Otherwise the half line is cut off before the next one is written, or dropped by its reader.
        ifPossible(() => this.#cut());
        throw error;
      }
      this.#isTorn = false;
      this.#length += line.length;
    });
  }

  #cut(): void {
    ftruncateSync(this.#fd, this.#length);
    this.#isTorn = false;
  }

  /**
   * Ends the file: from now on any worker that has the log takes it in.
   *
   * @throws {SpoolError} if the last line could not be written; the file is handed over nevertheless
   */
  close(finish: Omit<SpoolFinish, 'type'>): void {
    try {
      this.append({ type: 'finished', ...finish });
    } finally {
      closeSync(this.#fd);
      this.#attempt(() => {
        renameSync(this.#path, closedPath(this.#path));
        syncFolder(this.#folder);
      });
    }
  }

  #attempt<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw new SpoolError(this.#path, error);
    }
  }
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

/** Without this, a power loss could leave the file's bytes on the disk without a name. */
function syncFolder(path: string): void {
  const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** A disk that becomes full first takes a part, and fails for the rest. */
function writeWhole(fd: number, bytes: Buffer, position: number): void {
  for (let written = 0; written < bytes.length; ) {
    written += writeSync(fd, bytes, written, bytes.length - written, position + written);
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
