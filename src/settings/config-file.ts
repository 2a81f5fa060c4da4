import { readFileSync, writeSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { types } from 'node:util';
import { runInThisContext } from 'node:vm';
import { errorCode, type Fault, UsageError } from '../system/base/errors.ts';
import { readPlainFile } from '../system/base/plain-file.ts';
import { faultOf, judgePath, judgeRoot, orAllowOutside } from '../system/place/trust.ts';
import { variablesOf } from './channels.ts';
import { nearestSetting, scriptTable } from './script-settings.ts';
import { defaultSettings, nothingGiven, type Settings } from './settings.ts';
import { settingsTable } from './site-settings.ts';
import { describeProblem, type Problem, readTable, type SettingIssue } from './table.ts';

/** The settings in one file. @throws {UsageError} if it cannot be trusted or loaded, or with its wrong settings */
export async function loadConfigFile(root: string, name: string, allowUnsafe: boolean): Promise<Settings> {
  if (!allowUnsafe) refuseUnsafeFile(root, name);
  return checkConfigFile(await readConfigFile(root, name));
}

/** The file's code runs as soon as it is loaded, so its own settings cannot allow it. */
function refuseUnsafeFile(root: string, name: string): void {
  const ofRoot = judgeRoot(root);
  const distrusted = [...(ofRoot === null ? [] : [ofRoot]), ...judgePath(root, join(root, name))];
  if (distrusted.length === 0) return;
  const [first, ...others] = distrusted.map((each) => faultOf(root, each, orAllowOutside)) as [Fault, ...Fault[]];
  throw new UsageError([{ ...first, found: `${root}/${name} cannot be loaded: ${first.found}` }, ...others]);
}

function checkConfigFile(file: ConfigFile): Settings {
  let checked: ReturnType<typeof validateSettings>;
  try {
    checked = validateSettings(file.content);
  } catch (error) {
    // A getter is code of the file, which runs only now.
    throw cannotLoad(file.name, error);
  }
  if (checked.settings !== undefined) return checked.settings;
  const problems: Problem[] = checked.issues.map(({ path, ...issue }) => ({
    ...issue,
    file: file.name,
    line: findSettingLine(file.source, path),
    setting: path.join('.') || 'the default export',
  }));
  const lineOf = ({ line }: Problem) => line ?? Number.MAX_SAFE_INTEGER;
  const sorted = problems.toSorted((one, other) => lineOf(one) - lineOf(other));
  throw new UsageError(sorted.map(describeProblem));
}

/** Every issue is reported, not only the first; `statement` completes the setting's name, as in `Problem`. */
export function validateSettings(found: unknown) {
  const issues: SettingIssue[] = [];
  const settings = readTable(settingsTable, found, issues, defaultSettings);
  if (issues.length === 0) return { settings: withSecrets(settings) };
  return { issues: issues.map((issue) => ({ ...issue, statement: statementOf(issue) })) };
}

function withSecrets(settings: Settings): Settings {
  const secrets = [...new Set([...settings.secrets, ...variablesOf(settings.alerts.channels)])];
  return { ...settings, secrets, given: nothingGiven };
}

function statementOf({ path, known }: SettingIssue): string | undefined {
  return known && `is not a known setting; ${hintFor(path.at(-1) ?? '', known, path.length === 1)}`;
}

function hintFor(key: string, known: readonly string[], isOnTop: boolean): string {
  if (key === 'ping') return 'put it under tiers.<tier> or scripts, as each needs a URL of its own';
  if (isOnTop && Object.hasOwn(scriptTable, key)) return 'put it under defaults, tiers.<tier> or scripts';
  const nearest = nearestSetting(key, known);
  return nearest === null ? `known are ${known.join(', ')}` : `did you mean ${nearest}?`;
}

interface ConfigFile {
  readonly name: string;
  readonly source: string;
  readonly content: unknown;
}

/** @throws {UsageError} that names the file and the reason why it cannot be read or run */
async function readConfigFile(root: string, name: string): Promise<ConfigFile> {
  const path = join(root, name);
  try {
    const source = readPlainFile(path).replace(/^\ufeff/, '');
    const content = name.endsWith('.json') ? JSON.parse(source) : await importDefault(path, name);
    return { name, source, content };
  } catch (error) {
    throw cannotLoad(name, error);
  }
}

function cannotLoad(name: string, cause: unknown): UsageError {
  return new UsageError(`${name} cannot be loaded: ${describeCause(cause, name)}`, { cause });
}

async function importDefault(path: string, name: string): Promise<unknown> {
  const hooks = registerHooks({ load: loadByContent });
  const onExit = () => tellExit(name);
  process.once('exit', onExit);
  try {
    const module = requireSettings(path) ?? (await importSettings(path, name));
    if ('default' in module) return module.default;
    throw new Error('it has no default export; write `export default defineConfig({ … })`');
  } finally {
    process.off('exit', onExit);
    hooks.deregister();
  }
}

/** Long enough to fetch a password over the network. */
const LONGEST_MS = 30_000;

const UNSETTLED = 'its top-level code never finishes';

const describeLate = (longestMs: number): string => `${UNSETTLED}, or takes longer than ${longestMs} ms`;

interface SettingsModule {
  readonly default?: unknown;
}

/**
 * Loads the settings with a time limit. An endless loop would block every other way to stop it, and each call by cron
 * would leave one more such process; the timeout of `vm` ends the loop at no cost.
 *
 * @returns null if the settings await anything; none of their code has run then
 */
export function requireSettings(path: string, timeout = LONGEST_MS): SettingsModule | null {
  const quoted = JSON.stringify(path);
  try {
    const code = `process.getBuiltinModule('node:module').createRequire(${quoted})(${quoted})`;
    const exported: unknown = runInThisContext(code, { timeout, displayErrors: false });
    if (types.isModuleNamespaceObject(exported)) return exported as SettingsModule;
    return isNothing(exported, path) ? {} : { default: exported };
  } catch (error) {
    if (errorCode(error) === 'ERR_REQUIRE_ASYNC_MODULE') return null;
    if (errorCode(error) === 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw new Error(describeLate(timeout));
    throw error;
  }
}

/** CommonJS makes an empty object for a file that exports nothing. */
function isNothing(exported: unknown, path: string): boolean {
  const isEmpty = typeof exported === 'object' && exported !== null && Object.keys(exported).length === 0;
  return isEmpty && !/\bexports\b/.test(readPlainFile(path));
}

async function importSettings(path: string, name: string): Promise<SettingsModule> {
  const endGuard = guardAgainstLoop(name);
  return await waitForSettings(import(pathToFileURL(path).href)).finally(endGuard);
}

const guardCode = `
  const { over, longestMs, sentence } = require('node:worker_threads').workerData;
  if (Atomics.wait(over, 0, 0, longestMs) === 'timed-out') {
    require('node:fs').writeSync(2, sentence);
    process.kill(process.pid, 'SIGKILL');
  }
`;

/**
 * Only another thread notices a loop after an `await`. The thread takes 30 ms to start, so only such settings pay for
 * it, and all it can do is kill the process.
 *
 * @returns a function that ends the guard
 */
export function guardAgainstLoop(name: string, longestMs = LONGEST_MS + 1_000): () => void {
  const over = new Int32Array(new SharedArrayBuffer(4));
  const sentence = `runner: ${name} cannot be loaded: ${UNSETTLED}\n`;
  const { Worker } = process.getBuiltinModule('node:worker_threads');
  const guard = new Worker(guardCode, { eval: true, execArgv: [], workerData: { over, longestMs, sentence } });
  guard.unref();
  // If the host allows no further thread, loading goes on without the guard.
  guard.on('error', () => {});
  return () => {
    Atomics.store(over, 0, 1);
    Atomics.notify(over, 0);
  };
}

/**
 * Settings may wait for something that never comes; the call would then seem to have had nothing to do.
 *
 * @throws {Error} that says so
 */
export async function waitForSettings<T>(loading: Promise<T>, longestMs = LONGEST_MS): Promise<T> {
  let giveUp = (_why: string): void => {};
  const givenUp = new Promise<never>((_, reject) => {
    giveUp = (why) => reject(new Error(why));
  });
  const onIdle = () => giveUp(UNSETTLED);
  // Waits one more turn: a process that stood still finds its time over and its settings loaded together.
  const onLate = () => setImmediate(giveUp, describeLate(longestMs));
  const timer = setTimeout(onLate, longestMs).unref();
  process.once('beforeExit', onIdle);
  try {
    return await Promise.race([loading, givenUp]);
  } finally {
    clearTimeout(timer);
    process.off('beforeExit', onIdle);
  }
}

type LoadHook = NonNullable<Parameters<typeof registerHooks>[0]['load']>;

/**
 * A package.json with `"type": "commonjs"`, as written by `npm init`, makes Node refuse `export default` in a .ts or
 * .js file. One without `type` makes Node warn, which cron would mail.
 */
const loadByContent: LoadHook = (url, context, nextLoad) => {
  const format = moduleFormat(url);
  return nextLoad(url, format === undefined ? context : { ...context, format });
};

const moduleSyntax = /^[ \t]*(?:import\s*[\w$*{'"]|export\s)/m;

function moduleFormat(url: string): string | undefined {
  const isOwnScript = /^file:.*\.[jt]s$/.test(url) && !url.includes('/node_modules/');
  if (!isOwnScript || !moduleSyntax.test(readFileSync(fileURLToPath(url), 'utf8'))) return undefined;
  return url.endsWith('.ts') ? 'module-typescript' : 'module';
}

function describeCause(error: unknown, file: string): string {
  if (!(error instanceof Error)) return `it threw ${String(error)}`;
  const cause = `${withoutSource(error.message).replace(/\s+/g, ' ').trim()}${placeIn(file, error)}`;
  if ('code' in error && error.code === 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') {
    return `${cause}; write it without enums, namespaces and parameter properties`;
  }
  return cause;
}

/** `JSON.parse` quotes the text around the error, which may be a password. */
function withoutSource(message: string): string {
  return message.replace(/^(Unexpected token) .* is not valid JSON$/s, '$1: it is not valid JSON');
}

function placeIn(file: string, error: Error): string {
  const line = error.stack?.split(`${file}:`)[1]?.match(/^\d+/)?.[0];
  return line === undefined ? '' : ` (line ${line})`;
}

/**
 * The line of a setting in a config file, found by searching for its keys one after another; null if they are not
 * written there as keys, as in settings built by code.
 */
export function findSettingLine(source: string, path: readonly string[]): number | null {
  if (path.length === 0) return null;
  const lines = source.split('\n');
  let index = -1;
  for (const [depth, key] of path.entries()) {
    // An index in a list of channels: each channel has the key `kind`.
    const isPlace = /^\d+$/.test(key);
    const form = keyForm(isPlace ? 'kind' : key);
    const from = Math.max(index, 0);
    const found = lines.flatMap((line, at) => (at >= from && form.test(line) ? [at] : []));
    const next = found[isPlace ? Number(key) : 0] ?? null;
    // A key that a channel lacks is reported at the line of the channel.
    if (next === null) return /^\d+$/.test(path[depth - 1] ?? '') ? index + 1 : null;
    index = next;
  }
  return index + 1;
}

function keyForm(key: string): RegExp {
  const name = key.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^(?!\\s*(?://|\\*|/\\*)).*(?:^|[\\s{,'"\`])${name}['"\`]?\\s*:`);
}

function tellExit(name: string): void {
  writeSync(2, `runner: ${name} cannot be loaded: it ends the process (process.exit)\n`);
  process.exitCode = 2;
}
