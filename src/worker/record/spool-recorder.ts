import { existsSync, readlinkSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { listNames } from '../../base/values.ts';
import { toFinishedRun } from '../../execution/result/result.ts';
import type { WorkerRequest } from '../../lock/registry.ts';
import { type StateFolder, stateFolderOf } from '../../place/state-folder.ts';
import { usableStateFolder } from '../../place/usable.ts';
import { policyOf } from '../../queue/settle/retry-policy.ts';
import type { Runner } from '../../settings/settings.ts';
import type { SpoolEntry, SpoolRun } from '../../spool/format.ts';
import { createSpoolWriter, newSpoolId, type SpoolWriter } from '../../spool/write.ts';
import { releaseReserve } from '../../store/sqlite/reserve.ts';
import type { Invocation } from '../invocation/invocation.ts';
import {
  type BegunRun,
  type ClaimedRun,
  type PassJob,
  type RunRecorder,
  toBegun,
} from './run-recorder.ts';

/** What a worker records its runs in that has no log. */
export interface OpenSpool {
  readonly recorder: RunRecorder;
  /** Hands the records over to whoever has the log next. */
  close(): void;
}

/**
 * Finds a place to write, and makes room there.
 *
 * @param reason what follows "because"
 * @throws {UsageError} when nothing at all can be written
 */
export function openSpool(call: Invocation, worker: WorkerRequest, reason: string): OpenSpool {
  const { runner, stop } = call;
  const movedTo = findMovedRoot(runner.state);
  if (movedTo !== null) tellMoved(call, movedTo);
  // On a full disk there is no other room than what was kept for this.
  releaseReserve(runner.state);
  const state = movedTo === null ? usableStateFolder(runner.root) : stateFolderOf(movedTo);
  const spool = createSpoolWriter(state, { ...worker, reason });
  const recorder = createSpoolRecorder(spool, { state, now: runner.now });
  return {
    recorder: movedTo === null ? recorder : { ...recorder, claim: async () => null },
    close: () => spool.close({ finishedAt: runner.now(), reason: stop.reason }),
  };
}

/** By its old path nothing can be started any more; what is left the next pass runs at the new place. */
function tellMoved({ runner, stop, events }: Invocation, movedTo: string): void {
  stop.startNothing(`${runner.root} was moved to ${movedTo}`);
  events.emit(
    'problem',
    `${runner.root} was moved to ${movedTo} during the pass: the next pass there records the finished runs and runs the rest.`,
  );
}

/** Records runs beside the log, for as long as it cannot be written; what the log knows is unknown then. */
function createSpoolRecorder(
  spool: SpoolWriter,
  { state, now }: Pick<Runner, 'state' | 'now'>,
): RunRecorder {
  const write = (entry: SpoolEntry): void => append(spool, state, entry);
  const claim = (job: PassJob): ClaimedRun => ({ ...job, key: newSpoolId(), state, claim: null });
  return {
    claim: async (job) => claim(job),
    // What was claimed in the log is given back by whoever finds that this worker has ended.
    release: async () => {},
    readHistory: async () => ({
      ...{ lastSuccess: null, previouslyCrashed: false, lastDurationMs: null },
    }),
    begin: async (claimed) => {
      const run = toBegun(claimed, now());
      if (run.claim === null) write({ type: 'begun', ...toSpoolRun(run) });
      return run;
    },
    recordProgress: async () => {},
    end: async ({ run: begun, end, isRetryable }, next) => {
      const { claim: ref, script } = begun;
      const run = toFinishedRun(end);
      const policy = policyOf(script.options);
      const told = { ...toSpoolRun(begun), run };
      if (ref === null) write({ type: 'run', ...told });
      else write({ type: 'end', ...told, claim: { ...ref, runId: null }, policy, isRetryable });
      return { decision: null, runId: null, next: next && claim(next) };
    },
    onDurable: (notify) => notify(),
  };
}

/** On a full disk there is no other room than what was kept for this. */
function append(spool: SpoolWriter, state: StateFolder, entry: SpoolEntry): void {
  try {
    spool.append(entry);
  } catch (error) {
    if (!releaseReserve(state)) throw error;
    spool.append(entry);
  }
}

/** A run that began in the log is known there by its claim; the spool tells its records apart by ids. */
function toSpoolRun({ key, claim, script, timeoutMs, ...run }: BegunRun): SpoolRun {
  return {
    spoolId: claim === null ? key : newSpoolId(),
    jobId: run.id,
    script: script.name,
    tier: script.tier,
    attempt: run.attempt,
    scheduledFor: run.scheduledFor,
    startedAt: run.startedAt,
    timeoutMs,
    contentHash: script.contentHash,
  };
}

const DESCRIPTORS = '/proc/self/fd';

/**
 * Where the root is by now whose log this process has open, if it was moved as a whole: who looks for
 * what ran will look there.
 *
 * @returns null: it was not moved, or nobody can tell where it is
 */
function findMovedRoot({ database }: StateFolder): string | null {
  const moved = listNames(DESCRIPTORS).map(readTarget).find(isLogOfRoot);
  return moved === undefined || isSameFile(moved, database) ? null : rootOf(moved);
}

const isLogOfRoot = (path: string): boolean =>
  path === stateFolderOf(rootOf(path)).database &&
  existsSync(path) &&
  existsSync(join(rootOf(path), 'jobs'));

const rootOf = (database: string): string => dirname(dirname(database));

/** '' of what has no name: of the descriptor by which the folder itself was read, for one. */
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
