import { realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { errorCode, type Fault, UsageError } from '../system/base/errors.ts';
import { readPlainFile } from '../system/base/plain-file.ts';
import { shellWord } from '../system/base/values.ts';
import { type Distrust, isPrivateGroup, judgePath, judgeRoot, nameGroup, orAllow } from '../system/place/trust.ts';
import { findWebRoot, SERVED } from '../system/place/web-exposure.ts';
import { loadsCode, variableName } from './readers.ts';
import { ENV_FILE, type GivenVariables, type Settings } from './settings.ts';

type Variables = Readonly<Record<string, string>>;

/** A file of variables, and the setting that names it. */
interface EnvFile {
  /** Absolute: cron's mail says nothing else of the root. */
  readonly path: string;
  /** `tiers.daily.envFile`; null: no setting names it. */
  readonly setting: string | null;
}

/**
 * Reads the files of variables that the settings name, otherwise `.env`.
 *
 * @param isUsualThere whether there is a `.env`
 * @throws {UsageError} with all that is wrong with them
 */
export function readEnvFiles(root: string, settings: Settings, isUsualThere: boolean): GivenVariables {
  const { envFile, tiers } = settings;
  const usual: EnvFile = { path: join(root, ENV_FILE), setting: null };
  const missing = envFile === null && !isUsualThere ? [{ path: usual.path, names: null }] : [];
  const unnamed = isUsualThere ? [usual] : [];
  const ofSite = envFile === null ? unnamed : envFile.map((file) => locate(root, file, 'envFile'));
  const ofTiers = Object.entries(tiers).flatMap(([tier, { envFile: files = [] }]) =>
    files.map((file) => ({ tier, ...locate(root, file, `tiers.${tier}.envFile`) })),
  );
  const read = [...ofSite, ...ofTiers].map((file) => ({ tier: null, ...file, ...readEnvFile(root, file, settings) }));
  const faults = read.flatMap((each) => each.faults);
  if (faults.length > 0) throw new UsageError(faults);
  const site = joinVariables(read.filter(({ tier }) => tier === null));
  const given = ofTiers.map(({ tier }) => [
    tier,
    joinVariables(read.filter((each) => each.tier === null || each.tier === tier)),
  ]);
  return {
    files: [...missing, ...read.map(({ path, names }) => ({ path, names }))],
    site,
    tiers: Object.fromEntries(given),
  };
}

/** Later files win. */
function joinVariables(files: readonly { readonly variables: Variables }[]): Variables {
  return Object.assign({}, ...files.map(({ variables }) => variables));
}

function locate(root: string, file: string, setting: string): EnvFile {
  return { path: resolve(root, file.replace(/^~(?=\/)/, homedir())), setting };
}

interface ReadFile {
  readonly variables: Variables;
  /** The names of all its variables. */
  readonly names: readonly string[];
  readonly faults: readonly Fault[];
}

function readEnvFile(root: string, file: EnvFile, { allowUnsafe }: Settings): ReadFile {
  const source = readSource(file);
  if (typeof source !== 'string') return { variables: {}, names: [], faults: [source] };
  const all = Object.entries(parseEnv(source)).map(([name, value = '']) => [name, value] as const);
  const faults = [
    ...(allowUnsafe ? [] : findOpenness(root, file)),
    ...all.flatMap(([name, value]) => describeWrong(file, source, name, value) ?? []),
  ];
  const variables = Object.fromEntries(all.filter(([name]) => !isOfRunner(name)));
  return { variables, names: all.map(([name]) => name), faults };
}

/** The runner sets or reads them, some before it knows this file: they come from its caller. */
export function isOfRunner(name: string): boolean {
  return name.startsWith('RUNNER_');
}

/** The content of a file, or why there is none. */
function readSource({ path, setting }: EnvFile): string | Fault {
  try {
    return readPlainFile(path).replace(/^\ufeff/, '');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') {
      if (setting !== null)
        return {
          found: `${path} does not exist, and ${setting} in the settings names it`,
          cure: 'create it, or correct the setting',
        };
      // It is a link, or was removed a moment ago.
      return { found: `${path} is a link that leads nowhere`, cure: 'correct or remove it' };
    }
    const found = `${path} cannot be read: ${(error as Error).message}`;
    return { found, cure: `let this user read it, such as with: chmod u+r ${shellWord(path)}` };
  }
}

/** Reasons why others could write or download the file. */
function findOpenness(root: string, { path }: EnvFile): readonly Fault[] {
  const folder = dirname(path);
  const ofFolder = [...[judgeRoot(root) ?? []].flat(), ...(folder === root ? [] : judgePath(root, folder))];
  const writable = [...ofFolder, ...judgePath(root, path)].map((distrust) => faultAt(distrust, orAllow));
  const served = describeServed(path);
  return [...writable, ...(served === null ? [] : [served])];
}

/**
 * Other readers of the file, at the end of all links; null: only root. This stops nothing: most hosts create files
 * that all can read, and close the home instead.
 */
export function findReaders(path: string): Fault | null {
  const { gid, mode } = statSync(path);
  const isOpen = (mode & 0o004) !== 0;
  if (!isOpen && ((mode & 0o040) === 0 || isPrivateGroup(gid, process.geteuid?.() ?? 0))) return null;
  const octal = (mode & 0o7777).toString(8).padStart(4, '0');
  return {
    found: `${path} can be read by ${isOpen ? 'anybody' : `the group ${nameGroup(gid)}`} (mode ${octal})`,
    cure: `close it with: chmod go-rwx ${shellWord(path)}`,
  };
}

/** Explains that the file is inside a web root, perhaps behind a link; null: it is not. */
function describeServed(path: string): Fault | null {
  const webRoot = findWebRoot(dirname(path)) ?? findWebRoot(dirname(realpathSync(path)));
  if (webRoot === null) return null;
  const cure = `move it beside that folder, ${orAllow}`;
  return { found: `${path} is inside ${webRoot}, ${SERVED} its passwords`, cure };
}

function faultAt({ path, reason, cure }: Distrust, orElse: string): Fault {
  return { found: `${path} ${reason}`, cure: `${cure(path)}, ${orElse}` };
}

/** The fault of a variable, without its value; null: none. */
function describeWrong({ path: file }: EnvFile, source: string, name: string, value: string): Fault | null {
  const { line, written } = findLine(source, name);
  const fault = (why: string, cure: string): Fault => ({ found: `${file}:${line}: ${why}`, cure });
  if (!variableName.test(name)) {
    return fault(`${JSON.stringify(name)} is not a name such as API_KEY`, 'correct or remove the line');
  }
  if (loadsCode(name)) {
    const cure = 'remove the line, or set it with env in runner.config.*';
    return fault(`${name} makes programs load code, which such a file may not`, cure);
  }
  if (value.includes('\0')) return fault(`the value of ${name} contains a NUL`, 'correct the line');
  // Other programs that read such files keep the rest.
  if (/^(?:#|[^\s"'`#][^#\n]*(?<=\S)#)/.test(written)) {
    return fault(`the value of ${name} would end before its #`, 'put the value between quotes');
  }
  return null;
}

/** The last line that sets a variable, and all that follows the `=`. */
function findLine(source: string, name: string) {
  const start = new RegExp(String.raw`^\s*(?:export\s+)?${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}\s*=`);
  const lines = source.split('\n');
  const index = lines.findLastIndex((line) => start.test(line));
  return { line: index + 1, written: lines[index]?.replace(start, '') ?? '' };
}
