import type { KnownTier } from '../../report/model/overview.ts';
import type { LogView } from '../../report/model/runs/run.ts';
import type { ReadCrontab } from '../../schedule/crontab-times.ts';
import { checkStateFolder, checkWritable } from '../../settings/access.ts';
import { StoreUnavailable } from '../../store/failures.ts';
import { hasSpool } from '../../store/spool/files.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import type { Store } from '../../store/store.ts';
import { trustedFallbacksOf } from '../../system/place/fallback.ts';
import { findRoot } from '../../system/place/root.ts';
import { createStateFolder, type StateFolder, stateFolderOf } from '../../system/place/state-folder.ts';
import type { CommandContext } from './context.ts';

/** What a command reads from. Nothing in it is changed by reading. */
export interface OpenLog {
  readonly root: string;
  readonly state: StateFolder;
  /** Null: there is no log, or none that can be read. */
  readonly store: Store | null;
  /** Why there is a log that cannot be read; null: it can, or there is none. */
  readonly problem: string | null;
  /** Those in force. */
  readonly pauses: readonly Pause[];
  /** For reports. Without rows where there is no log: reading does not make one. */
  view(): Promise<LogView>;
}

/**
 * Opens the log for reading, lets it be used, and closes it whatever happens. Runs that it does not hold
 * yet are noted.
 *
 * @throws {StoreUnavailable} when there is a log that cannot be read
 */
export async function withLog<T>(
  context: CommandContext,
  rootOption: string | undefined,
  use: (log: OpenLog) => Promise<T>,
): Promise<T> {
  const root = rootOf(context, rootOption);
  context.asksLittle();
  await noteSpooled(context, root);
  return await useStore(context, root, { store: await openLog(root), problem: null }, use);
}

/** The same, for what has something to say without a log, too: then a note tells why there is none. */
export async function withLogIfAny<T>(
  context: CommandContext,
  rootOption: string | undefined,
  use: (log: OpenLog) => Promise<T>,
): Promise<T> {
  const root = rootOf(context, rootOption);
  context.asksLittle();
  return await useStore(context, root, await openLogOrTell(context, root), use);
}

/** The pauses in force; none, and a note, where the log cannot be read. */
export async function readPauses(context: CommandContext, root: string): Promise<readonly Pause[]> {
  return await useStore(context, root, await openLogOrTell(context, root), async (log) => log.pauses);
}

/** Where runs may be recorded: in the root, and where nothing can be written there. */
export function stateFoldersOf(root: string): readonly StateFolder[] {
  return [stateFolderOf(root), ...trustedFallbacksOf(root)];
}

/** When the crontab calls the tiers of this root. */
export function crontabOf({ env }: CommandContext, root: string): ReadCrontab {
  let times: ReturnType<ReadCrontab> | undefined;
  return () => {
    times ??= import('../../hosting/doctor/crontab-calls.ts').then((calls) => calls.readCrontabTimes(root, env));
    return times;
  };
}

export async function noteSpooled(context: CommandContext, root: string): Promise<void> {
  const states = stateFoldersOf(root);
  if (!states.some(hasSpool)) return;
  const { countSpooledRuns, describeSpooled } = await import('../../report/model/status.ts');
  const runs = await countSpooledRuns(states);
  if (runs > 0) context.stderr.write(`Note: ${describeSpooled(runs)}\n`);
}

async function openLog(root: string): Promise<Store | null> {
  const state = stateFolderOf(root);
  checkStateFolder(root, state);
  const { openExistingStore } = await import('../../store/open.ts');
  return await openExistingStore(state);
}

type OpenedLog = Pick<OpenLog, 'store' | 'problem'>;

async function openLogOrTell(context: CommandContext, root: string): Promise<OpenedLog> {
  try {
    return { store: await openLog(root), problem: null };
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    context.stderr.write(`Note: the activity log could not be read. ${error.message}\n`);
    return { store: null, problem: error.message };
  }
}

async function useStore<T>(
  context: CommandContext,
  root: string,
  opened: OpenedLog,
  use: (log: OpenLog) => Promise<T>,
): Promise<T> {
  const { store } = opened;
  const state = stateFolderOf(root);
  const { toldPlainly } = await import('../../store/describe-failure.ts');
  const work = async (): Promise<T> => {
    const pauses = (await store?.pauses.inForce(context.now())) ?? [];
    const view = async (): Promise<LogView> => ({ db: await queriesOf(store), state });
    return await use({ root, state, ...opened, pauses, view });
  };
  return await toldPlainly(state, work).finally(() => store?.close());
}

async function queriesOf(store: Store | null): Promise<LogView['db']> {
  if (store !== null) return await store.queries();
  return (await import('../../store/shared/queries.ts')).emptyQueries();
}

export function rootOf(context: CommandContext, option: string | undefined): string {
  return findRoot({ option, variable: context.env.RUNNER_ROOT, cwd: context.cwd });
}

/** The scripts and handlers of `jobs/` by name; undefined, and a note, where it cannot be read. */
export async function findKnownTiers(context: CommandContext, root: string): Promise<KnownTier[] | undefined> {
  const { readKnownTiers } = await import('../../report/model/known-tiers.ts');
  return readKnownTiers(root, (problem) => void context.stderr.write(`Note: ${problem}\n`));
}

/**
 * Opens the log of a root for a command that writes, makes it where there is none, and closes it.
 *
 * @throws {StoreUnavailable} when it cannot be opened, or written
 */
export async function withWritableLog<T>(
  context: CommandContext,
  rootOption: string | undefined,
  use: (store: Store) => Promise<T>,
): Promise<T> {
  const root = rootOf(context, rootOption);
  const { openStore } = await import('../../store/open.ts');
  const { toldPlainly } = await import('../../store/describe-failure.ts');
  const state = stateFolderOf(root);
  await checkWritable(root, state, context.env);
  createStateFolder(state);
  const store = await openStore(state);
  if (store.quarantined !== null) context.stderr.write(`runner: ${store.quarantined}\n`);
  return await toldPlainly(state, () => use(store)).finally(() => store.close());
}

/** The same where there is a log; where nothing has ever been recorded none is made, and the answer is null. */
export async function withWritableLogIfAny<T>(
  context: CommandContext,
  rootOption: string | undefined,
  use: (store: Store) => Promise<T>,
): Promise<T | null> {
  const root = rootOf(context, rootOption);
  const state = stateFolderOf(root);
  const { hasLog } = await import('../../store/shared/which-log.ts');
  if (hasLog(state)) return await withWritableLog(context, rootOption, use);
  await checkWritable(root, state, context.env);
  return null;
}

/** Writes text to stdout, for as long as somebody reads it. */
export async function print({ stdout }: CommandContext, text: string): Promise<void> {
  const { openTextOutput } = await import('../../report/terminal/screen.ts');
  await openTextOutput(stdout).write(text);
}
