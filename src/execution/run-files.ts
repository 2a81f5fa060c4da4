import { closeSync, mkdirSync, openSync, rmdirSync, rmSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { StateFolder } from '../config/state-folder.ts';

/** Where one run's files are while it runs. */
export interface RunFiles {
  /** Standard output and error, in the order they were written. */
  readonly output: string;
  /** What the probe in a Node script leaves behind at its end. */
  readonly result: string;
  /** The script's own temporary folder. */
  readonly temporary: string;
}

export function runFilesOf(state: StateFolder, runId: number | string): RunFiles {
  return {
    output: join(state.output, `${runId}.log`),
    result: join(state.results, `${runId}.json`),
    temporary: join(state.temporary, String(runId)),
  };
}

/** The output file twice; both descriptors are the caller's to close. */
export interface OpenOutput {
  /** The script's: whatever is written goes to the file's end. */
  readonly appendFd: number;
  /** The runner's: a script that removes or renames the file takes nothing out of the log. */
  readonly fd: number;
}

/** Makes the temporary folder and the output file. */
export function createRunFiles(files: RunFiles): OpenOutput {
  try {
    return create(files);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    // A log that was set aside starts its ids anew: what an older run left here is not ours.
    removeRunFiles(files);
    return create(files);
  }
}

function create(files: RunFiles): OpenOutput {
  mkdirSync(files.temporary, { mode: 0o700 });
  return { appendFd: openSync(files.output, 'ax', 0o600), fd: openSync(files.output, 'r+') };
}

export function closeOutput({ appendFd, fd }: OpenOutput): void {
  closeSync(appendFd);
  closeSync(fd);
}

/** To be called once the end is in the log: until then these files are all there is of it. */
export function removeRunFiles(files: RunFiles): void {
  ifPossible(() => unlinkSync(files.output));
  ifPossible(() => unlinkSync(files.result));
  ifPossible(() => removeFolder(files.temporary));
}

/** Most scripts leave it empty, and looking for what is in it takes four times as long. */
function removeFolder(path: string): void {
  try {
    rmdirSync(path);
  } catch {
    rmSync(path, { recursive: true, force: true });
  }
}

/** A script can leave what cannot be removed (read-only, or still written to), or remove it itself. */
export function ifPossible(remove: () => void): void {
  try {
    remove();
  } catch {}
}
