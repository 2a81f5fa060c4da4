import { basename } from 'node:path';
import { UsageError } from '../../system/base/errors.ts';
import { EXEC, isExecLabel } from '../../system/base/exec-name.ts';

const NEEDS_NO_QUOTES = /^[\w@:,./+=-]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const CONTROL_CHARACTER = /[\u0000-\u001f\u007f]/;

/** One word of a crontab line, quoted for the shell and then for cron itself, to which a bare `%` is a newline. */
export function crontabWord(word: string): string {
  refuseUnwritable(word);
  const quoted = NEEDS_NO_QUOTES.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  return quoted.replaceAll('%', '\\%');
}

/** A word as `crontabWord` writes it, as the source of a pattern. */
export const wordPattern = String.raw`(?:'[^']*'|\\'|[\w@:,./+=-])+`;

/** The word that `crontabWord` has written so. */
export function readCrontabWord(written: string): string {
  const parts = written.replaceAll('\\%', '%').matchAll(/'([^']*)'|\\(')|([^'\\]+)/g);
  return [...parts].map(([, quoted, quote, plain]) => quoted ?? quote ?? plain).join('');
}

/** Shells that read what is written for `sh`. */
export const LIKE_SH = /\/(?:ba|da|a|k|mk|z)?sh$/;

function refuseUnwritable(word: string): void {
  if (CONTROL_CHARACTER.test(word)) {
    throw new UsageError(
      `The path ${JSON.stringify(word)} holds a newline or another control character, ` +
        'which no crontab line can hold; rename the folder.',
    );
  }
  // Debian's cron makes one backslash of two, cronie keeps both: no spelling is right everywhere.
  if (/\\[\\%]/.test(word)) {
    throw new UsageError(
      `The path ${JSON.stringify(word)} holds a backslash before a backslash or a percent sign, ` +
        'which crons read differently; rename the folder.',
    );
  }
}

/** How this package's command is written, as a word or within a line of a shell. */
export const programName = /(?:^|[\s/'"])(?:bin\.cjs|runner|folder-runner(?:@[\w.^~-]+)?)(?=['"\s]|$)/;

/** The words that the command gets. */
export function argsOf(words: readonly string[]): readonly string[] {
  return words.slice(words.findIndex((word) => programName.test(word)) + 1);
}

/**
 * The called tier or command: the first word that is neither an option nor an option's value. `exec/backup` for the
 * words of `runner exec backup -- …`.
 */
export function nameIn(args: readonly string[]): string | null {
  const isValue = (index: number): boolean => ['--root', '--budget'].includes(args[index - 1] ?? '');
  const name = args.find((arg, index) => !arg.startsWith('-') && !isValue(index)) ?? null;
  const label = args[args.indexOf('--') - 1] ?? '';
  return name === EXEC && isExecLabel(label) ? `${EXEC}/${label}` : name;
}

/** The index at which the words of a command call this package's command. */
export interface OwnProgram {
  /** The Node that is named before it; null: none is. */
  readonly node: string | null;
  /** `npx` and its like, which look for the package themselves; null: the file is named. */
  readonly launcher: string | null;
  readonly file: string;
  /** The index of the first word that the runner gets. */
  readonly end: number;
}

const OWN = /^(?:bin\.cjs|runner|folder-runner(?:@[\w.^~-]+)?)$/;
const NODE = /^node(?:js)?$/;
const LAUNCHER = /^(?:npx|npm|pnpm|pnpx|yarn|bunx?)$/;

/** Programs that run the command behind them, as the source of a pattern. */
const PREFIXES = 'nice|ionice|chronic|cronic|timeout|flock|exec|env|time|setsid|nohup|command';
const PREFIX = new RegExp(`^(?:${PREFIXES})$`);

/** Null: another program is called, to which the name of ours is just a word. */
export function findOwnProgram(words: readonly string[]): OwnProgram | null {
  const names = words.map((word) => basename(word));
  const at = names.findIndex((name) => OWN.test(name) || NODE.test(name) || LAUNCHER.test(name));
  if (at === -1 || (at > 0 && !PREFIX.test(names[0] as string))) return null;
  const [first, name] = [words[at] as string, names[at] as string];
  if (OWN.test(name)) return { node: null, launcher: null, file: first, end: at + 1 };
  const isLauncher = LAUNCHER.test(name);
  const isSkipped = (word: string): boolean => word.startsWith('-') || (isLauncher && word === 'exec');
  const next = words.findIndex((word, index) => index > at && !isSkipped(word));
  if (next === -1 || !OWN.test(names[next] as string)) return null;
  const file = words[next] as string;
  return { node: isLauncher ? null : first, launcher: isLauncher ? first : null, file, end: next + 1 };
}

/** A crontab line that calls a root by the script, or by full paths as earlier versions wrote it. */
export interface OwnLine {
  /** `57 * * * *`, `@daily`. */
  readonly times: string;
  /** An addition by hand between the times and the call, such as `nice -n 19 `. */
  readonly before: string;
  /** As it is written, such as `~/.folder-runner/cron`; null: a line of an earlier version. */
  readonly script: string | null;
  /** A tier, `due` or `work`. */
  readonly name: string;
  readonly root: string;
  readonly args: readonly string[];
  /** An addition by hand behind the call, such as ` >>cron.log`. */
  readonly after: string;
}

/** The last parts of the script's path, wherever it lies. */
export const SCRIPT_NAMES = ['.folder-runner/cron', '.runner/cron'] as const;

export function writeOwnLine({ times, before, script, name, root, args, after }: OwnLine): string {
  const call = ['sh', script, ...[name, root, ...args].map(crontabWord)].join(' ');
  return `${times} ${before}${call}${after}`;
}

const timesPattern = String.raw`(@\w+|(?:[^\s#]+[ \t]+){4}[^\s#]+)[ \t]+`;

const prefixPattern = String.raw`(?:[A-Za-z_]\w*=\S*|${PREFIXES}|-\S+|\d\S*|/\S+)[ \t]+`;

/** Nothing, the end of another command, or what runs the command behind it: else the call is just text. */
const beforePattern = String.raw`((?:.*(?:;|&&|\|\|)\s*)?(?:${prefixPattern})*)`;

/** The number of a redirection is no word. */
const moreWords = String.raw`((?:[ \t]+${wordPattern}(?=[\s;|&]|$))*)`;

const ownLine = new RegExp(
  String.raw`^\s*${timesPattern}${beforePattern}(?:/bin/)?sh[ \t]+(~?${wordPattern})[ \t]+` +
    String.raw`(${wordPattern})[ \t]+(${wordPattern})${moreWords}(.*?)\r?$`,
);

/** Null: it does not call the script. */
export function readOwnLine(line: string): OwnLine | null {
  const match = ownLine.exec(line);
  if (match === null) return null;
  const [, times = '', before = '', script = '', name = '', root = '', args = '', after = ''] = match;
  const path = readCrontabWord(script);
  if (!SCRIPT_NAMES.some((each) => path.endsWith(`/${each}`))) return null;
  const words = { name: readCrontabWord(name), root: readCrontabWord(root), args: readWords(args) };
  return { times, before, script, ...words, after };
}

/** Whether a shell command, without times before it, calls the script. */
export function callsScript(command: string): boolean {
  return readOwnLine(`* * * * * ${command}`) !== null;
}

/** A count for long periods and a look for missing files stood before the call, which named Node and the command. */
const oldLine = new RegExp(
  String.raw`^\s*${timesPattern}(.*?)(?:\[ \$\(\( .+? \)\) -ne 0 \] && exit; )?` +
    String.raw`(?:for p in .+?; do \[ -e "\$p" \] .+?; done; )?` +
    String.raw`${wordPattern} ${wordPattern} --root (${wordPattern})[ \t]+(${wordPattern})${moreWords}(.*?)\r?$`,
);

/** A line of an earlier version; null: it is none. */
export function readOldLine(line: string): OwnLine | null {
  const match = oldLine.exec(line);
  if (match === null || !/bin\.cjs'? --root /.test(line)) return null;
  const [, times = '', before = '', root = '', name = '', args = '', after = ''] = match;
  const words = { name: readCrontabWord(name), root: readCrontabWord(root), args: readWords(args) };
  return { times, before, script: null, ...words, after };
}

function readWords(text: string): string[] {
  return [...text.matchAll(new RegExp(wordPattern, 'g'))].map(([word]) => readCrontabWord(word));
}
