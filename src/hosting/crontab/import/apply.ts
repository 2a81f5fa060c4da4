import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { tierNames } from '../../../discovery/jobs-folder.ts';
import { UsageError } from '../../../system/base/errors.ts';
import { createStateFolder, stateFolderOf } from '../../../system/place/state-folder.ts';
import { type BlockContent, installBlock, readBlock, readChosenTiers, removeBlock } from '../block.ts';
import { readLineOf } from '../lines.ts';
import { type AskedLines, type CrontabPlan, namedTiers, planCrontab } from '../plan.ts';
import { markChanged, readCrontab, writeCrontab } from '../program.ts';
import { forgetUncalled, type OwnPackage, writeCronScript } from '../script.ts';
import type { ImportPlan, PlannedScript } from './plan.ts';
import {
  chooseToRemove,
  type ImportedFile,
  type ImportRecord,
  readImports,
  removeIfEmpty,
  removeUnsettled,
  settleImport,
  sha256Of,
  type TakenOut,
  writeUnsettled,
} from './settle.ts';

export interface ApplyRequest {
  readonly root: string;
  readonly own: OwnPackage;
  readonly env: NodeJS.ProcessEnv;
  readonly plan: ImportPlan;
  /** The lines that shall call the root. */
  readonly asked: AskedLines;
  /** The user's crontab that the plan was made from; null: it was made from a file. */
  readonly crontab: Buffer | null;
}

export interface Applied {
  /** The lines that call the root now. */
  readonly lines: readonly string[];
  readonly warnings: readonly string[];
}

/**
 * Carries a plan out: all of it or nothing. The scripts are made first, beside `jobs/`; then the crontab changes in one
 * step, which comments the old lines out and installs the root's block; then the scripts go into `jobs/`. Whoever kills
 * it in between leaves what the next pass settles.
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
    const record = {
      before: before.toString('base64'),
      after: after.toString('base64'),
      tiers,
      scripts: marked.scripts,
    };
    const files = new Map(plan.scripts.map(({ path, content }) => [path, content]));
    writeUnsettled(state, { kind: 'apply', ...record }, files);
    changeCrontab(
      after,
      env,
      marked.scripts.map(({ mark }) => mark),
    );
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

/** @returns those that were not there */
function makeTiers(root: string, scripts: readonly PlannedScript[]): string[] {
  const missing = tiersOf(scripts).filter((tier) => !existsSync(join(root, 'jobs', tier)));
  for (const tier of missing) mkdirSync(join(root, 'jobs', tier), { recursive: true, mode: 0o755 });
  return missing;
}

function tiersOf(scripts: readonly PlannedScript[]): string[] {
  return [...new Set(scripts.map(({ path }) => path.split('/')[1] as string))];
}

/** What no option speaks of is as the block was written before: a tier that somebody left out of it stays out. */
function planBlock({ root, own, env, plan, asked }: ApplyRequest, crontab: Buffer): CrontabPlan {
  const added = tiersOf(plan.scripts);
  const isAsked = asked.due !== undefined || asked.tiers !== undefined;
  const chosen = isAsked ? allOf(root, asked.tiers, added) : withAdded(root, readChosenTiers(crontab, root), added);
  // One line for all calls them, too.
  const tiers = !isAsked && callsDue(root, crontab) ? undefined : chosen;
  return planCrontab(root, { ...asked, tiers }, crontab, env, join(own.distFolder, 'bin.cjs'));
}

function callsDue(root: string, crontab: Buffer): boolean {
  return readBlock(crontab, root).some((line) => readLineOf(root, line)?.name === 'due');
}

/** @throws {UsageError} where nothing would run the scripts any more */
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

/** What stands before a line that is kept, or alone where there was none; it names the root and the script. */
function markOf(root: string, path: string): string {
  return Buffer.from(`# folder-runner ${join(root, path)}`).toString('latin1');
}

/**
 * Comments out the lines that scripts stand for. What comes from a file has no line here, unless somebody has installed
 * it: then that one is commented out, and else there is a comment alone.
 */
function markLines(crontab: Buffer, root: string, scripts: readonly PlannedScript[], isFromFile: boolean) {
  const lines = crontab.toString('latin1').split('\n');
  const marked: ImportedFile[] = [];
  const added: string[] = [];
  for (const { path, content, text, line } of scripts) {
    const index = isFromFile ? lines.findIndex((each) => withoutReturn(each) === text) : line - 1;
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

function withoutReturn(line: string): string {
  return line.endsWith('\r') ? line.slice(0, -1) : line;
}

/** @throws {UsageError} where the host takes the crontab and keeps another one */
function changeCrontab(crontab: Buffer, env: NodeJS.ProcessEnv, marks: readonly string[]): void {
  writeCrontab(crontab, env);
  const lines = new Set(readCrontab(env).toString('latin1').split('\n'));
  if (marks.every((mark) => lines.has(mark))) return;
  throw new UsageError(
    '`crontab -` took the new crontab without an error, but `crontab -l` does not show it: your host keeps its own ' +
      "crontab. Change the lines on the cron page of your host's panel.",
  );
}

export interface Undone extends TakenOut {
  /** How many lines are alive again. */
  readonly lines: number;
  /** Scripts whose old lines somebody has deleted: they go on running, as nothing else would do their work. */
  readonly left: readonly string[];
}

/** Takes all imports of this root back; null: there is none. */
export function undoImports(root: string, env: NodeJS.ProcessEnv): Undone | null {
  const state = stateFolderOf(root);
  if (!existsSync(state.path)) return null;
  settleImport(root, env, true);
  const imports = readImports(state);
  const [first] = imports;
  const now = readCrontab(env);
  const scripts = imports.flatMap((each) => each.scripts);
  const marks = new Set(now.toString('latin1').split('\n'));
  const live = scripts.filter(({ mark }) => marks.has(mark));
  if (first === undefined || live.length === 0) return null;
  const tiers = imports.flatMap((each) => each.tiers);
  const before = findBefore(now, imports) ?? unmark(now, root, live, blockAfter(now, root, imports, live));
  const record = { before: now.toString('base64'), after: before.toString('base64'), tiers, scripts: live };
  writeUnsettled(state, { kind: 'undo', ...record }, new Map());
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

/** How many lines of the crontab are comments now, as scripts of this root stand for them. */
export function countCommentedOut(root: string, env: NodeJS.ProcessEnv): number {
  const scripts = readImports(stateFolderOf(root)).flatMap((each) => each.scripts);
  if (scripts.length === 0) return 0;
  const lines = new Set(readCrontab(env).toString('latin1').split('\n'));
  return scripts.filter(({ mark, line }) => line !== null && lines.has(mark)).length;
}

/** The very bytes from before the first import, if nobody has changed the crontab since. */
function findBefore(
  now: Buffer,
  imports: readonly { readonly before: string; readonly after: string }[],
): Buffer | null {
  let at: string | null = now.toString('base64');
  for (const { before, after } of imports.toReversed()) {
    if (after !== at) return null;
    at = before;
  }
  return Buffer.from(at, 'base64');
}

/**
 * The lines of the root's block once the imports are undone: those from before the first one. Where somebody has
 * changed the block since, theirs, without what calls a tier that goes.
 */
function blockAfter(
  now: Buffer,
  root: string,
  imports: readonly ImportRecord[],
  scripts: readonly ImportedFile[],
): BlockContent {
  const contentOf = (crontab: Buffer): BlockContent => ({
    lines: readBlock(crontab, root),
    chosenTiers: readChosenTiers(crontab, root),
  });
  const blockOf = (crontab = '') => contentOf(Buffer.from(crontab, 'base64'));
  const installed = contentOf(now);
  if (isDeepStrictEqual(installed, blockOf(imports.at(-1)?.after))) return blockOf(imports[0]?.before);
  const { removed } = chooseToRemove(root, scripts);
  const filesOf = (tier: string) => (tierNames(root).includes(tier) ? readdirSync(join(root, 'jobs', tier)) : []);
  const gone = imports
    .flatMap(({ tiers }) => tiers)
    .filter((tier) => filesOf(tier).every((file) => removed.includes(`jobs/${tier}/${file}`)));
  return { ...installed, lines: installed.lines.filter((line) => !gone.includes(readLineOf(root, line)?.name ?? '')) };
}

/** Other lines have changed since: only what the import has done is undone. */
function unmark(now: Buffer, root: string, scripts: readonly ImportedFile[], block: BlockContent): Buffer {
  const oldLines = new Map(scripts.map(({ mark, line }) => [mark, line]));
  const lines = now
    .toString('latin1')
    .split('\n')
    .flatMap((line) => {
      const old = oldLines.get(line);
      return old === undefined ? [line] : (old ?? []);
    });
  const crontab = Buffer.from(lines.join('\n'), 'latin1');
  return block.lines.length === 0 ? removeBlock(crontab, root) : installBlock(crontab, root, block);
}
