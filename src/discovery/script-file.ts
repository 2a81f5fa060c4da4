import { closeSync, constants, fstatSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { basename, dirname, extname, relative, resolve } from 'node:path';
import { sha256 } from '@noble/hashes/sha2.js';
import { describeFound, once, shellWord } from '../system/base/values.ts';
import type { Ignored, Launch } from './script.ts';
import type { CommentStyle } from './tags.ts';

/** The facts about a file that the runner knows without running it. */
export interface ScriptFile {
  /** The first 64 KB at most. */
  readonly head: Buffer;
  /** Whether `head` is the whole file. */
  readonly isWhole: boolean;
  /** SHA-256 of the whole file, in hex; null: it is too large to be read by each pass. Only runs need it. */
  readonly hash: () => string | null;
  readonly isExecutable: boolean;
}

type FileKind = 'folder' | 'special';

const headBytes = 64 * 1024;
const pieceBytes = 1024 * 1024;
const mostHashedBytes = 64 * 1024 * 1024;

/**
 * Reads a file, or says what else it is. Without `O_NONBLOCK` a named pipe would block the pass for ever.
 *
 * @throws the error of the file system: no such file, no permission …
 */
export function readScriptFile(path: string): ScriptFile | FileKind {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(file);
    if (stats.isDirectory()) return 'folder';
    if (!stats.isFile()) return 'special';
    const content = stats.size <= headBytes ? readWhole(file) : readHead(file, path, stats.size);
    return { ...content, isExecutable: hasExecuteBit(stats) };
  } finally {
    closeSync(file);
  }
}

export function isExecutableFile(path: string): boolean {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats?.isFile() === true && hasExecuteBit(stats);
}

function hasExecuteBit({ mode }: { readonly mode: number }): boolean {
  return (mode & 0o111) !== 0;
}

function readWhole(file: number) {
  const head = readFileSync(file);
  return { head, isWhole: true, hash: once(() => hashSmall(head)) };
}

/** Hashes in JavaScript: loading `node:crypto` would take 5 ms and 3.5 MB, more than hashing a tier. */
function hashSmall(content: Buffer): string {
  return Buffer.from(sha256(content)).toString('hex');
}

function readHead(file: number, path: string, size: number) {
  const head = Buffer.alloc(headBytes);
  const length = readSync(file, head, 0, headBytes, 0);
  const hash = once(() => (size <= mostHashedBytes ? hashInPieces(path) : null));
  return { head: head.subarray(0, length), isWhole: false, hash };
}

/** Null: the file is gone. A large program must not be held in memory: it would slow down each start of a process. */
function hashInPieces(path: string): string | null {
  const sum = process.getBuiltinModule('node:crypto').createHash('sha256');
  const piece = Buffer.alloc(pieceBytes);
  try {
    const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      for (let size = readSync(file, piece); size > 0; size = readSync(file, piece))
        sum.update(piece.subarray(0, size));
    } finally {
      closeSync(file);
    }
  } catch {
    return null;
  }
  return sum.digest('hex');
}

/** The text by which a Node script imports one of its own files: `import … from './lib.ts'`, `require('../lib')`. */
const importPattern = /\b(?:from|import|require)\b\s{0,9}\(?\s{0,9}(['"])(\.{1,2}\/[^'"\n]+)\1/g;

const suffixes = ['', '.ts', '.mts', '.cts', '.js', '.mjs', '.cjs', '.json', '/index.ts', '/index.js'];

/** More than any script has, and few enough for a pass to read in a moment. */
const MOST_FILES = 200;

interface Content {
  readonly mark: string;
  readonly hash: string | null;
  /** Paths of the files that it imports. */
  readonly imports: readonly string[];
}

/** Scripts share imports: each file is read once, and again after it has changed. */
const known = new Map<string, Content>();

/**
 * The hash of a Node script with all files that it imports by relative paths, including their imports, within the root.
 * Packages are left out.
 *
 * @returns the script's own hash if it imports nothing
 */
export function hashWithImports(root: string, path: string, { hash, head }: ScriptFile): string | null {
  const contentHash = hash();
  const waiting = findImports(path, head.toString('utf8'));
  if (contentHash === null || waiting.length === 0) return contentHash;
  const found = new Map<string, string>();
  for (let file = waiting.pop(); file !== undefined && found.size < MOST_FILES; file = waiting.pop()) {
    if (found.has(file) || file === path || !file.startsWith(`${root}/`)) continue;
    const content = readContent(file);
    found.set(file, content?.hash ?? '');
    waiting.push(...(content?.imports ?? []));
  }
  const lines = [...found].map(([file, hash]) => `${hash} ${relative(root, file)}`).sort();
  return hashSmall(Buffer.from([contentHash, ...lines].join('\n')));
}

function findImports(path: string, source: string): string[] {
  if (!source.includes('./')) return [];
  return [...source.matchAll(importPattern)].flatMap(([, , name = '']) => findFile(resolve(dirname(path), name)));
}

/** As in TypeScript, `./lib.js` may be `./lib.ts`. */
function findFile(path: string): string[] {
  const candidates = [...suffixes.map((suffix) => path + suffix), path.replace(/\.([cm]?)js$/, '.$1ts')];
  const file = candidates.find((each) => statSync(each, { throwIfNoEntry: false })?.isFile());
  return file === undefined ? [] : [file];
}

/** Null: it cannot be read. */
function readContent(path: string): Content | null {
  const before = known.get(path);
  try {
    const { mtimeMs, size, ino } = statSync(path);
    const mark = `${mtimeMs} ${size} ${ino}`;
    if (before?.mark === mark) return before;
    const file = readScriptFile(path);
    if (typeof file === 'string') return null;
    const content = { mark, hash: file.hash(), imports: findImports(path, file.head.toString('utf8')) };
    known.set(path, content);
    return content;
  } catch {
    return null;
  }
}

/** The `#!` line, split as the kernel does: all text after the interpreter is one argument. */
interface Shebang {
  readonly line: string;
  readonly interpreter: string;
  readonly argument: string | null;
  readonly endsInCarriageReturn: boolean;
}

/** Null if the file does not begin with `#!`. An empty interpreter means an empty `#!` line. */
export function parseShebang(source: string): Shebang | null {
  if (!source.startsWith('#!')) return null;
  const line = source.split('\n', 1)[0] ?? '';
  const words = line
    .slice(2)
    .replace(/\r$/, '')
    .replace(/^[ \t]+|[ \t]+$/g, '');
  const [interpreter = ''] = words.split(/[ \t]/, 1);
  const argument = words.slice(interpreter.length).replace(/^[ \t]+/, '');
  return {
    line,
    interpreter,
    argument: argument === '' ? null : argument,
    endsInCarriageReturn: line.endsWith('\r'),
  };
}

/** How a file is run, or why it cannot be, or why it is no script at all. */
export type LaunchChoice =
  | { readonly launch: Launch; readonly comments: CommentStyle | null }
  | { readonly refusal: string; readonly lacksShebang?: true }
  | (Pick<Ignored, 'chmod'> & { readonly ignored: string });

const nodeExtensions: ReadonlySet<string> = new Set(['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs']);

/** Node strips a byte-order mark or a `#!` line from CommonJS, but not both. */
const commonJsExtensions: ReadonlySet<string> = new Set(['.js', '.cjs', '.cts']);

const usualInterpreters: ReadonlyMap<string, string> = new Map([
  ['.sh', '/bin/sh'],
  ['.bash', 'bash'],
  ['.py', 'python3'],
  ['.php', 'php'],
  ['.pl', 'perl'],
  ['.rb', 'ruby'],
]);

export const byteOrderMark = '\ufeff';
const elfMagic = '\x7fELF';

/** @param file its name in messages */
export function chooseLaunch(path: string, file: string, content: ScriptFile): LaunchChoice {
  const extension = extname(path).toLowerCase();
  const source = content.head.toString('utf8');
  const refusal = refuseFirstLine(extension, file, source);
  const shebang = parseShebang(source);
  if (!isRunnable(extension, content)) return describeUnrunnable(extension, file, shebang);
  if (refusal !== null) return { refusal };
  if (nodeExtensions.has(extension)) return launchNode(content);
  if (shebang) return launchByShebang(path, content, shebang);
  if (source.startsWith(elfMagic)) return launchProgram([path], null);
  const interpreter = usualInterpreters.get(extension);
  if (interpreter !== undefined) return launchProgram([interpreter, path], styleOf(interpreter));
  return { refusal: describeMissingShebang(file, content), lacksShebang: true };
}

function isRunnable(extension: string, { isExecutable }: ScriptFile): boolean {
  return isExecutable || isScriptExtension(extension);
}

/** A file with such an extension is a script, whatever it contains. */
export function isScriptExtension(extension: string): boolean {
  const known = extension.toLowerCase();
  return nodeExtensions.has(known) || usualInterpreters.has(known);
}

function describeUnrunnable(extension: string, file: string, shebang: Shebang | null): LaunchChoice {
  if (/^\.[jt]sx$/.test(extension)) return { ignored: 'JSX is not supported; name it .ts or .js, without JSX in it' };
  const reason = 'not executable, and not a known extension';
  if (shebang === null) return { ignored: reason };
  const chmod = `chmod +x ${shellWord(file)}`;
  return { ignored: `${reason}; to run it by its #! line: ${chmod}`, chmod };
}

/** The kernel would look for an interpreter named `/bin/sh\r`, or see no `#!` at all. */
function refuseFirstLine(extension: string, file: string, source: string): string | null {
  if (source.startsWith(`${byteOrderMark}#!`)) {
    const works = nodeExtensions.has(extension) && !commonJsExtensions.has(extension);
    return works ? null : describeByteOrderMark(file);
  }
  const shebang = nodeExtensions.has(extension) ? null : parseShebang(source);
  if (shebang?.endsInCarriageReturn) return describeCarriageReturn(file, shebang);
  if (shebang?.interpreter === '') return describeEmptyShebang(file);
  return null;
}

function describeByteOrderMark(file: string): string {
  return `${file}:1: a byte-order mark before #! hides the interpreter; remove it with: ${removeMark(file)}`;
}

/** The command that removes a byte-order mark. */
export function removeMark(file: string): string {
  return String.raw`sed -i '1s/^\xEF\xBB\xBF//' ${shellWord(file)}`;
}

function describeCarriageReturn(file: string, { line }: Shebang): string {
  const cure = String.raw`sed -i 's/\r$//' ${shellWord(file)}`;
  return `${file}:1: the #! line needs an interpreter and a line end without CR, found ${describeFound(line)} with a Windows line end (CRLF); convert the file with: ${cure}`;
}

function describeEmptyShebang(file: string): string {
  return `${file}:1: the #! line needs an interpreter, found none; write one such as #!/bin/sh`;
}

function describeMissingShebang(file: string, { head }: ScriptFile): string {
  const found = head.length === 0 ? 'an empty file' : 'neither';
  return `${file}: an executable file without a known extension needs a #! line or a program for this system, found ${found}; write a first line such as #!/bin/sh`;
}

function launchByShebang(path: string, content: ScriptFile, { interpreter, argument }: Shebang): LaunchChoice {
  const extension = extname(path).toLowerCase();
  // On cron's bare PATH `env` may find no node; the runner's own Node certainly exists.
  const isNode = basename(interpreter) === 'env' && argument === 'node' && extension === '';
  if (isNode) return launchNode(content);
  const command = argument === null ? [interpreter, path] : [interpreter, argument, path];
  return launchProgram(command, styleOf(`${interpreter} ${argument ?? ''}`, extension));
}

function launchNode({ head, isWhole }: ScriptFile): LaunchChoice {
  const exportsNothing = isWhole && !mayExport(head.toString('utf8'));
  return {
    launch: { kind: 'node', ...(exportsNothing && { exportsNothing }) },
    comments: 'slashes',
  };
}

/** A file that asks whether it is the main module starts itself, and must not be started twice. */
function mayExport(source: string): boolean {
  if (!/\bexports?\b/.test(source)) return false;
  const code = source.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
  return !/\b(?:require|import\.meta)\.main\b/.test(code);
}

function launchProgram([program = '', ...args]: readonly string[], comments: CommentStyle | null): LaunchChoice {
  return { launch: { kind: 'program', command: [program, ...args] }, comments };
}

/** The launch by a shell and its flags, for a script that does not say itself what runs it. */
export function launchByShell(path: string, shell: readonly string[]): Launch {
  const [program = '', ...flags] = shell;
  return { kind: 'program', command: [program, ...flags, path] };
}

/** Whether a shell reads the file line by line, as its interpreter or after `env`. */
export function isShell(launch: Launch): boolean {
  if (launch.kind === 'node') return false;
  return launch.command.slice(0, 2).some((word) => /(?:^|\/)(?:ba|da|k|z|a)?sh$/.test(word));
}

function styleOf(interpreter: string, extension = ''): CommentStyle {
  if (extension === '.php' || /(?:^|[\s/])php[\d.]*(?:\s|$)/.test(interpreter)) return 'php';
  return /(?:^|[\s/])(?:node|deno|bun|tsx|ts-node)(?:\s|$)/.test(interpreter) ? 'slashes' : 'hashes';
}
