import { PREFIXES } from './own-call.ts';
import { crontabWord, readCrontabWord, wordPattern } from './word.ts';

/** A crontab line that calls a root by the script, or by full paths as earlier versions wrote it. */
export interface OwnLine {
  /** `57 * * * *`, `@daily`. */
  readonly times: string;
  /** What somebody has put between the times and the call, such as `nice -n 19 `. */
  readonly before: string;
  /** As it is written, such as `~/.folder-runner/cron`; null: a line of an earlier version. */
  readonly script: string | null;
  /** A tier, `due` or `work`. */
  readonly name: string;
  readonly root: string;
  readonly args: readonly string[];
  /** What somebody has put behind the call, such as ` >>cron.log`. */
  readonly after: string;
}

/** What such a script is called, wherever it lies. */
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
  String.raw`^\s*${timesPattern}${beforePattern}sh[ \t]+(~?${wordPattern})[ \t]+` +
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
