import { existsSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { basename, dirname, join } from 'node:path';
import type { ProbeError } from '../../child/contract.ts';
import { fileName } from '../../discovery/place.ts';
import type { Script } from '../../discovery/script.ts';
import { readPlainFile } from '../../system/base/plain-file.ts';
import { shellWord } from '../../system/base/values.ts';

/** A Node script and its error. */
interface ModuleRun {
  readonly script: Pick<Script, 'path'>;
  readonly root: string;
  readonly error: ProbeError;
  readonly output: string;
}

/** The cure for a module that is missing or not understood; null: unknown. */
export function describeModule(run: ModuleRun): string | null {
  return describeMissing(run) ?? describeFormat(run) ?? describeSyntax(run);
}

function describeMissing(run: ModuleRun): string | null {
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

interface FailedAt {
  readonly path: string;
  readonly number: number;
  readonly line: string;
}

/** Node prints the file and the line of a syntax error; the error's stack has them only sometimes. */
function failedAt({ error, output }: ModuleRun): FailedAt | null {
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
