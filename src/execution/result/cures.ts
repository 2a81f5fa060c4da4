import { existsSync, statSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { basename, dirname, extname, isAbsolute, join } from 'node:path';
import type { ProbeError } from '../../child/contract.ts';
import { warnOfByteOrderMark, warnOfWindowsEnds } from '../../discovery/build-script.ts';
import { fileName } from '../../discovery/jobs-folder.ts';
import { isShell } from '../../discovery/script-file.ts';
import { describeUnset, findUnset } from '../../discovery/variables.ts';
import { errorCode, sentenceOf } from '../../system/base/errors.ts';
import { readPlainFile } from '../../system/base/plain-file.ts';
import { shellWord } from '../../system/base/values.ts';
import { findElsewhere, findProgram } from '../../system/process/programs.ts';
import { chosenVariables, findMissingInterpreter, type RunRequest, searchPathOf } from '../start/process.ts';
import type { Sign } from './signs.ts';
import type { EndFacts } from './wording.ts';

/** The facts from which a cure may follow. */
type Failed = Pick<EndFacts, 'request' | 'result' | 'output' | 'exit'>;

/** A script whose interpreter, programs or modules are looked for. */
type Seeker = Pick<RunRequest, 'script' | 'root' | 'environment' | 'variables' | 'given'>;

/** The likely cause and its cure, from what the script has printed or thrown; null: unknown. */
export function describeCure(run: Failed, signs: readonly Sign[]): string | null {
  const { request, result, output } = run;
  const cures = [
    ...new Set(signs.map(({ missing }) => missing && describeMissing(missing, request))),
    describeShell(run),
    output.text.includes('JavaScript heap out of memory') ? HEAP : null,
    hasAsked(run) ? NO_KEYBOARD : null,
    result?.error ? describeModule({ ...request, error: result.error, output: output.text }) : null,
    ...describeVariables(request),
  ].filter((each) => each !== null);
  return cures.length === 0 ? null : cures.join('; ');
}

/** Variables that may have been missing. */
function describeVariables(request: Seeker): readonly string[] {
  const { script, environment } = request;
  const given = new Set(Object.keys(chosenVariables(request)));
  const held = new Set(Object.keys(environment));
  const faults = describeUnset(findUnset(script, { given, held }), 'the caller');
  return faults.map((fault) => `it ${sentenceOf(fault)}`);
}

const HEAP =
  'a Node process that it started had its heap full: set NODE_OPTIONS=--max-old-space-size=512 for that, or more';

/** Explains that a shell did not find a program: cron's PATH and a login's PATH differ. */
function describeMissing(name: string, request: Seeker): string | null {
  const path = searchPathOf(request);
  // The script has set its own PATH, or the program was installed since.
  if (/^\.*$|\\r'$|^\ufeff/.test(name) || isBashWord(name) || findProgram(name, path) !== null) return null;
  const elsewhere = findElsewhere(name, request.environment);
  if (elsewhere === null) return `${name} is not installed, or not on the PATH of scripts (${path})`;
  return `${name} is at ${elsewhere}, which is not on the PATH of scripts (${path}): write the full path, or set env.PATH in the settings`;
}

/** The interpreter that a script asked for, and where one is; null: it exists, so it is not to blame. */
export function describeMissingInterpreter(request: Seeker, command: readonly string[]): string | null {
  const { script, root, environment } = request;
  const path = searchPathOf(request);
  const missing = findMissingInterpreter(command, path);
  if (missing?.includes(' ')) return describeOneWord(missing, request, command);
  const wanted = missing ?? command[0] ?? '';
  if (!isAbsolute(wanted)) return describeMissing(wanted, request);
  if (wanted === script.path || existsSync(wanted) || wanted.length > LONGEST_PATH) return null;
  const name = basename(wanted);
  const there = findProgram(name, path) ?? findElsewhere(name, environment);
  const file = fileName({ root }, script.path);
  const asked = readIfPossible(script.path)?.startsWith('#!') ? `line 1 of ${file} names` : `${file} is to be run by`;
  if (leadsBack(wanted)) return `${asked} ${wanted}, a symlink that leads back to itself; fix or remove it`;
  return `${asked} ${wanted}, which does not exist${there === null ? '' : `; ${name} is at ${there}`}`;
}

function leadsBack(path: string): boolean {
  try {
    statSync(path);
    return false;
  } catch (error) {
    return errorCode(error) === 'ELOOP';
  }
}

/** The kernel passes all words after `env` as one word. */
function describeOneWord(words: string, request: Seeker, [env = '']: readonly string[]): string | null {
  const [name = ''] = words.split(' ');
  if (findProgram(name, searchPathOf(request)) === null) return describeMissing(name, request);
  const file = fileName(request, request.script.path);
  return `line 1 of ${file} hands ${JSON.stringify(words)} to env as one word: write #!${env} -S ${words}`;
}

/** A `#!` line may hold anything, and cron would mail all of it. */
const LONGEST_PATH = 200;

/** A fault of the file itself; null: none. */
function describeShell({ request, output }: Failed): string | null {
  const { script } = request;
  if (!isShell(script.launch)) return null;
  const file = fileName(request, script.path);
  const source = readIfPossible(script.path) ?? '';
  return (
    warnOfWindowsEnds(file, source) ?? warnOfByteOrderMark(file, source) ?? describeBash(request, source, output.text)
  );
}

const NO_KEYBOARD = 'Did the script wait for input? Scripts have no keyboard (stdin is empty).';

/** `EOFError` alone does not count: it may come from a closed pipe or a short file. */
const prompts =
  /^EOFError: EOF when reading a line$|^sudo: (?:a password is|a terminal is|no tty)|readline was closed|force closed the prompt|undefined method [`'](?:chomp|strip)' for nil/m;

function hasAsked({ request: { script }, result, output, exit }: Failed): boolean {
  if (prompts.test(result?.error?.message ?? '') || prompts.test(output.text)) return true;
  if (script.launch.kind === 'node') return result?.isUnsettled === true && asksKeyboard(script.path);
  if (exit?.code !== 1) return false;
  return isShell(script.launch) && readsKeyboard(script.path);
}

/** For a top-level await, Node's own message asks this question already. */
function asksKeyboard(path: string): boolean {
  return /\b(?:stdin|readline|inquirer|prompts?)\b/.test(readIfPossible(path) ?? '');
}

/** Finds `read answer`, but neither `while read line` nor `read name < file`: `read` fails when stdin is empty. */
function readsKeyboard(path: string): boolean {
  const source = readIfPossible(path) ?? '';
  return /^[ \t]*(?:(?:if|until|!)[ \t]+)?(?:IFS=\S*[ \t]+)?read\b(?:[^\n|<]|\|\|)*$/m.test(source);
}

/**
 * The cure for a script that is written in bash but run by `sh`. It is found by a complaint of `sh` about a line and by
 * the text of that line. Null: it is not certain that the script is bash.
 */
function describeBash(request: Seeker, source: string, output: string): string | null {
  const { script } = request;
  const bash = findProgram('bash', searchPathOf(request));
  if (bash === null || script.launch.kind === 'node' || !isPlainShell(script.launch.command)) return null;
  for (const [, words = ''] of output.matchAll(/^(.*)$/gm)) {
    const found = findBash(words, script.path, source);
    if (found === null) continue;
    const cure = describeShebang(script, source, bash);
    return `this is bash (${found}), and ${fileName(request, script.path)} is run by sh: ${cure}`;
  }
  return null;
}

function describeShebang({ path, options }: Seeker['script'], source: string, bash: string): string {
  if (source.startsWith('#!')) return `change its first line to #!${bash}`;
  if (options.shell !== undefined) return 'run it by `@shell bash`';
  return `give it the first line #!${bash}, or name it ${basename(path, extname(path))}.bash`;
}

/** Recognizes `sh` by any path, also after `env`; dash and ash know as little of bash. */
function isPlainShell(command: readonly string[]): boolean {
  return command.slice(0, 2).some((word) => /^(?:.*\/)?(?:d?a)?sh$/.test(word));
}

/** Commands that only bash has: no package contains a program of such a name. */
const builtins = new Set(
  `source [[ pushd popd dirs shopt declare typeset let mapfile readarray builtin coproc disown function enable caller
  complete compgen compopt bind history suspend logout`.split(/\s+/),
);

/** Whether a missing name means that the shell is not bash, rather than that a program is missing. */
function isBashWord(name: string): boolean {
  return builtins.has(name) || /^\w+\+=|^\(\(|^\w+(?:\+\+|--)$/.test(name);
}

/** A complaint of `sh`, and the bash syntax that its line must contain. */
const complaints: readonly (readonly [RegExp, RegExp])[] = [
  [/^\S+: not found$/, /\(\(.*|\b\w+\+=\S*/],
  [/^exec: -a: not found$/, /\bexec -a\b/],
  [
    /^(?:\d+: )?(?:Bad substitution|syntax error: bad substitution)$/,
    /\$\{(?:!\w+|\w+(?:\[[^\]]*\]|\^|,|\/|:(?![-+=?])|@[A-Za-z]\})).*?\}/,
  ],
  [/^[Ss]yntax error: (?:unexpected )?"\("/, /[<>]\([^)]*\)?|\bfunction\s+[\w-]+|\b\w+\+?=\([^)]*\)?/],
  [/^[Ss]yntax error: (?:unexpected )?"\}"/, /\bfunction\s+[\w-]+/],
  [/^[Ss]yntax error: [Bb]ad for loop variable/, /\bfor\s*\(\(/],
  [/^[Ss]yntax error: (?:redirection unexpected|unexpected redirection)/, /<<<|&>>?|[<>]\(/],
  [/^[Ss]yntax error: (?:unexpected )?"[&;]"/, /\|&|;;?&/],
  [/^[Ss]yntax error: (?:unexpected )?"do"/, /\bselect\s+\w+/],
  [/^set: [Ii]llegal option -o/, /\bset\s.*-\w*o\s+(?:pipefail|errtrace|functrace|posix|history|igncr)\b/],
  [/^set: [Ii]llegal option -/, /\bset\s+-\w*[BEHTkprt]/],
  [/^export: [Ii]llegal option -/, /\bexport\s+-[fn]\b/],
  [/^printf: [Ii]llegal option -v/, /\bprintf\s+-v\b/],
  [/^wait: [Ii]llegal option -/, /\bwait\s+-[np]\b/],
  [/^read: [Ii]llegal option -/, /\bread\s.*-\w*[adeinNstu]\b/],
  [/^local: -\w+: bad variable name/, /\blocal\s+-\w+/],
  [/^unset: .*\]: bad variable name/, /\bunset\s+\w+\[[^\]]*\]/],
  [/^\[: .*unexpected operator$/, /==|=~/],
  [/^arithmetic expression: expecting /, /\*\*|\+\+|--/],
  [
    /^(?:RANDOM|SRANDOM|EPOCHSECONDS|EPOCHREALTIME|SECONDS|BASH\w*|UID|EUID|PIPESTATUS|FUNCNAME|HOSTNAME): parameter not set$/,
    /\$\{?\w+/,
  ],
];

/** The bash syntax in the line that `sh` complains about: `[[ in line 3`. */
function findBash(words: string, path: string, source: string): string | null {
  const prefix = `${path}: `;
  if (!words.startsWith(prefix)) return null;
  const [, number, message = ''] = /^(?:line )?(\d+): (?:eval: )?(.*)$/.exec(words.slice(prefix.length).trim()) ?? [];
  const line = source.split('\n')[Number(number) - 1];
  if (line === undefined) return null;
  const [, missing] = /^(\S+): not found$/.exec(message) ?? [];
  if (missing !== undefined && builtins.has(missing)) {
    return hasWord(line, missing) ? `${missing} in line ${number}` : null;
  }
  for (const [said, form] of complaints) {
    const [found] = said.test(message) ? (form.exec(line) ?? []) : [];
    if (found !== undefined) return `${found.trim().slice(0, LONGEST_SHOWN)} in line ${number}`;
  }
  return null;
}

const LONGEST_SHOWN = 40;

function hasWord(line: string, word: string): boolean {
  return line.split(/[\s;&|(){}!`]+/).includes(word);
}

/** A Node script and its error. */
type ModuleRun = Pick<RunRequest, 'script' | 'root'> & { readonly error: ProbeError; readonly output: string };

/** The cure for a module that is missing or not understood; null: unknown. */
function describeModule(run: ModuleRun): string | null {
  return describeMissingModule(run) ?? describeFormat(run) ?? describeSyntax(run);
}

function describeMissingModule(run: ModuleRun): string | null {
  const [, wanted] = /^Cannot find (?:package|module) '([^'\n./][^'\n]*)'/.exec(run.error.message) ?? [];
  return wanted === undefined ? null : (describeAlias(run, wanted) ?? describePackage(run, wanted));
}

/** Node names the missing module; only TypeScript's configuration tells that it is an alias. */
function describeAlias({ script, root }: ModuleRun, wanted: string): string | null {
  for (const file of filesAbove(script.path, root, ['tsconfig.json', 'jsconfig.json'])) {
    const alias = aliasesIn(file).find((each) => isOfAlias(wanted, each));
    if (alias === undefined) continue;
    return `'${alias}' is an alias that only ${basename(file)} knows (paths), and Node does not read it: import the file by its path, or give it a name that begins with # under "imports" in package.json`;
  }
  return null;
}

/** Possible files of these names, in the folders from the file's own up to the root. */
function filesAbove(path: string, root: string, names: readonly string[]): readonly string[] {
  const folders: string[] = [];
  for (let folder = dirname(path); folder.startsWith(root); folder = dirname(folder)) folders.push(folder);
  return folders.flatMap((folder) => names.map((name) => join(folder, name)));
}

/** The file may hold comments, so this searches for these lines only. */
function aliasesIn(file: string): readonly string[] {
  const [, paths = ''] = /"paths"\s*:\s*\{([^}]*)\}/.exec(readIfPossible(file) ?? '') ?? [];
  return [...paths.matchAll(/"([^"]+)"\s*:/g)].map(([, alias = '']) => alias);
}

/** For `@/lib/db` Node names only the package: `@/lib`. */
function isOfAlias(wanted: string, alias: string): boolean {
  const [prefix = '', after] = alias.split('*');
  return after === undefined
    ? wanted === alias
    : prefix.startsWith(`${wanted}/`) || (prefix !== '' && wanted.startsWith(prefix));
}

const installers: readonly (readonly [string, string])[] = [
  ['pnpm-lock.yaml', 'pnpm add'],
  ['yarn.lock', 'yarn add'],
  ['bun.lock', 'bun add'],
  ['bun.lockb', 'bun add'],
];

/** `express/lib/x` belongs to the package `express`. Any other form is not the name of a package. */
function describePackage({ script, root }: ModuleRun, wanted: string): string | null {
  const [name] = /^(?:@[a-z\d~-][\w.~-]*\/)?[a-z\d~-][\w.~-]*(?=$|\/)/i.exec(wanted) ?? [];
  if (name === undefined || builtinModules.includes(name)) return null;
  const [manifest = join(root, 'package.json')] = filesAbove(script.path, root, ['package.json']).filter((file) =>
    existsSync(file),
  );
  const folder = dirname(manifest);
  const [, install = 'npm install'] = installers.find(([lock]) => existsSync(join(folder, lock))) ?? [];
  const isListed = new RegExp(`"${name.replaceAll('.', '\\.')}"\\s*:`).test(readIfPossible(manifest) ?? '');
  const command = isListed ? install.replace('add', 'install') : `${install} ${name}`;
  return `the package ${name} is not installed: cd ${shellWord(folder)} && ${command}`;
}

const moduleSyntax =
  /^(?:Cannot use import statement outside a module|Unexpected token 'export'|Cannot use 'import\.meta' outside a module|await is only valid in async functions and the top level bodies of modules|Unexpected reserved word|Unexpected identifier)/;

/** `npm init` writes `"type": "commonjs"`, and Node then reads each .js file below it as CommonJS. */
function describeFormat(run: ModuleRun): string | null {
  const { root } = run;
  const path = findModule(run);
  if (path === null || !/\.js$/i.test(path)) return null;
  const manifest = filesAbove(path, root, ['package.json']).find((file) => existsSync(file));
  if (manifest === undefined || !/"type"\s*:\s*"commonjs"/.test(readIfPossible(manifest) ?? '')) return null;
  const [file, where] = [path, manifest].map((each) => fileName({ root }, each));
  return `${where} says "type": "commonjs", so that Node takes ${file} for CommonJS: name it ${basename(path, '.js')}.mjs, or remove "type" from ${where}`;
}

/** The file that is written as a module but read as CommonJS; null: none. */
function findModule(run: ModuleRun): string | null {
  const { script, error } = run;
  if (moduleSyntax.test(error.message)) return failedAt(run)?.path ?? script.path;
  // Node 24 begins with the missing named export; Node 22, behind a module hook, says only the rest.
  const [, imported] =
    /^(?:Named export '.*' not found\. )?The requested module '(\.[^']+)' (?:is a CommonJS|does not provide an export)/.exec(
      error.message,
    ) ?? [];
  const path = imported === undefined ? null : join(dirname(script.path), imported);
  return path !== null && /^\s*export\b/m.test(readIfPossible(path) ?? '') ? path : null;
}

function describeSyntax(run: ModuleRun): string | null {
  const { root } = run;
  const { message } = run.error;
  const [, json] = /^Module "file:\/\/(\S+)" needs an import attribute of "type: json"/.exec(message) ?? [];
  if (json !== undefined) return `write: import … from './${basename(json)}' with { type: 'json' }`;
  if (/^require is not defined in ES module scope/.test(message)) {
    return "the file uses import or export, so it is a module: write import x from 'x' in the place of require('x')";
  }
  const [, name] = /^(__dirname|__filename) is not defined in ES module scope/.exec(message) ?? [];
  if (name !== undefined) {
    return `the file uses import or export, so it is a module: write import.meta.${name.slice(2)} in the place of ${name}`;
  }
  const place = /^Invalid or unexpected token/.test(message) ? failedAt(run) : null;
  if (place === null || !/^\s*@[A-Za-z_$]/.test(place.line)) return null;
  return `${fileName({ root }, place.path)}:${place.number}: decorators are not supported; do without them, or run the compiled file`;
}

/** Node prints the file and the line of a syntax error; the error's stack has them only sometimes. */
function failedAt({ error, output }: ModuleRun) {
  const form = /^(?:file:\/\/)?(\/[^\n]+):(\d+)\n([^\n]*)\n/m;
  const [, path, number, line = ''] = form.exec(error.stack ?? '') ?? form.exec(output) ?? [];
  return path === undefined ? null : { path, number: Number(number), line };
}

function readIfPossible(path: string): string | null {
  try {
    return readPlainFile(path);
  } catch {
    return null;
  }
}
