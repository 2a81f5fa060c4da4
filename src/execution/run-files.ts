import { closeSync, mkdirSync, openSync, rmSync } from 'node:fs';
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

export function runFilesOf(state: StateFolder, runId: number): RunFiles {
  return {
    output: join(state.output, `${runId}.log`),
    result: join(state.results, `${runId}.json`),
    temporary: join(state.temporary, String(runId)),
  };
}

/** Makes the temporary folder and the output file; the file's descriptor is the caller's to close. */
export function createRunFiles(files: RunFiles): number {
  // A log that was set aside starts its ids anew: what an older run left here is not ours.
  removeRunFiles(files);
  mkdirSync(files.temporary, { mode: 0o700 });
  return openSync(files.output, 'ax', 0o600);
}

/** To be called once the end is in the log: until then these files are all there is of it. */
export function removeRunFiles(files: RunFiles): void {
  for (const path of [files.output, files.result, files.temporary]) {
    rmSync(path, { recursive: true, force: true });
  }
}

export function withDescriptor<T>(path: string, flags: string, use: (fd: number) => T): T {
  const fd = openSync(path, flags, 0o600);
  try {
    return use(fd);
  } finally {
    closeSync(fd);
  }
}
