import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { UsageError } from '../../../system/base/errors.ts';
import { isExecLabel } from '../../../system/base/exec-name.ts';
import { replaceFile } from '../../../system/base/plain-file.ts';
import { shellWord } from '../../../system/base/values.ts';
import { createStateFolder, stateFolderOf } from '../../../system/place/state-folder.ts';
import { endWithNewline, removeBlock, toLatin1 } from '../block.ts';
import { crontabWord, LIKE_SH, readOwnLine, wordPattern } from '../own-line.ts';
import { markChanged, readCrontab, writeCrontab } from '../program.ts';
import { forgetUncalled, type OwnPackage, placeScript, writeCronScript } from '../script.ts';
import { readShellCommand } from './command.ts';
import { nameScript, reasonToLeave } from './plan.ts';
import { type CrontabJob, readLines } from './read.ts';

/** The result for one line. */
export interface WrappedLine {
  /** Counted from 1. */
  readonly line: number;
  readonly before: string;
  /** Null: it is left as it is. */
  readonly after: string | null;
  /** `exec/backup`; null: it is left as it is. */
  readonly name: string | null;
  /** Why it is left as it is; null: it is not. */
  readonly reason: string | null;
  /** Whether the crontab has it so already. */
  readonly isThere: boolean;
}

export interface WrapPlan {
  readonly lines: readonly WrappedLine[];
  /** The crontab without any wrap of this root. */
  readonly original: Buffer;
  readonly wrapped: Buffer;
}

/** Longest line that the cron of Debian takes, whose commands have 998 characters. */
const LONGEST_COMMAND = 998;

/**
 * Plans to give each line of the user's crontab to `runner exec`. Times, variables, comments and input stay as they
 * are: only the command stands within the call, as the shell gets it. Lines that are wrapped already keep their names.
 *
 * @param place the root, the absolute path of the crontab's script, and the user
 */
export function planWrap(crontab: Buffer, place: WrapPlace): WrapPlan {
  const present = crontab.toString('latin1').split('\n');
  const lines = [...present];
  const known = new Map<number, string>();
  for (const [index, line] of present.entries()) {
    const unwrapped = unwrapLine(line, place.root);
    if (unwrapped === null) continue;
    known.set(index + 1, unwrapped.label);
    lines[index] = unwrapped.line;
  }
  const original = lines.join('\n');
  const names = new Set(known.values());
  const planned = readLines(original, 'crontab').map((found): WrappedLine => {
    const { line } = found;
    const before = lines[line - 1] as string;
    const leave = (reason: string) => ({ line, before, after: null, name: null, reason, isThere: true });
    if (found.kind === 'malformed') return leave(`Cron does not understand this line: ${found.problem}.`);
    const reason = whyNotWrapped(found, place);
    if (reason !== null) return leave(reason);
    const label = known.get(line) ?? nameScript(readShellCommand(commandOf(found).text), (each) => names.has(each));
    const after = wrapLine(found, before, label, place);
    if (typeof after !== 'string') return leave(after.reason);
    names.add(label);
    lines[line - 1] = after;
    return { line, before, after, name: `exec/${label}`, reason: null, isThere: after === present[line - 1] };
  });
  const bytes = (text: string) => Buffer.from(text, 'latin1');
  return { lines: planned, original: bytes(original), wrapped: bytes(lines.join('\n')) };
}

export interface WrapPlace {
  readonly root: string;
  /** Absolute: a line may stand below another `HOME`. */
  readonly script: string;
  readonly user: string;
}

function whyNotWrapped(job: CrontabJob, { user }: WrapPlace): string | null {
  const shell = job.variables.get('SHELL') ?? '/bin/sh';
  if (!LIKE_SH.test(shell)) return `Its SHELL, ${shell}, may read the call in another way than sh does.`;
  return reasonToLeave(job, { user, mayEndLess: true });
}

/** The command as it stands in the line, and what is behind it: from the first bare `%` on, its input. */
function commandOf({ command }: Pick<CrontabJob, 'command'>): { readonly text: string; readonly input: string } {
  const [text = ''] = /^(?:\\.|[^%\\]|\\$)*/s.exec(command) ?? [];
  return { text, input: command.slice(text.length) };
}

/** Two crons that read a backslash before a backslash or a percent sign differently read both forms alike. */
function wrapLine(job: CrontabJob, before: string, label: string, place: WrapPlace): string | { reason: string } {
  const { text, input } = commandOf(job);
  const start = before.slice(0, job.text.length - job.command.length);
  const end = before.slice(job.text.length);
  const shell = job.variables.get('SHELL') ?? '/bin/sh';
  const [script, root] = [place.script, place.root].map((path) => toLatin1(crontabWord(path)));
  const call = ['/bin/sh', script, 'exec', root, '--overlap', label, '--'];
  const command = [...call, crontabWord(shell), '-c', `'${text.replaceAll("'", String.raw`'\''`)}'`].join(' ');
  if (command.length + input.length > LONGEST_COMMAND)
    return { reason: 'Wrapped, it would be longer than cron allows.' };
  const after = `${start}${command}${input}${end}`;
  const isSame = unwrapLine(after, place.root)?.line === before && readOwnLine(after)?.root === toLatin1(place.root);
  return isSame ? after : { reason: 'It has a form that could not be taken back byte for byte.' };
}

const WRAPPED = new RegExp(
  String.raw`^([ \t]*-?(?:@\S+|(?:[^\s@#]\S*[ \t]+){4}\S+)[ \t]+)/bin/sh ${wordPattern} exec (${wordPattern}) ` +
    String.raw`--overlap (\S+) -- ${wordPattern} -c ('(?:[^']|'\\'')*')(?=[%\r]|$)(.*)$`,
  's',
);

/** The line, in Latin-1, as it was before it was wrapped, and its name without `exec/`; null: it is none of this root. */
export function unwrapLine(line: string, root: string): { readonly line: string; readonly label: string } | null {
  const [, start, word, label = '', quoted = '', rest = ''] = WRAPPED.exec(line) ?? [];
  if (start === undefined || word !== toLatin1(crontabWord(root)) || !isExecLabel(label)) return null;
  return { line: start + quoted.slice(1, -1).replaceAll(String.raw`'\''`, "'") + rest, label };
}

/** Beside the log: the crontab from before the first wrap. */
function originalOf(root: string): string {
  return join(stateFolderOf(root).path, 'crontab.original');
}

interface WrapRequest {
  readonly root: string;
  readonly own: OwnPackage;
  readonly env: NodeJS.ProcessEnv;
  readonly plan: WrapPlan;
}

/** Writes the wrapped lines into the crontab, and keeps the original. @throws {UsageError} nothing was changed then */
export function applyWrap({ root, own, env, plan: { original, wrapped } }: WrapRequest): void {
  const before = readCrontab(env);
  refuseLoss(before, root);
  createStateFolder(stateFolderOf(root));
  writeCronScript(placeScript(root, env, before), root, own);
  const file = originalOf(root);
  const kept = existsSync(file) ? readFileSync(file) : null;
  replaceFile(file, original, 0o600);
  try {
    writeWhole(wrapped, before, env);
  } catch (error) {
    if (kept === null) rmSync(file, { force: true });
    else replaceFile(file, kept, 0o600);
    throw error;
  }
  markChanged(root);
}

function writeWhole(wrapped: Buffer, before: Buffer, env: NodeJS.ProcessEnv): void {
  writeCrontab(wrapped, env);
  if (readCrontab(env).equals(endWithNewline(wrapped))) return;
  writeCrontab(before, env);
  throw new UsageError(
    '`crontab -` took the new crontab without an error, but `crontab -l` shows another one: your host keeps its own ' +
      'crontab. What was there is back.',
  );
}

/** How many lines of the crontab call this root by `exec`, as `planWrap` writes them. */
export function countWrapped(root: string, env: NodeJS.ProcessEnv): number {
  return countWrappedLines(readCrontab(env), root);
}

function countWrappedLines(crontab: Buffer, root: string): number {
  const lines = crontab.toString('latin1').split('\n');
  return lines.filter((line) => unwrapLine(line, root) !== null).length;
}

interface Unwrapped {
  readonly lines: number;
  /** File with the crontab from before the wrap, of which lines are gone or changed now; null: none is. */
  readonly kept: string | null;
}

/**
 * Gives each wrapped line back as it was, byte for byte. Other changes of the crontab stay.
 *
 * @returns null: no line is wrapped
 * @throws {UsageError} if the wrapped lines are lost: it says where the crontab from before them is
 */
export function undoWrap(root: string, env: NodeJS.ProcessEnv): Unwrapped | null {
  const now = readCrontab(env);
  refuseLoss(now, root);
  const lines = countWrappedLines(now, root);
  const file = originalOf(root);
  if (lines > 0) {
    writeCrontab(unwrapAll(now, root), env);
    markChanged(root);
  }
  const isWhole = holdsOriginal(now, root);
  if (isWhole) rmSync(file, { force: true });
  forgetUncalled(root, env);
  return lines === 0 ? null : { lines, kept: isWhole ? null : file };
}

function unwrapAll(crontab: Buffer, root: string): Buffer {
  const lines = crontab.toString('latin1').split('\n');
  return Buffer.from(lines.map((line) => unwrapLine(line, root)?.line ?? line).join('\n'), 'latin1');
}

/** Something else has replaced the crontab, perhaps against its user's will: the file has the only copy. */
function refuseLoss(now: Buffer, root: string): void {
  if (countWrappedLines(now, root) > 0 || holdsOriginal(now, root)) return;
  const file = originalOf(root);
  throw new UsageError(
    'Your crontab has no wrapped line any more. The crontab from before the wrap is kept: ' +
      `\`crontab ${shellWord(file)}\` restores it; to keep the present crontab, delete that file.`,
  );
}

/** Whether each line from before the wrap is still there: wrapped, as it was, or as the comment of its script. */
function holdsOriginal(now: Buffer, root: string): boolean {
  const file = originalOf(root);
  if (!existsSync(file)) return true;
  const imported = toLatin1(`# folder-runner ${root}/`);
  const present = linesBeside(now, root).map((line) => {
    const own = line.startsWith(imported) ? line.slice(line.indexOf(': ', imported.length) + 2) : line;
    return unwrapLine(own, root)?.line ?? own;
  });
  return linesBeside(readFileSync(file), root).every((line) => present.includes(line));
}

function linesBeside(crontab: Buffer, root: string): string[] {
  return removeBlock(crontab, root).toString('latin1').split('\n');
}
