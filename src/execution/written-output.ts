import type { Masker } from './mask-secrets.ts';

/** What is to be kept of which file. */
export interface WrittenOutput {
  readonly path: string;
  /** The file's, for reading: its path may lead to it no longer. */
  readonly fd: number;
  /** What was already cut out of it. */
  readonly droppedBytes: number;
  /** How much of it stays on the disk, at most. */
  readonly maxBytes: number;
  readonly masker: Masker;
}

/** The line that stands for bytes left out. */
export function omission(bytes: number): string {
  return `\n[… ${bytes} bytes left out …]\n`;
}
