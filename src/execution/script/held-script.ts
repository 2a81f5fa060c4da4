import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { readFreeMemory } from '../../system/process/memory.ts';
import {
  closeOutput,
  createRunFiles,
  heldOutputOf,
  type OpenOutput,
  type RunFiles,
  removeRunFiles,
  runFilesOf,
} from '../run-files.ts';
import { type StartedProcess, startProcess } from '../start/process.ts';
import type { RunRequest } from '../start/request.ts';
import { signalGroup } from '../watch/terminate.ts';

/**
 * Longest time that a process waits for its turn, in milliseconds. If the script before it is slow for once, waiting is
 * not worth the memory; and a process much older than its run would count as running too long.
 */
const HOLD_MS = 10_000;

/**
 * The process of a Node script, started before its turn. It waits before anything of the script is loaded. It ends with
 * this process, however that ends.
 */
export interface HeldScript {
  readonly files: RunFiles;
  readonly output: OpenOutput;
  readonly process: StartedProcess;
  /** Lets the script begin. False: its process has ended. */
  release(latenessMs: number): boolean;
  /** Settles when the process has ended, and says whether anything of the script was loaded. */
  hasBegun(): Promise<boolean>;
  /** Ends the process if necessary, and removes the files. */
  drop(): Promise<void>;
}

/** Null: it could not be started now. When its turn comes, it is started as usual. */
export async function holdScript(request: RunRequest): Promise<HeldScript | null> {
  const files = runFilesOf(request.state, request.key);
  const hold = { heldOutput: heldOutputOf(files), output: files.output };
  let output: OpenOutput;
  try {
    output = createRunFiles(files, null, true);
  } catch {
    return null;
  }
  // An aborted signal prevents waiting if there is no room now.
  const started = await startProcess({ ...request, stop: AbortSignal.abort() }, files, output, hold);
  if (!('failure' in started)) return toHeld(files, output, started);
  closeOutput(output);
  removeRunFiles(files);
  return null;
}

function toHeld(files: RunFiles, output: OpenOutput, process: StartedProcess): HeldScript {
  const channel = process.channel as NonNullable<StartedProcess['channel']>;
  let hasEnded = false;
  let isRefused = false;
  const timer = setTimeout(() => signalGroup(process.pid, 'SIGKILL'), HOLD_MS).unref();
  const closed = new Promise<void>((resolve) => channel.once('close', resolve));
  // Writing fails if the process has ended; `exited` tells that.
  channel.on('error', () => {});
  channel.on('data', () => {
    isRefused = true;
  });
  const exited = process.exited.then(() => {
    hasEnded = true;
    clearTimeout(timer);
  });
  return {
    files,
    output,
    process,
    release: (latenessMs) => {
      clearTimeout(timer);
      if (!hasEnded) channel.end(String(latenessMs));
      return !hasEnded;
    },
    hasBegun: async () => {
      await closed;
      return !isRefused && !existsSync(heldOutputOf(files));
    },
    drop: async () => {
      if (!hasEnded) signalGroup(process.pid, 'SIGKILL');
      await exited;
      channel.destroy();
      closeOutput(output);
      removeRunFiles(files);
    },
  };
}

/** Enough for two processes of Node and for what their scripts may need. */
const SPARE_MEMORY_BYTES = 512 * 1024 * 1024;
/** Each of Node's threads counts as a process, and scripts start processes of their own. */
const SPARE_PROCESSES = 200;
/** The runner itself has five or six files open per process that it keeps. */
const SPARE_FILES = 256;

/** Whether a process can be started before its turn without hindering the script that runs. */
export function hasRoomToHold(): boolean {
  return availableParallelism() > 1 && hasRoomToSpare();
}

/** Whether the host has room for a process that is not indispensable. */
export function hasRoomToSpare(): boolean {
  const isEnough = (found: number | null, wanted: number): boolean => found === null || found >= wanted;
  const limits = existsSync('/proc/self/limits') ? readFileSync('/proc/self/limits', 'latin1') : '';
  return (
    isEnough(readFreeMemory(), SPARE_MEMORY_BYTES) &&
    isEnough(limitIn(limits, 'processes'), SPARE_PROCESSES) &&
    isEnough(limitIn(limits, 'open files'), SPARE_FILES)
  );
}

/** The limit of `ulimit -u` or `-n`; null: none, or unknown. */
function limitIn(limits: string, what: string): number | null {
  const [, soft] = new RegExp(`^Max ${what}\\s+(\\d+)`, 'm').exec(limits) ?? [];
  return soft === undefined ? null : Number(soft);
}
