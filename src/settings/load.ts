import { existsSync, lstatSync, readdirSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { UsageError } from '../system/base/errors.ts';
import { OVERRIDE_VARIABLE } from '../system/place/trust.ts';
import {
  ALERTS_VARIABLE,
  defaultSettings,
  ENV_FILE,
  type GivenVariables,
  nothingGiven,
  ownEnvironment,
  type Settings,
} from './settings.ts';

const extensions = ['ts', 'mts', 'cts', 'js', 'mjs', 'cjs', 'json'];
const fileNames: readonly string[] = extensions.map((extension) => `runner.config.${extension}`);

/**
 * The settings of the root's `runner.config.*`, or the defaults if it has none. `RUNNER_ALLOW_UNSAFE` in the
 * environment counts as `allowUnsafe`.
 *
 * @throws {UsageError} if others could have written the file, if it cannot be loaded, or with one line for each wrong
 * setting
 */
export async function loadSettings(root: string, environment: NodeJS.ProcessEnv = process.env): Promise<Settings> {
  return await withAlerts(await loadAllowed(root, environment), environment);
}

/**
 * The settings with the variables of the site's files, for calls that run scripts or send messages.
 *
 * @throws {UsageError} also if such a file is missing, wrong, or open to others
 */
export async function loadWithFiles(root: string, environment: NodeJS.ProcessEnv): Promise<Settings> {
  const found = await loadAllowed(root, environment);
  const settings = { ...found, given: await readGivenVariables(root, found) };
  return await withAlerts(settings, ownEnvironment({ settings, environment }));
}

/** @throws {UsageError} if a file of variables is missing, wrong, or open to others */
export async function readGivenVariables(root: string, settings: Settings): Promise<GivenVariables> {
  const path = join(root, ENV_FILE);
  const isUsual =
    settings.envFile === null && Object.values(settings.tiers).every((tier) => tier.envFile === undefined);
  const isThere = settings.envFile === null && isFileThere(path);
  if (isUsual && !isThere) return { ...nothingGiven, files: [{ path, names: null }] };
  const { readEnvFiles } = await import('./env-files.ts');
  return readEnvFiles(root, settings, isThere);
}

/** A folder of this name is usually Python's. */
function isFileThere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === false;
}

async function loadAllowed(root: string, environment: NodeJS.ProcessEnv): Promise<Settings> {
  const allowUnsafe = environment[OVERRIDE_VARIABLE] === '1';
  const found = await loadFile(root, allowUnsafe);
  return allowUnsafe ? { ...found, allowUnsafe } : found;
}

async function withAlerts(settings: Settings, environment: NodeJS.ProcessEnv): Promise<Settings> {
  const alerts = environment[ALERTS_VARIABLE];
  if (!alerts || settings.alerts.channels.length > 0) return settings;
  const { parseAlertsVariable, variablesOf } = await import('./channels.ts');
  const { channels, problems } = parseAlertsVariable(alerts, environment);
  if (problems.length > 0) throw new UsageError(problems.map((problem) => `${ALERTS_VARIABLE}: ${problem}`));
  const secrets = [...new Set([...settings.secrets, ALERTS_VARIABLE, ...variablesOf(channels)])];
  return { ...settings, secrets, alerts: { ...settings.alerts, channels } };
}

/** Like `loadSettings`, for commands that also work without settings: wrong settings are replaced by the defaults. */
export async function loadSettingsIfRight(root: string): Promise<Settings> {
  try {
    return await loadSettings(root);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return defaultSettings;
  }
}

/** The paths at which a root may have its settings. */
export function settingsFilesOf(root: string): readonly string[] {
  return fileNames.map((name) => join(root, name));
}

/** The name of the root's settings file; null: none, or several, of which none counts. */
export function findSettingsFile(root: string): string | null {
  const [name = null, other] = fileNames.filter((file) => existsSync(join(root, file)));
  return other === undefined ? name : null;
}

async function loadFile(root: string, allowUnsafe: boolean): Promise<Settings> {
  const { name, problem } = chooseFile(root);
  if (problem !== null) throw new UsageError(problem);
  if (name === null) return defaultSettings;
  const { loadConfigFile } = await import('./config-file.ts');
  return await loadConfigFile(root, name, allowUnsafe);
}

/**
 * Why no settings file of this root can be read, judged by names alone, without running any. Null: one can, or there is
 * none.
 */
export function findUnreadFile(root: string): string | null {
  return chooseFile(root).problem;
}

/** The file with the settings; null: none. */
function chooseFile(root: string): { readonly name: string | null; readonly problem: string | null } {
  const names = findNames(root);
  const [name = null, other] = [...fileNames.filter((file) => names.includes(file)), ...names.filter(isOfOtherFormat)];
  if (name === null && names.length === 0) return { name, problem: null };
  if (other !== undefined) return { name, problem: describeRivals(root, name as string, other) };
  if (name !== null && fileNames.includes(name)) return { name, problem: null };
  return { name, problem: describeUnread(root, name ?? names[0] ?? '') };
}

const otherFormats = ['json5', 'jsonc', 'yaml', 'yml', 'toml', 'ini', 'tsx', 'jsx', 'php', 'py', 'xml'];

/** A misspelling swaps, doubles or omits letters of the word. */
const nearName =
  /^\.?(?:folder[-_. ]?)?(?:[rune]{4,8}s?|jobs?)[-_. ]?(?:rc|cfg|c[onfig]{2,6}s?|configuration|set+ings?)$/i;
/**
 * The words in reverse order, an ending that Windows adds, or other programs' names for settings of a single machine.
 */
const nearFile =
  /^(?:config\.runner|runner\.config\.(?:local|dev|development|prod|production))\.(?:[cm]?[jt]s|json)$|^runner\.config\.(?:[cm]?[jt]s|json)\.txt$/i;
const nearFormat = /^\.(?:[cm]?[jt]s+x?|[json]{3,5}[c5]?|[yaml]{3,5}|[toml]{4,5}|ini)$/i;

/**
 * Whether a file of this name is meant as settings: if it were ignored, scripts would run without their limits. Code
 * that is only named `runner`, and data that is only named `jobs`, probably belong to the site.
 */
function isLikeSettings(name: string): boolean {
  const format = extname(name);
  const stem = basename(name, format);
  const isPlainData = /^\.?(?:folder-)?runner$/i.test(stem) && /^\.(?:json[c5]?|ya?ml|toml|ini)$/i.test(format);
  if (isPlainData || isOfOtherFormat(name) || nearFile.test(name)) return true;
  return nearName.test(name) || (nearName.test(stem) && nearFormat.test(format));
}

/** Files whose names are those of the settings, or similar. */
function findNames(root: string): readonly string[] {
  try {
    const entries = readdirSync(root, { withFileTypes: true });
    return entries
      .filter((entry) => fileNames.includes(entry.name) || (isLikeSettings(entry.name) && !entry.isDirectory()))
      .map(({ name }) => name);
  } catch {
    // A folder may allow access without allowing a listing.
    return fileNames.filter((name) => existsSync(join(root, name)));
  }
}

/** `runner.config.yaml` */
function isOfOtherFormat(name: string): boolean {
  return otherFormats.some((format) => name === `runner.config.${format}`);
}

function describeUnread(root: string, name: string): string {
  if (otherFormats.some((format) => name.endsWith(`.${format}`))) {
    return `${root}/${name} is not read: settings are TypeScript, JavaScript or JSON. Write them to runner.config.json, and remove this file.`;
  }
  const [, format = 'json'] = /\.([cm]?[jt]s)[sx]*(?:\.txt)?$/.exec(name.toLowerCase()) ?? [];
  return `${root}/${name} is not read: the settings file must be called runner.config.${format}. Rename it, or remove it.`;
}

function describeRivals(root: string, name: string, other: string): string {
  return `${root} has both ${name} and ${other}, but only one settings file is allowed; remove one of them.`;
}
