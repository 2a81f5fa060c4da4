import { join } from 'node:path';
import type { Script } from '../../discovery/script.ts';
import { Site } from '../../discovery/site.ts';
import { inNameOf } from '../../queue/log.ts';
import { openTextOutput } from '../../report/terminal/screen.ts';
import { checkStateFolder, checkWritable } from '../../settings/access.ts';
import { settingsFilesOf } from '../../settings/load.ts';
import { toldPlainly } from '../../store/describe-failure.ts';
import { StoreUnavailable } from '../../store/failures.ts';
import { openExistingStore, openStore } from '../../store/open.ts';
import { hasLog } from '../../store/shared/which-log.ts';
import { hasSpool } from '../../store/spool/files.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import type { Store, StoreSession } from '../../store/store.ts';
import { trustedFallbacksOf } from '../../system/place/fallback.ts';
import { findRoot } from '../../system/place/root.ts';
import { createStateFolder, stateFolderOf } from '../../system/place/state-folder.ts';
import { userName } from '../../system/process/user.ts';
import { type CommandContext, crontabOf } from './context.ts';

/**
 * Opens the log for reading, lets it be used, and closes it whatever happens. Runs that it does not hold
 * yet are noted.
 *
 * @throws {StoreUnavailable} when there is a log that cannot be read
 */
export async function withLog<T>(
  context: CommandContext,
  rootOption: string | undefined,
  use: (site: Site) => Promise<T>,
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
  use: (site: Site) => Promise<T>,
): Promise<T> {
  const root = rootOf(context, rootOption);
  context.asksLittle();
  return await useStore(context, root, await openLogOrTell(context, root), use);
}

/** The pauses in force; none, and a note, where the log cannot be read. */
export async function readPauses(context: CommandContext, root: string): Promise<readonly Pause[]> {
  return await useStore(context, root, await openLogOrTell(context, root), (site) => site.pauses());
}

/** The scripts that a script waits for, in words; empty or null: none. */
export async function readAwaited(context: CommandContext, root: string, script: Script): Promise<string | null> {
  return await useStore(context, root, await openLogOrTell(context, root), async (site) => {
    const { readWordedStand } = await import('../../queue/links.ts');
    return (await readWordedStand(site, script))?.text ?? null;
  });
}

export async function noteSpooled(context: CommandContext, root: string): Promise<void> {
  const states = [stateFolderOf(root), ...trustedFallbacksOf(root)];
  if (!states.some(hasSpool)) return;
  const { countSpooledRuns, describeSpooled } = await import('../../report/model/status.ts');
  const runs = await countSpooledRuns(states);
  if (runs > 0) context.stderr.write(`Note: ${describeSpooled(runs)}\n`);
}

async function openLog(root: string): Promise<Store | null> {
  const state = stateFolderOf(root);
  checkStateFolder(root, state);
  return await openExistingStore(state);
}

type OpenedLog = Pick<Site, 'store' | 'problem'>;

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
  use: (site: Site) => Promise<T>,
): Promise<T> {
  const site = siteOf(context, root, opened);
  return await toldPlainly(site.state, () => use(site)).finally(() => opened.store?.close());
}

function siteOf(context: CommandContext, root: string, opened: OpenedLog): Site {
  const { env, stderr } = context;
  const note = (problem: string) => void stderr.write(`Note: ${problem}\n`);
  return new Site({ root, env, nowMs: context.now(), ...opened, crontab: crontabOf(context, root), note });
}

export function rootOf(context: CommandContext, option: string | undefined): string {
  return findRoot({ option, variable: context.env.RUNNER_ROOT, cwd: context.cwd });
}

/**
 * Opens the log of a root for a command that writes, makes it where there is none, and closes it.
 *
 * @throws {StoreUnavailable} when it cannot be opened, or written
 */
export async function withWritableLog<T>(
  context: CommandContext,
  rootOption: string | undefined,
  use: (store: Store, site: Site) => Promise<T>,
): Promise<T> {
  const root = rootOf(context, rootOption);
  const state = stateFolderOf(root);
  await checkWritable(root, state, context.env);
  createStateFolder(state);
  const store = await openStore(state);
  if (store.quarantined !== null) context.stderr.write(`runner: ${store.quarantined}\n`);
  const site = siteOf(context, root, { store, problem: null });
  return await toldPlainly(state, () => use(store, site)).finally(() => store.close());
}

/** The same where there is a log; where nothing has ever been recorded none is made, and the answer is null. */
export async function withWritableLogIfAny<T>(
  context: CommandContext,
  rootOption: string | undefined,
  use: (store: Store) => Promise<T>,
): Promise<T | null> {
  const root = rootOf(context, rootOption);
  const state = stateFolderOf(root);
  if (hasLog(state)) return await withWritableLog(context, rootOption, use);
  await checkWritable(root, state, context.env);
  return null;
}

/** Changes the log in the name of the user who has called this. */
export function changeAsUser<T>(store: Store, work: (session: StoreSession) => Promise<T>): Promise<T> {
  return store.transaction((session) => work(inNameOf(session, userName())));
}

/** Files that a deploy changes: who lives long ends then. */
export function filesOfDeploy({ distFolder }: CommandContext, root: string): string[] {
  return [join(stateFolderOf(root).path, 'restart'), ...settingsFilesOf(root), join(distFolder, 'cli.cjs')];
}

/** Writes text to stdout, for as long as somebody reads it. */
export async function print({ stdout }: CommandContext, text: string): Promise<void> {
  await openTextOutput(stdout).write(text);
}
