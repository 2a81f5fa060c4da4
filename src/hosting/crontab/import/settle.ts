import { createHash } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { tierNames } from '../../../discovery/jobs-folder.ts';
import { DISABLED } from '../../../discovery/not-run.ts';
import { errorCode } from '../../../system/base/errors.ts';
import { type StateFolder, stateFolderOf } from '../../../system/place/state-folder.ts';
import { hasBlock } from '../block.ts';
import { readCrontab } from '../program.ts';

/** What became of scripts whose import was undone, by their paths. */
export interface TakenOut {
  readonly removed: readonly string[];
  /** Somebody has changed them. */
  readonly kept: readonly string[];
}

const NOTHING: TakenOut = { removed: [], kept: [] };

/**
 * Brings the scripts of an import to where the crontab says: a script whose old line is commented out runs from `jobs/`,
 * one whose line is alive does not. The crontab changes in one step; therefore a command is never in both, nor in neither
 * once this has been called. Each pass calls it before it begins.
 *
 * @param isOver whether nobody is about to change the crontab: an import that did not get so far is dropped then
 */
export function settleImport(root: string, env: NodeJS.ProcessEnv, isOver: boolean): TakenOut {
  const state = stateFolderOf(root);
  const unsettled = readUnsettled(state);
  if (unsettled === null) {
    if (isOver) removeUnsettled(state);
    return NOTHING;
  }
  const crontab = readCrontab(env);
  const lines = new Set(crontab.toString('latin1').split('\n'));
  const isLive = ({ mark }: ImportedFile) => lines.has(mark);
  const isApplied = unsettled.kind === 'apply';
  const toMove = unsettled.scripts.filter((script) => isLive(script) === isApplied);
  if (toMove.length === 0 && !isOver) return NOTHING;

  const takenOut = isApplied
    ? putIn(root, state.unsettledImport, toMove)
    : takeOut(root, { ...unsettled, scripts: toMove }, hasBlock(crontab, root));
  writeImports(
    state,
    isApplied ? withImport(readImports(state), unsettled, toMove) : readImports(state).flatMap(keepLive),
  );
  removeUnsettled(state);
  return takenOut;

  function keepLive(each: ImportRecord): ImportRecord[] {
    const scripts = each.scripts.filter(isLive);
    return scripts.length === 0 ? [] : [{ ...each, scripts }];
  }
}

/** Who was interrupted after this finds its import there already. */
function withImport(
  imports: readonly ImportRecord[],
  { before, after, tiers }: UnsettledImport,
  scripts: readonly ImportedFile[],
): readonly ImportRecord[] {
  const isThere = imports.some((each) => each.after === after);
  return isThere || scripts.length === 0 ? imports : [...imports, { before, after, tiers, scripts }];
}

function putIn(root: string, folder: string, scripts: readonly ImportedFile[]): TakenOut {
  for (const { path } of scripts) {
    const target = join(root, path);
    if (existsSync(target)) continue;
    mkdirSync(dirname(target), { recursive: true, mode: 0o755 });
    // No pass takes a hidden file for a script.
    const draft = join(dirname(target), `.${basename(target)}.new`);
    copyFileSync(join(folder, path), draft);
    chmodSync(draft, 0o700);
    renameSync(draft, target);
  }
  return NOTHING;
}

/** @param isCalled whether the crontab still calls tiers of this root: then what is kept must not run beside its line */
function takeOut(root: string, { scripts, tiers }: UnsettledImport, isCalled: boolean): TakenOut {
  const { removed, kept } = chooseToRemove(root, scripts);
  for (const path of removed) rmSync(join(root, path));
  if (isCalled) for (const path of kept) renameSync(join(root, path), join(root, `${path}.disabled`));
  for (const tier of tiers) removeIfEmpty(join(root, 'jobs', tier));
  return { removed, kept: kept.map((path) => (isCalled ? `${path}.disabled` : path)) };
}

/** Of scripts that are there, wherever somebody has moved them, those that nobody has changed, and the others. */
export function chooseToRemove(root: string, scripts: readonly ImportedFile[]): TakenOut {
  const own = new Set(scripts.map(({ path }) => path));
  const others = listFiles(root).filter((path) => !own.has(path));
  const there = scripts.flatMap((script) => findScript(root, script, others) ?? []);
  const { removed = [], kept = [] } = Object.groupBy(there, ({ isChanged }) => (isChanged ? 'kept' : 'removed'));
  return { removed: removed.map(({ path }) => path), kept: kept.map(({ path }) => path) };
}

function listFiles(root: string): readonly string[] {
  return tierNames(root).flatMap((tier) =>
    readdirSync(join(root, 'jobs', tier), { withFileTypes: true }).flatMap((entry) =>
      entry.isFile() ? `jobs/${tier}/${entry.name}` : [],
    ),
  );
}

/** Where it is by now, as it was written: moved to another tier, or renamed; null: it is gone, or disabled. */
function findScript(root: string, { path, hash }: ImportedFile, others: readonly string[]) {
  const hashOf = (each: string): string => sha256Of(readFileSync(join(root, each)));
  if (existsSync(join(root, path))) return { path, isChanged: hashOf(path) !== hash };
  const moved = others.find((each) => !each.endsWith(DISABLED) && hashOf(each) === hash);
  return moved === undefined ? null : { path: moved, isChanged: false };
}

export function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST', 'ENOENT'].includes(errorCode(error))) throw error;
  }
}

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
interface UnsettledImport extends ImportRecord {
  readonly kind: 'apply' | 'undo';
}

const RECORD = 'record.json';

function readUnsettled(state: StateFolder): UnsettledImport | null {
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

function writeImports(state: StateFolder, imports: readonly ImportRecord[]): void {
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
