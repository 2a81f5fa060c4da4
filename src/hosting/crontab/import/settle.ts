import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { tierNames } from '../../../discovery/jobs-folder.ts';
import { DISABLED } from '../../../discovery/not-run.ts';
import { errorCode } from '../../../system/base/errors.ts';
import { stateFolderOf } from '../../../system/place/state-folder.ts';
import { hasBlock } from '../block.ts';
import { readCrontab } from '../program.ts';
import {
  type ImportedFile,
  type ImportRecord,
  readImports,
  readUnsettled,
  removeUnsettled,
  sha256Of,
  type UnsettledImport,
  writeImports,
} from './journal.ts';

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
