import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest';
import { engine } from './engines/engines.ts';

/** A file's text, or its bytes with its mode. */
export type FileContent = string | { readonly content: string | Buffer; readonly mode: number };

/** A temporary root with `jobs/` and these files, gone after the test. */
export function makeTemporaryRoot(files: Readonly<Record<string, FileContent>> = {}): string {
  const root = mkdtempSync(join(tmpdir(), 'runner-'));
  // Whoever was told to end may still be writing there.
  const patience = { maxRetries: 20, retryDelay: 50 };
  onTestFinished(() => rmSync(root, { recursive: true, force: true, ...patience }));
  mkdirSync(join(root, 'jobs'));
  onTestFinished(engine.choose(root));
  writeFiles(root, files);
  return root;
}

export function writeFiles(root: string, files: Readonly<Record<string, FileContent>>): void {
  for (const [path, file] of Object.entries(files)) writeFile(join(root, path), file);
}

/** An executable file with this content. */
export function executable(content: string | Buffer): FileContent {
  return { content, mode: 0o755 };
}

function writeFile(path: string, file: FileContent): void {
  mkdirSync(dirname(path), { recursive: true });
  const { content, mode } = typeof file === 'string' ? { content: file, mode: 0o644 } : file;
  writeFileSync(path, content);
  chmodSync(path, mode);
}

/**
 * What has happened in a root is done once, and each test of the file has a copy. To be called where the tests are
 * declared.
 *
 * @returns copies it to a root: left out, to one that is gone after the test
 */
export function makeTemplate(
  files: Readonly<Record<string, FileContent>>,
  prepare: (root: string) => unknown,
): (root?: string) => string {
  let template: string;
  beforeAll(async () => {
    template = mkdtempSync(join(tmpdir(), 'runner-template-'));
    mkdirSync(join(template, 'jobs'));
    writeFiles(template, files);
    await prepare(template);
  });
  afterAll(() => rmSync(template, { recursive: true, force: true }));
  return (root = makeTemporaryRoot()) => {
    cpSync(template, root, { recursive: true, preserveTimestamps: true });
    return root;
  };
}

/** What stands in for the machine's `crontab`; it keeps one user's crontab in a file. */
export interface FakeCrontab {
  /** An environment in which `crontab` is the fake one. */
  readonly env: NodeJS.ProcessEnv;
  /** What cron would run by; null where the user has no crontab. */
  read(): Buffer | null;
  write(crontab: Buffer | string): void;
}

/** Says and refuses what Debian's does. */
const DEBIAN = `#!/bin/sh
case "$1" in
-l)
  if [ ! -f "$FAKE_CRONTAB" ]; then echo "no crontab for visitor" >&2; exit 1; fi
  cat "$FAKE_CRONTAB"
  ;;
-)
  cat >"$FAKE_CRONTAB.new"
  if [ -s "$FAKE_CRONTAB.new" ] && [ -n "$(tail -c 1 "$FAKE_CRONTAB.new")" ]; then
    echo "new crontab file is missing newline before EOF, can't install." >&2
    exit 1
  fi
  mv "$FAKE_CRONTAB.new" "$FAKE_CRONTAB"
  ;;
*) exit 2 ;;
esac
`;

export function makeFakeCrontab(program: string = DEBIAN): FakeCrontab {
  const folder = mkdtempSync(join(tmpdir(), 'crontab-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'visitor');
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin', 'crontab'), program, { mode: 0o755 });
  return {
    env: { PATH: `${join(folder, 'bin')}:/usr/bin:/bin`, HOME: folder, FAKE_CRONTAB: file },
    read: () => readIfThere(file),
    write: (crontab) => writeFileSync(file, crontab),
  };
}

function readIfThere(file: string): Buffer | null {
  try {
    return readFileSync(file);
  } catch {
    return null;
  }
}

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
