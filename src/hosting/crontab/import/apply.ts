import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { tierNames } from '../../../discovery/jobs-folder.ts';
import { DISABLED } from '../../../discovery/not-run.ts';
import { UsageError } from '../../../system/base/errors.ts';
import { replaceFile } from '../../../system/base/plain-file.ts';
import { createStateFolder, type StateFolder, stateFolderOf } from '../../../system/place/state-folder.ts';
import { blockText, crontabBlock, hasBlock, installBlock, putBlock, readBlock, readChosenTiers } from '../block.ts';
import { readLineOf } from '../lines.ts';
import { type AskedLines, type CrontabPlan, namedTiers, planCrontab } from '../plan.ts';
import { markChanged, readCrontab, writeCrontab } from '../program.ts';
import { forgetUncalled, type OwnPackage, removeIfEmpty, writeCronScript } from '../script.ts';
import type { ImportPlan, PlannedScript } from './plan.ts';

interface ApplyRequest {
  readonly root: string;
  readonly own: OwnPackage;
  readonly env: NodeJS.ProcessEnv;
  readonly plan: ImportPlan;
  /** The lines that shall call the root. */
  readonly asked: AskedLines;
  /** The user's crontab that the plan was made from; null: it was made from a file. */
  readonly crontab: Buffer | null;
}

interface Applied {
  /** The lines that call the root now. */
  readonly lines: readonly string[];
  readonly warnings: readonly string[];
}

/**
 * Carries out a plan: all of it or nothing. The scripts are made first, beside `jobs/`; then the crontab changes in one
 * step, which comments the old lines out and installs the root's block; then the scripts go into `jobs/`. If it is
 * killed in between, the next pass settles the rest.
 */
export function applyImport(request: ApplyRequest): Applied {
  const { root, env, plan, crontab } = request;
  const state = stateFolderOf(root);
  createStateFolder(state);
  settleImport(root, env, true);
  const before = readCrontab(env);
  if (crontab !== null && !before.equals(crontab)) {
    throw new UsageError('Your crontab has changed in the meantime, so nothing was done: try again.');
  }
  const tiers = makeTiers(root, plan.scripts);
  try {
    const marked = markLines(before, root, plan.scripts, crontab === null);
    const { content, script, warnings } = planBlock(request, before);
    writeCronScript(script, root, request.own);
    const after = installBlock(marked.crontab, root, content);
    const blocks = { blockBefore: blockText(before, root), blockAfter: blockText(after, root) };
    writeUnsettled(state, { kind: 'apply', scripts: marked.scripts, tiers, ...blocks }, plan.scripts);
    changeCrontab(after, env, marked.scripts);
    markChanged(root);
    settleImport(root, env, true);
    return { lines: content.lines, warnings };
  } catch (error) {
    // Nothing has changed where the crontab did not.
    settleImport(root, env, true);
    for (const tier of tiers) removeIfEmpty(join(root, 'jobs', tier));
    throw error;
  }
}

/** Creates missing tiers, and returns their names. */
function makeTiers(root: string, scripts: readonly PlannedScript[]): string[] {
  const missing = tiersOf(scripts).filter((tier) => !existsSync(join(root, 'jobs', tier)));
  for (const tier of missing) mkdirSync(join(root, 'jobs', tier), { recursive: true, mode: 0o755 });
  return missing;
}

function tiersOf(scripts: readonly PlannedScript[]): string[] {
  return [...new Set(scripts.map(({ path }) => path.split('/')[1] as string))];
}

/** Without an option, the block stays as it was written before: a tier that was left out of it stays out. */
function planBlock({ root, own, env, plan, asked }: ApplyRequest, crontab: Buffer): CrontabPlan {
  const added = tiersOf(plan.scripts);
  const isAsked = asked.due !== undefined || asked.tiers !== undefined;
  const chosen = isAsked ? allOf(root, asked.tiers, added) : withAdded(root, readChosenTiers(crontab, root), added);
  // One line for all tiers calls the new ones, too.
  const tiers = !isAsked && callsDue(root, crontab) ? undefined : chosen;
  return planCrontab(root, { ...asked, tiers }, crontab, env, join(own.distFolder, 'bin.cjs'));
}

function callsDue(root: string, crontab: Buffer): boolean {
  return readBlock(crontab, root).some((line) => readLineOf(root, line)?.name === 'due');
}

/** @throws {UsageError} if nothing would run the scripts any more */
function allOf(root: string, option: string | undefined, added: readonly string[]): string | undefined {
  if (option === undefined || option === 'all') return option;
  const named = namedTiers(root, option);
  const missing = added.filter((tier) => !named.includes(tier));
  if (missing.length === 0) return option;
  throw new UsageError(
    `Nothing was changed: --tiers leaves out ${missing.join(' and ')}, where imported scripts would be, and nothing ` +
      'would run them. Name these tiers, too, or leave out --tiers.',
  );
}

function withAdded(root: string, called = '', added: readonly string[]): string | undefined {
  const there = called.split(',').filter((tier) => tierNames(root).includes(tier));
  return there.length === 0 ? undefined : [...there, ...added].join(',');
}

/** The comment that names the root and the script; the old line follows it, if there was one. */
function markOf(root: string, path: string): string {
  return Buffer.from(`# folder-runner ${join(root, path)}`).toString('latin1');
}

/**
 * Comments out the lines that scripts stand for. For a line of a file, that is the same line of the crontab; if there is
 * none, a comment alone is added.
 */
function markLines(crontab: Buffer, root: string, scripts: readonly PlannedScript[], isFromFile: boolean) {
  const lines = crontab.toString('latin1').split('\n');
  const marked: ImportedFile[] = [];
  const added: string[] = [];
  for (const { path, content, text, line } of scripts) {
    const index = isFromFile ? lines.findIndex((each) => each.replace(/\r$/, '') === text) : line - 1;
    const old = lines[index] ?? null;
    const mark = old === null ? markOf(root, path) : `${markOf(root, path)}: ${old}`;
    if (old === null) added.push(mark);
    else lines[index] = mark;
    marked.push({ path, hash: sha256Of(content), mark, line: old });
  }
  const end = lines.at(-1) === '' ? lines.length - 1 : lines.length;
  const all = added.length === 0 ? lines : [...lines.slice(0, end), ...added, ''];
  return { crontab: Buffer.from(all.join('\n'), 'latin1'), scripts: marked };
}

/** @throws {UsageError} if the host accepts the crontab and keeps another one */
function changeCrontab(crontab: Buffer, env: NodeJS.ProcessEnv, scripts: readonly ImportedFile[]): void {
  writeCrontab(crontab, env);
  const lines = readCrontabLines(env);
  if (scripts.every(({ mark }) => lines.has(mark))) return;
  throw new UsageError(
    '`crontab -` took the new crontab without an error, but `crontab -l` does not show it: your host keeps its own ' +
      "crontab. Change the lines on the cron page of your host's panel.",
  );
}

/** The lines of the user's crontab, in Latin-1. */
function readCrontabLines(env: NodeJS.ProcessEnv): ReadonlySet<string> {
  return new Set(readCrontab(env).toString('latin1').split('\n'));
}

interface Undone extends TakenOut {
  /** How many lines run again. */
  readonly lines: number;
  /** Scripts whose old lines were deleted by hand: they keep running, as nothing else would do their work. */
  readonly left: readonly string[];
}

/** Undoes all imports of this root; null: there is none. */
export function undoImports(root: string, env: NodeJS.ProcessEnv): Undone | null {
  const state = stateFolderOf(root);
  if (!existsSync(state.path)) return null;
  settleImport(root, env, true);
  const imports = readImports(state);
  const now = readCrontab(env);
  const scripts = imports.flatMap((each) => each.scripts);
  const marks = readCrontabLines(env);
  const live = scripts.filter(({ mark }) => marks.has(mark));
  if (live.length === 0) return null;
  const before = unmark(now, root, live, blockWithout(now, root, imports, live));
  const tiers = imports.flatMap((each) => each.tiers);
  writeUnsettled(state, { kind: 'undo', tiers, scripts: live }, []);
  try {
    writeCrontab(before, env);
  } catch (error) {
    removeUnsettled(state);
    throw error;
  }
  markChanged(root);
  const takenOut = settleImport(root, env, true);
  forgetUncalled(root, env);
  const left = scripts.filter((script) => !live.includes(script)).map(({ path }) => path);
  return { ...takenOut, left, lines: live.filter(({ line }) => line !== null).length };
}

/** How many lines of the crontab are comments now, because scripts of this root stand for them. */
export function countCommentedOut(root: string, env: NodeJS.ProcessEnv): number {
  const scripts = readImports(stateFolderOf(root)).flatMap((each) => each.scripts);
  if (scripts.length === 0) return 0;
  const lines = readCrontabLines(env);
  return scripts.filter(({ mark, line }) => line !== null && lines.has(mark)).length;
}

/**
 * The root's block without the imports: as it was before the first one. If something else has changed the block, or a
 * script stays as its old line is gone, the block stays without the lines of tiers that go.
 */
function blockWithout(
  now: Buffer,
  root: string,
  imports: readonly ImportRecord[],
  scripts: readonly ImportedFile[],
): string {
  const [first, last] = [imports[0], imports.at(-1)];
  const isWhole = imports.flatMap((each) => each.scripts).length === scripts.length;
  const areAlone = imports.every(
    ({ blockBefore }, index) => index === 0 || blockBefore === imports[index - 1]?.blockAfter,
  );
  if (first && isWhole && areAlone && blockText(now, root) === last?.blockAfter) return first.blockBefore;
  const { removed } = chooseToRemove(root, scripts);
  const filesOf = (tier: string) => (tierNames(root).includes(tier) ? readdirSync(join(root, 'jobs', tier)) : []);
  const gone = imports
    .flatMap(({ tiers }) => tiers)
    .filter((tier) => filesOf(tier).every((file) => removed.includes(`jobs/${tier}/${file}`)));
  const lines = readBlock(now, root).filter((line) => !gone.includes(readLineOf(root, line)?.name ?? ''));
  const left = crontabBlock(root, { lines, chosenTiers: readChosenTiers(now, root) });
  return lines.length === 0 ? '' : Buffer.from(left).toString('latin1');
}

/** The crontab with the old lines in place of their comments, and this block. */
function unmark(now: Buffer, root: string, scripts: readonly ImportedFile[], block: string): Buffer {
  const oldLines = new Map(scripts.map(({ mark, line }) => [mark, line]));
  const lines = now
    .toString('latin1')
    .split('\n')
    .flatMap((line) => {
      const old = oldLines.get(line);
      return old === undefined ? [line] : (old ?? []);
    });
  return putBlock(Buffer.from(lines.join('\n'), 'latin1'), root, block);
}

/** The scripts of an import that was undone, by their paths. */
interface TakenOut {
  readonly removed: readonly string[];
  /** Scripts that were changed by hand. */
  readonly kept: readonly string[];
}

const NOTHING: TakenOut = { removed: [], kept: [] };

/**
 * Brings the scripts of an import to where the crontab says: a script whose old line is commented out runs from `jobs/`,
 * the others do not. The crontab changes in one step; so a command is never in both, nor in neither once this has been
 * called. Each pass calls it before it begins.
 *
 * @param isOver whether no process is about to change the crontab: an import that did not get so far is dropped then
 */
export function settleImport(root: string, env: NodeJS.ProcessEnv, isOver: boolean): TakenOut {
  const state = stateFolderOf(root);
  const unsettled = readJson<UnsettledImport>(join(state.unsettledImport, RECORD));
  if (unsettled === null) {
    if (isOver) removeUnsettled(state);
    return NOTHING;
  }
  const crontab = readCrontab(env);
  const lines = new Set(crontab.toString('latin1').split('\n'));
  const isLive = ({ mark }: ImportedFile) => lines.has(mark);
  const scripts = unsettled.scripts.filter((script) => isLive(script) === (unsettled.kind === 'apply'));
  if (scripts.length === 0 && !isOver) return NOTHING;
  const imports = readImports(state);
  let takenOut = NOTHING;
  if (unsettled.kind === 'apply') {
    putIn(root, state.unsettledImport, scripts);
    // A call that was killed after this has added the import already.
    const isThere = isDeepStrictEqual(imports.at(-1)?.scripts, scripts);
    const { kind: _, ...record } = unsettled;
    if (!isThere && scripts.length > 0) writeImports(state, [...imports, { ...record, scripts }]);
  } else {
    takenOut = takeOut(root, { ...unsettled, scripts }, hasBlock(crontab, root));
    const left = imports.map((each) => ({ ...each, scripts: each.scripts.filter(isLive) }));
    writeImports(
      state,
      left.filter((each) => each.scripts.length > 0),
    );
  }
  removeUnsettled(state);
  return takenOut;
}

function putIn(root: string, folder: string, scripts: readonly ImportedFile[]): void {
  for (const { path } of scripts) {
    const target = join(root, path);
    if (existsSync(target)) continue;
    mkdirSync(dirname(target), { recursive: true, mode: 0o755 });
    replaceFile(target, readFileSync(join(folder, path)), 0o700);
  }
}

/** @param isCalled whether the crontab still calls tiers of this root: a kept script must not run beside its line */
function takeOut(
  root: string,
  { scripts, tiers }: Pick<ImportRecord, 'scripts' | 'tiers'>,
  isCalled: boolean,
): TakenOut {
  const { removed, kept } = chooseToRemove(root, scripts);
  for (const path of removed) rmSync(join(root, path));
  if (isCalled) for (const path of kept) renameSync(join(root, path), join(root, `${path}${DISABLED}`));
  for (const tier of tiers) removeIfEmpty(join(root, 'jobs', tier));
  return { removed, kept: kept.map((path) => (isCalled ? `${path}${DISABLED}` : path)) };
}

/** Divides the scripts that exist, wherever they were moved to, into unchanged and changed ones. */
function chooseToRemove(root: string, scripts: readonly ImportedFile[]): TakenOut {
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

/** Finds an unchanged script also in another tier, or under another name; null: it is gone, or disabled. */
function findScript(root: string, { path, hash }: ImportedFile, others: readonly string[]) {
  const hashOf = (each: string): string => sha256Of(readFileSync(join(root, each)));
  if (existsSync(join(root, path))) return { path, isChanged: hashOf(path) !== hash };
  const moved = others.find((each) => !each.endsWith(DISABLED) && hashOf(each) === hash);
  return moved === undefined ? null : { path: moved, isChanged: false };
}

/** A script of an import. */
interface ImportedFile {
  /** `jobs/15min/wp-cron.sh` */
  readonly path: string;
  /** The checksum of the imported file, which shows whether it was changed since. */
  readonly hash: string;
  /** The comment in the crontab, in Latin-1: while it is there, the script runs. */
  readonly mark: string;
  /** The old line in that comment, in Latin-1; null: there was none. */
  readonly line: string | null;
}

/** One import that was applied and is not undone. */
interface ImportRecord {
  readonly scripts: readonly ImportedFile[];
  /** Tiers that were created for them. */
  readonly tiers: readonly string[];
  /** The root's block before and after it, in Latin-1; empty: none. */
  readonly blockBefore: string;
  readonly blockAfter: string;
}

/** A change that is under way: its scripts wait to go where the crontab says, once that has changed. */
type UnsettledImport =
  | ({ readonly kind: 'apply' } & ImportRecord)
  | ({ readonly kind: 'undo' } & Pick<ImportRecord, 'scripts' | 'tiers'>);

const RECORD = 'record.json';

/** Writes the record and the scripts to the disk, completely or not at all, before the crontab changes. */
function writeUnsettled(state: StateFolder, unsettled: UnsettledImport, scripts: readonly PlannedScript[]): void {
  const folder = state.unsettledImport;
  const draft = `${folder}.new`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { mode: 0o700 });
  for (const { path, content } of scripts) {
    mkdirSync(dirname(join(draft, path)), { recursive: true, mode: 0o700 });
    replaceFile(join(draft, path), content, 0o700);
  }
  replaceFile(join(draft, RECORD), JSON.stringify(unsettled), 0o600);
  renameSync(draft, folder);
  const fd = openSync(dirname(folder), 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function removeUnsettled(state: StateFolder): void {
  const folder = state.unsettledImport;
  // Without its record, the rest of the folder means nothing.
  rmSync(join(folder, RECORD), { force: true });
  rmSync(folder, { recursive: true, force: true });
}

const importsFile = ({ path }: StateFolder): string => join(path, 'imported-crontab.json');

/** The imports that were not undone, the oldest first. */
function readImports(state: StateFolder): readonly ImportRecord[] {
  return readJson<ImportRecord[]>(importsFile(state)) ?? [];
}

function writeImports(state: StateFolder, imports: readonly ImportRecord[]): void {
  if (imports.length === 0) rmSync(importsFile(state), { force: true });
  else replaceFile(importsFile(state), JSON.stringify(imports), 0o600);
}

function readJson<T>(path: string): T | null {
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as T) : null;
}

function sha256Of(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}
