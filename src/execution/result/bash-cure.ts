import { basename, extname } from 'node:path';
import type { Script } from '../../discovery/script.ts';

/** A shell script and its output. */
interface ShellRun {
  readonly script: Pick<Script, 'path' | 'launch' | 'options'>;
  /** The name of its file in messages. */
  readonly file: string;
  readonly source: string;
  readonly output: string;
  /** The path of bash. */
  readonly bash: string;
}

/**
 * The cure for a script that is written in bash but run by `sh`. It is found by a complaint of `sh` about a line and by
 * the text of that line. Null: it is not certain that the script is bash.
 */
export function describeBash(run: ShellRun): string | null {
  const { script, file, output, bash } = run;
  if (script.launch.kind === 'node' || !isPlainShell(script.launch.command)) return null;
  for (const [, words = ''] of output.matchAll(/^(.*)$/gm)) {
    const found = findBash(words, run);
    if (found === null) continue;
    return `this is bash (${found}), and ${file} is run by sh: ${describeCure(run, bash)}`;
  }
  return null;
}

function describeCure({ script, source }: ShellRun, bash: string): string {
  if (source.startsWith('#!')) return `change its first line to #!${bash}`;
  if (script.options.shell !== undefined) return 'run it by `@shell bash`';
  const name = basename(script.path, extname(script.path));
  return `give it the first line #!${bash}, or name it ${name}.bash`;
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
export function isBashWord(name: string): boolean {
  return builtins.has(name) || /^\w+\+=|^\(\(|^\w+(?:\+\+|--)$/.test(name);
}

/** A complaint of `sh`, and the bash syntax that its line must contain. */
const forms: readonly (readonly [RegExp, RegExp])[] = [
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
function findBash(words: string, { script, source }: ShellRun): string | null {
  const prefix = `${script.path}: `;
  if (!words.startsWith(prefix)) return null;
  const [, number, message = ''] = /^(?:line )?(\d+): (?:eval: )?(.*)$/.exec(words.slice(prefix.length).trim()) ?? [];
  const line = source.split('\n')[Number(number) - 1];
  if (line === undefined) return null;
  const [, missing] = /^(\S+): not found$/.exec(message) ?? [];
  if (missing !== undefined && builtins.has(missing)) {
    return hasWord(line, missing) ? `${missing} in line ${number}` : null;
  }
  for (const [said, form] of forms) {
    const [found] = said.test(message) ? (form.exec(line) ?? []) : [];
    if (found !== undefined) return `${found.trim().slice(0, LONGEST_SHOWN)} in line ${number}`;
  }
  return null;
}

const LONGEST_SHOWN = 40;

function hasWord(line: string, word: string): boolean {
  return line.split(/[\s;&|(){}!`]+/).includes(word);
}
