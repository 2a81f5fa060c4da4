import { closeSync, fstatSync, mkdirSync, openSync, rmdirSync, unlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { removeTree } from '../child/files.ts';
import { errorCode } from '../system/base/errors.ts';
import type { StateFolder } from '../system/place/state-folder.ts';

/** The paths of one run's files while it runs. */
export interface RunFiles {
  /** Standard output and error, in the order they were written. */
  readonly output: string;
  /** The file that the probe in a Node script leaves at its end. */
  readonly result: string;
  /** The run's own folder, for files that should disappear with the run. */
  readonly temporary: string;
}

/** `12.3`, or the id of a run that began without the log; '' if only the folders are needed. */
const keyForm = /^(?:[\w-]+(?:\.\d+)?)?$/;

/**
 * @param key the key of the run: its claim's token, or the id of a run that began without the log
 * @throws for a key of any other form: it comes from a log that others may write to, and could lead elsewhere
 */
export function runFilesOf(state: StateFolder, key: string): RunFiles {
  if (!keyForm.test(key)) throw new Error(`${JSON.stringify(key.slice(0, 80))} is not the key of a run`);
  // Each run calls this several times, and `join` would become the most frequent work of a pass.
  return {
    output: `${state.output}/${key}.log`,
    result: `${state.results}/${key}.json`,
    temporary: `${state.temporary}/${key}`,
  };
}

/** The name of the output file while the run's process, which was started ahead, waits for its turn. */
export function heldOutputOf({ output }: Pick<RunFiles, 'output'>): string {
  return `${output.slice(0, -'.log'.length)}.held`;
}

/** The output file opened twice, and the input. The caller closes all descriptors. */
export interface OpenOutput {
  /** For the script: all that is written goes to the end of the file. */
  readonly appendFd: number;
  /** For the runner: a script that removes or renames the file does not change what is logged. */
  readonly fd: number;
  /** The script's standard input; null: empty. */
  readonly inputFd: number | null;
}

/** Text or bytes that a script can read on its standard input; null: none. */
type Input = string | Buffer | null;

/**
 * Creates the temporary folder and the output file; from then on the run counts as begun. A process that is started
 * ahead begins by giving the output file its final name.
 */
export function createRunFiles(files: RunFiles, input: Input = null, isHeld = false): OpenOutput {
  const output = isHeld ? heldOutputOf(files) : files.output;
  try {
    return create(files, output, input);
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT') restoreFolders([files.output, files.result, files.temporary]);
    else if (code !== 'EEXIST') throw error;
    // After a log was quarantined, ids start anew: files that an older run left here are not this run's.
    removeRunFiles(files);
    return create(files, output, input);
  }
}

/**
 * Makes the folders of these files again: a script, or a cleaner of the host, may have removed them since the call
 * began. The folder that contains them is not made: without it, this is no longer a state folder.
 */
export function restoreFolders(paths: readonly string[]): void {
  for (const path of paths) ifPossible(() => mkdirSync(dirname(path), { mode: 0o700 }));
}

function create(files: RunFiles, output: string, input: Input): OpenOutput {
  mkdirSync(files.temporary, { mode: 0o700 });
  const [appendFd, fd, inputFd = null] = openAll([
    () => openSync(output, 'ax', 0o600),
    () => openSync(output, 'r+'),
    ...(input === null ? [] : [() => openInput(files, input)]),
  ]);
  return { appendFd: appendFd as number, fd: fd as number, inputFd };
}

/**
 * Opens all of these files, or none: otherwise, on a full disk, a worker would leave more of them open with each run.
 */
export function openAll(opens: readonly (() => number)[]): readonly number[] {
  const opened: number[] = [];
  try {
    for (const open of opens) opened.push(open());
    return opened;
  } catch (error) {
    for (const fd of opened) closeSync(fd);
    throw error;
  }
}

/** A file without a name: a script that does not read it blocks nobody, and nobody has to remove it. */
function openInput(files: RunFiles, input: string | Buffer): number {
  const path = join(files.temporary, '.input');
  writeFileSync(path, input, { mode: 0o600, flag: 'wx' });
  const fd = openSync(path, 'r');
  unlinkSync(path);
  return fd;
}

/** A file system that has gone away may refuse to close a file; the descriptor is closed all the same. */
export function closeOutput({ appendFd, fd, inputFd }: OpenOutput): void {
  for (const each of [appendFd, fd, inputFd]) if (each !== null) ifPossible(() => closeSync(each));
}

/** The size of an open file in bytes; null: its file system has gone away. */
export function sizeOfOpen(fd: number): number | null {
  try {
    return fstatSync(fd).size;
  } catch {
    return null;
  }
}

/** Call it once the end is in the log: until then these files are its only record. */
export function removeRunFiles(files: RunFiles): void {
  if (!ifPossible(() => unlinkSync(files.output))) ifPossible(() => unlinkSync(heldOutputOf(files)));
  ifPossible(() => unlinkSync(files.result));
  ifPossible(() => removeFolder(files.temporary));
}

/** Most scripts leave the folder empty, and listing it takes four times as long as removing it. */
export function removeFolder(path: string): void {
  try {
    rmdirSync(path);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') removeTree(path);
  }
}

/**
 * For files of a script: it can leave some that cannot be removed (read-only, or still written to), or remove them
 * itself.
 *
 * @returns whether it was done
 */
export function ifPossible(act: () => void): boolean {
  try {
    act();
    return true;
  } catch {
    return false;
  }
}
