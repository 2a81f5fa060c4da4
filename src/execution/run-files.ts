import { closeSync, fstatSync, mkdirSync, openSync, rmdirSync, unlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { removeTree } from '../child/remove-tree.ts';
import { errorCode } from '../system/base/errors.ts';
import type { StateFolder } from '../system/place/state-folder.ts';

/** Where one run's files are while it runs. */
export interface RunFiles {
  /** Standard output and error, in the order they were written. */
  readonly output: string;
  /** What the probe in a Node script leaves behind at its end. */
  readonly result: string;
  /** The run's own folder, for what is to go with it. */
  readonly temporary: string;
}

/** `12.3`, or the id of a run that began without the log; '' where only the folders are asked for. */
const keyForm = /^(?:[\w-]+(?:\.\d+)?)?$/;

/**
 * @param key of the run: its claim's token, or the id of a run that began without the log
 * @throws for a key of any other form: it comes from a log that others may write to, and would lead elsewhere
 */
export function runFilesOf(state: StateFolder, key: string): RunFiles {
  if (!keyForm.test(key)) throw new Error(`${JSON.stringify(key.slice(0, 80))} is not the key of a run`);
  // Asked for several times in each run: joining paths would be what a pass does most.
  return {
    output: `${state.output}/${key}.log`,
    result: `${state.results}/${key}.json`,
    temporary: `${state.temporary}/${key}`,
  };
}

/** The name of the output file while the run's process, started ahead, waits for its turn. */
export function heldOutputOf({ output }: Pick<RunFiles, 'output'>): string {
  return `${output.slice(0, -'.log'.length)}.held`;
}

/** The output file twice, and what there is to read; all descriptors are the caller's to close. */
export interface OpenOutput {
  /** The script's: whatever is written goes to the file's end. */
  readonly appendFd: number;
  /** The runner's: a script that removes or renames the file takes nothing out of the log. */
  readonly fd: number;
  /** The script's standard input; null: nothing. */
  readonly inputFd: number | null;
}

/**
 * Makes the temporary folder and the output file: with that, the run counts as begun.
 *
 * @param input what the script can read on its standard input
 */
export function createRunFiles(files: RunFiles, input: string | null = null): OpenOutput {
  return createFiles(files, files.output, input);
}

/** The same for a process that is started ahead: it begins by giving the output file its name. */
export function createHeldFiles(files: RunFiles): OpenOutput {
  return createFiles(files, heldOutputOf(files), null);
}

function createFiles(files: RunFiles, output: string, input: string | null): OpenOutput {
  try {
    return create(files, output, input);
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT') restoreFolders([files.output, files.result, files.temporary]);
    else if (code !== 'EEXIST') throw error;
    // After a log was quarantined, ids start anew: what an older run left here is not ours.
    removeRunFiles(files);
    return create(files, output, input);
  }
}

/**
 * Makes the folders of these files again: a script, or a cleaner of the host, may have removed them since
 * the call began. Not the one that holds them: without that, this is no state folder any more.
 */
export function restoreFolders(paths: readonly string[]): void {
  for (const path of paths) ifPossible(() => mkdirSync(dirname(path), { mode: 0o700 }));
}

function create(files: RunFiles, output: string, input: string | null): OpenOutput {
  mkdirSync(files.temporary, { mode: 0o700 });
  const [appendFd, fd, inputFd = null] = openAll([
    () => openSync(output, 'ax', 0o600),
    () => openSync(output, 'r+'),
    ...(input === null ? [] : [() => openInput(files, input)]),
  ]);
  return { appendFd: appendFd as number, fd: fd as number, inputFd };
}

/** All of these descriptors, or none: on a full disk, a worker that goes on would have more of them with each run. */
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

/** A file without a name: who does not read it blocks nobody, and nobody has to remove it. */
function openInput(files: RunFiles, input: string): number {
  const path = join(files.temporary, '.input');
  writeFileSync(path, input, { mode: 0o600, flag: 'wx' });
  const fd = openSync(path, 'r');
  unlinkSync(path);
  return fd;
}

/** A file system that has gone away refuses even that, though the descriptor is closed then. */
export function closeOutput({ appendFd, fd, inputFd }: OpenOutput): void {
  for (const each of [appendFd, fd, inputFd]) if (each !== null) ifPossible(() => closeSync(each));
}

/** The size of an open file; null: its file system has gone away. */
export function sizeOfOpen(fd: number): number | null {
  try {
    return fstatSync(fd).size;
  } catch {
    return null;
  }
}

/** To be called once the end is in the log: until then these files are all there is of it. */
export function removeRunFiles(files: RunFiles): void {
  if (!ifPossible(() => unlinkSync(files.output))) ifPossible(() => unlinkSync(heldOutputOf(files)));
  ifPossible(() => unlinkSync(files.result));
  ifPossible(() => removeFolder(files.temporary));
}

/** Most scripts leave it empty, and looking for what is in it takes four times as long. */
export function removeFolder(path: string): void {
  try {
    rmdirSync(path);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') removeTree(path);
  }
}

/**
 * A script can leave what cannot be removed (read-only, or still written to), or remove it itself.
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
