import { existsSync, renameSync } from 'node:fs';
import { basename, relative } from 'node:path';
import { lookIntoJobs } from '../../discovery/discover.ts';
import { entryOf, noSuchScript, quoteName, scriptsMeant, severalNames } from '../../discovery/find-script.ts';
import { QUEUE_TIER, tierNames } from '../../discovery/jobs-folder.ts';
import { DISABLED } from '../../discovery/not-run.ts';
import type { Script } from '../../discovery/script.ts';
import { isOnServer } from '../../store/shared/which-log.ts';
import { UsageError } from '../../system/base/errors.ts';
import { printableLine } from '../../system/base/text.ts';
import { shellWord } from '../../system/base/values.ts';
import type { CommandContext } from '../shared/context.ts';
import { rootOf } from '../shared/open.ts';
import type { Given } from '../table.ts';

/** `runner disable`: a script stays, and nothing runs it. */
export async function disable(context: CommandContext, given: Given<'disable'>): Promise<void> {
  await switchEach(context, given, switchOff);
}

/** `runner enable`: what `runner disable` has switched off runs again. */
export async function enable(context: CommandContext, given: Given<'enable'>): Promise<void> {
  await switchEach(context, given, switchOn);
}

type Switch = (context: CommandContext, file: NamedFile, root: string) => string;

async function switchEach(context: CommandContext, given: Given<'disable'>, change: Switch): Promise<void> {
  const root = rootOf(context, given.root);
  const files: NamedFile[] = [];
  for (const word of given.script) files.push(await findFile(root, context.cwd, word));
  for (const file of files) context.stdout.write(`${change(context, file, root)}\n`);
}

function switchOff({ env }: CommandContext, { name, entry, script }: NamedFile, root: string): string {
  const shown = printableLine(name);
  if (script === null) return `${shown} is disabled already.`;
  rename(entry, entry + DISABLED, root);
  const where = isOnServer(env) ? ' on this machine' : '';
  return `${shown} is disabled${where}: its file is now ${pathIn(root, entry + DISABLED)}. \`npx folder-runner enable ${shellWord(shown)}\` ends that.`;
}

function switchOn(_: CommandContext, { name, tier, entry, script }: NamedFile, root: string): string {
  const shown = printableLine(name);
  if (script !== null)
    return `${shown} is not disabled. \`npx folder-runner why ${shellWord(shown)}\` tells what keeps it from running.`;
  const enabled = entry.slice(0, -DISABLED.length);
  rename(entry, enabled, root);
  const next = tier === QUEUE_TIER ? 'its jobs are processed again' : `the next pass of ${printableLine(tier)} runs it`;
  return `${shown} is enabled: its file is ${pathIn(root, enabled)} again, and ${next}.`;
}

function rename(from: string, to: string, root: string): void {
  if (existsSync(to)) {
    throw new UsageError(`${pathIn(root, to)} exists already; remove it, or ${printableLine(basename(from))}.`);
  }
  renameSync(from, to);
}

function pathIn(root: string, path: string): string {
  return printableLine(relative(root, path));
}

/** A script or a handler that somebody named, by its name or by its file. */
interface NamedFile {
  readonly name: string;
  readonly tier: string;
  /** Absolute path of the file that is run. */
  readonly path: string;
  /** Absolute path of what lies in the tier: the file, or the script's folder. */
  readonly entry: string;
  /** Null: it is disabled. */
  readonly script: Script | null;
}

/**
 * `hourly/clean-tmp`, only `clean-tmp` where one script is called so, or its file.
 *
 * @throws {UsageError} that names the nearest one, where there is none or more than one
 */
async function findFile(root: string, cwd: string, word: string): Promise<NamedFile> {
  const files = await listFiles(root);
  const [found, ...others] = word === '' ? [] : scriptsMeant(word, { cwd, root }, files);
  if (found !== undefined && others.length === 0) return found;
  if (found !== undefined) throw several(word, [found, ...others]);
  const tier = describeTier(root, word, files);
  if (tier !== null) throw new UsageError(tier);
  const names = files.map(({ name }) => name);
  throw noSuchScript(word, names, ' in jobs/');
}

async function listFiles(root: string): Promise<readonly NamedFile[]> {
  const { discovery, disabled } = await lookIntoJobs(root);
  const { tiers, handlers, elsewhere } = discovery;
  const scripts = [...tiers.flatMap((tier) => tier.scripts), ...handlers, ...elsewhere];
  return [
    ...scripts.map((script) => ({ ...script, entry: entryOf(root, script), script })),
    ...disabled.map((file) => ({ ...file, entry: file.path, script: null })),
  ];
}

/** Files of the same name are distinguished by their endings. */
function several(word: string, files: readonly NamedFile[]): UsageError {
  const names = [...new Set(files.map(({ name }) => name))];
  return severalNames(word, names.length === 1 ? files.map(({ entry }) => basename(entry)) : names);
}

/** Null: it is none. */
function describeTier(root: string, word: string, files: readonly NamedFile[]): string | null {
  if (word !== QUEUE_TIER && !tierNames(root).includes(word)) return null;
  const example = files.find(({ tier }) => tier === word)?.name ?? `${word}/import-orders`;
  return (
    `${quoteName(word)} is a tier, not a script: name one of its scripts, such as ${printableLine(example)}. ` +
    `\`npx folder-runner pause ${shellWord(word)}\` stops all of them.`
  );
}
