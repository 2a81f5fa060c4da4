import { existsSync, statSync } from 'node:fs';
import { basename, isAbsolute } from 'node:path';
import type { ProbeResult } from '../../child/contract.ts';
import { warnOfByteOrderMark, warnOfWindowsEnds } from '../../discovery/build-script.ts';
import { isShell } from '../../discovery/launch.ts';
import { fileName } from '../../discovery/place.ts';
import { errorCode } from '../../system/base/errors.ts';
import { readPlainFile } from '../../system/base/plain-file.ts';
import { findElsewhere, findProgram } from '../../system/process/programs.ts';
import { findMissingInterpreter, searchPathOf } from '../start/command.ts';
import type { Exit } from '../start/process.ts';
import type { RunRequest } from '../start/request.ts';
import { describeBash, isBashWord } from './bash-cure.ts';
import { describeModule } from './module-cures.ts';
import type { KeptOutput } from './result.ts';
import type { Sign } from './signs.ts';

type CauseRequest = Pick<RunRequest, 'script' | 'root' | 'environment' | 'variables'>;

interface CauseEvidence {
  readonly result: ProbeResult | null;
  readonly output: KeptOutput;
  readonly exit: Exit | null;
}

/** The likely cause and its cure, from what the script has printed or thrown; null: unknown. */
export function findCure(request: CauseRequest, evidence: CauseEvidence, signs: readonly Sign[]): string | null {
  const { result, output } = evidence;
  const cures = [
    ...new Set(signs.map(({ missing }) => missing && describeMissing(missing, request))),
    describeShell(request, output.text),
    output.text.includes('JavaScript heap out of memory') ? HEAP : null,
    hasAsked(request, evidence) ? NO_KEYBOARD : null,
    result?.error ? describeModule({ ...request, error: result.error, output: output.text }) : null,
  ].filter((each) => each !== null);
  return cures.length === 0 ? null : cures.join('; ');
}

const HEAP =
  'a Node process that it started had its heap full: set NODE_OPTIONS=--max-old-space-size=512 for that, or more';

/** Explains that a shell did not find a program: cron's PATH and a login's PATH differ. */
function describeMissing(name: string, request: CauseRequest): string | null {
  const path = searchPathOf(request);
  // The script has set its own PATH, or the program was installed since.
  if (/^\.*$|\\r'$|^\ufeff/.test(name) || isBashWord(name) || findProgram(name, path) !== null) return null;
  const elsewhere = findElsewhere(name, request.environment);
  if (elsewhere === null) return `${name} is not installed, or not on the PATH of scripts (${path})`;
  return `${name} is at ${elsewhere}, which is not on the PATH of scripts (${path}): write the full path, or set env.PATH in the settings`;
}

/** The interpreter that a script asked for, and where one is; null: it exists, so it is not to blame. */
export function describeMissingInterpreter(request: CauseRequest, command: readonly string[]): string | null {
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
function describeOneWord(words: string, request: CauseRequest, [env = '']: readonly string[]): string | null {
  const [name = ''] = words.split(' ');
  if (findProgram(name, searchPathOf(request)) === null) return describeMissing(name, request);
  const file = fileName(request, request.script.path);
  return `line 1 of ${file} hands ${JSON.stringify(words)} to env as one word: write #!${env} -S ${words}`;
}

/** A `#!` line may hold anything, and cron would mail all of it. */
const LONGEST_PATH = 200;

/** A fault of the file itself; null: none. */
function describeShell(request: CauseRequest, output: string): string | null {
  const { script } = request;
  if (!isShell(script.launch)) return null;
  const file = fileName(request, script.path);
  const source = readIfPossible(script.path) ?? '';
  const bash = findProgram('bash', searchPathOf(request));
  return (
    warnOfWindowsEnds(file, source) ??
    warnOfByteOrderMark(file, source) ??
    (bash && describeBash({ script, file, source, output, bash }))
  );
}

const NO_KEYBOARD = 'Did the script wait for input? Scripts have no keyboard (stdin is empty).';

/** `EOFError` alone does not count: it may come from a closed pipe or a short file. */
const prompts =
  /^EOFError: EOF when reading a line$|^sudo: (?:a password is|a terminal is|no tty)|readline was closed|force closed the prompt|undefined method [`'](?:chomp|strip)' for nil/m;

function hasAsked({ script }: CauseRequest, { result, output, exit }: CauseEvidence): boolean {
  if (prompts.test(result?.error?.message ?? '') || prompts.test(output.text)) return true;
  if (script.launch.kind === 'node') return hasStoppedAtKeyboard(script.path, result?.error?.message ?? '');
  if (exit?.code !== 1) return false;
  return isShell(script.launch) && readsKeyboard(script.path);
}

/** For a top-level await, Node's own message asks this question already. */
function hasStoppedAtKeyboard(path: string, message: string): boolean {
  if (!message.includes('default function never settled')) return false;
  return /\b(?:stdin|readline|inquirer|prompts?)\b/.test(readIfPossible(path) ?? '');
}

/** Finds `read answer`, but neither `while read line` nor `read name < file`: `read` fails when stdin is empty. */
function readsKeyboard(path: string): boolean {
  const source = readIfPossible(path) ?? '';
  return /^[ \t]*(?:(?:if|until|!)[ \t]+)?(?:IFS=\S*[ \t]+)?read\b(?:[^\n|<]|\|\|)*$/m.test(source);
}

function readIfPossible(path: string): string | null {
  try {
    return readPlainFile(path);
  } catch {
    return null;
  }
}
