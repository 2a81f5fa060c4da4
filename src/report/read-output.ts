import { createReadStream } from 'node:fs';
import { basename, join } from 'node:path';
import { createGunzip } from 'node:zlib';
import type { StateFolder } from '../config/state-folder.ts';
import { runFilesOf } from '../execution/run-files.ts';
import { readSoFar } from './follow-output.ts';
import type { RunWithOutput } from './run-record.ts';

/**
 * What a run wrote, piece by piece: head and tail as the log's row holds them, or with `isFull` all
 * that is kept. Of a run that goes on, what it has written so far.
 */
export async function* readRunOutput(
  state: StateFolder,
  run: RunWithOutput,
  isFull: boolean,
): AsyncGenerator<string> {
  if (run.outcome === 'running') yield* readSoFar(runFilesOf(state, run.id).output);
  else if (isFull && run.outputFile !== null)
    yield* readKeptFile(state, run.outputFile, run.output);
  else if (run.output !== null) yield run.output;
}

/** A file that is gone or damaged is told of in the text. */
async function* readKeptFile(
  state: StateFolder,
  file: string,
  ends: string | null,
): AsyncGenerator<string> {
  // The name comes from the log: it must not lead out of the folder.
  const path = join(state.output, basename(file));
  try {
    yield* unzip(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    yield `\n[… ${path} cannot be read (${code ?? 'damaged'}); head and tail from the log follow …]\n`;
    yield ends ?? '';
  }
}

async function* unzip(path: string): AsyncGenerator<string> {
  const file = createReadStream(path);
  const unzipped = createGunzip().setEncoding('utf8');
  file.on('error', (error) => unzipped.destroy(error));
  try {
    yield* file.pipe(unzipped) as AsyncIterable<string>;
  } finally {
    file.destroy();
  }
}
