import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { StateFolder } from '../../../system/place/state-folder.ts';

/** A script of an import. */
export interface ImportedFile {
  /** `jobs/15min/wp-cron.sh` */
  readonly path: string;
  /** Of what was written, to tell whether somebody has changed it since. */
  readonly hash: string;
  /** The comment in the crontab that stands for it, in Latin-1: while it is there, the script runs. */
  readonly mark: string;
  /** The line that it is the comment of, in Latin-1; null: there was none. */
  readonly line: string | null;
}

/** One change of the crontab, and the scripts that go with it. */
export interface ImportRecord {
  /** Both crontabs in base64: what goes back is what was there, byte for byte. */
  readonly before: string;
  readonly after: string;
  readonly scripts: readonly ImportedFile[];
  /** Tiers that were made for them. */
  readonly tiers: readonly string[];
}

/** A change that is under way: its scripts wait to go where the crontab says, once that has changed. */
export interface UnsettledImport extends ImportRecord {
  readonly kind: 'apply' | 'undo';
}

const RECORD = 'record.json';

export function readUnsettled(state: StateFolder): UnsettledImport | null {
  return readJson<UnsettledImport>(join(state.unsettledImport, RECORD));
}

/** All that was imported and not undone, in its order. */
export function readImports(state: StateFolder): readonly ImportRecord[] {
  return readJson<ImportRecord[]>(importsFile(state)) ?? [];
}

/** Whole or not at all, and on the disk before the crontab changes; `files` by their paths in the root. */
export function writeUnsettled(
  state: StateFolder,
  unsettled: UnsettledImport,
  files: ReadonlyMap<string, Buffer>,
): void {
  const folder = state.unsettledImport;
  const draft = `${folder}.new`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { mode: 0o700 });
  for (const [path, content] of files) {
    mkdirSync(dirname(join(draft, path)), { recursive: true, mode: 0o700 });
    writeDurably(join(draft, path), content, 0o700);
  }
  writeDurably(join(draft, RECORD), Buffer.from(JSON.stringify(unsettled)), 0o600);
  renameSync(draft, folder);
  syncFolder(dirname(folder));
}

export function removeUnsettled(state: StateFolder): void {
  const folder = state.unsettledImport;
  // The record first, in one step: what is left without it means nothing.
  rmSync(join(folder, RECORD), { force: true });
  rmSync(folder, { recursive: true, force: true });
}

export function writeImports(state: StateFolder, imports: readonly ImportRecord[]): void {
  const file = importsFile(state);
  if (imports.length === 0) {
    rmSync(file, { force: true });
    return;
  }
  writeDurably(`${file}.new`, Buffer.from(JSON.stringify(imports)), 0o600);
  renameSync(`${file}.new`, file);
}

function importsFile({ path }: Pick<StateFolder, 'path'>): string {
  return join(path, 'imported-crontab.json');
}

function readJson<T>(path: string): T | null {
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as T) : null;
}

function writeDurably(path: string, content: Buffer, mode: number): void {
  const fd = openSync(path, 'w', mode);
  try {
    writeSync(fd, content);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function syncFolder(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

export function sha256Of(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}
