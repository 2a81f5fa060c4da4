import { copyFileSync, renameSync, rmSync, statSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { StateFolder } from '../../config/state-folder.ts';
import type { FinishedRun } from '../schema.ts';

/**
 * Brings a run's output file to where the log looks for it. Whoever was interrupted in the middle of
 * it, or does the same in the same moment, changes nothing about the result.
 *
 * @returns the run as it is to be recorded: without the file, if that is nowhere any more
 */
export function moveOutput(run: FinishedRun, from: StateFolder, to: StateFolder): FinishedRun {
  if (run.output_file === null) return run;
  const target = join(to.output, run.output_file);
  if (from.path !== to.path) moveFile(join(from.output, run.output_file), target);
  return isThere(target) ? run : withoutFile(run);
}

/** A source that is gone has been moved before, by whoever was interrupted, or is lost. */
function moveFile(source: string, target: string): void {
  try {
    rename(source, target);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

function rename(source: string, target: string): void {
  try {
    renameSync(source, target);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EXDEV') throw error;
    copyFile(source, target);
  }
}

/** To another file system: whole, or not at all. */
function copyFile(source: string, target: string): void {
  const temporary = `${target}.${process.pid}`;
  try {
    copyFileSync(source, temporary);
    renameSync(temporary, target);
  } finally {
    rmSync(temporary, { force: true });
  }
  unlinkSync(source);
}

function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

/** The row must not promise what is not there; what it holds itself is still kept. */
function withoutFile(run: FinishedRun): FinishedRun {
  const { output_bytes: bytes, output } = run;
  const dropped = bytes === null ? null : Math.max(0, bytes - Buffer.byteLength(output ?? ''));
  return { ...run, output_file: null, output_file_bytes: null, output_dropped_bytes: dropped };
}
