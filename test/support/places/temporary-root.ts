import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { onTestFinished } from 'vitest';
import { engine } from '../engines/engines.ts';

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
