import { execFileSync } from 'node:child_process';
import { closeSync, openSync, writeSync } from 'node:fs';
import { expect, onTestFinished } from 'vitest';

/** Puts a file system of this size over a folder; for root. */
export function mountSmallDisk(folder: string, size: string): void {
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=700`, 'small-disk', folder]);
  onTestFinished(() => void execFileSync('umount', ['--lazy', folder]));
}

/** Writes to a file until not one more byte has room. */
export function fillDisk(file: string): void {
  const fd = openSync(file, 'a');
  for (const bytes of [Buffer.alloc(4096), Buffer.alloc(1)]) {
    expect(() => {
      for (;;) writeSync(fd, bytes);
    }).toThrow('ENOSPC');
  }
  closeSync(fd);
}
