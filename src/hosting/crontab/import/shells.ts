import { realpathSync } from 'node:fs';
import { basename } from 'node:path';

/** The program behind a shell's path: `dash` of `/bin/sh` on Debian, `bash` on Enterprise Linux. */
export function shellBehind(shell: string): string {
  try {
    return basename(realpathSync(shell));
  } catch {
    return basename(shell);
  }
}

const LIKE_BASH = /^(?:bash|zsh|ksh\w*|mksh|jailshell)$/;

/** Whether it understands what bash adds to the language of `sh`. */
export function isLikeBash(shell: string): boolean {
  return LIKE_BASH.test(basename(shell)) || LIKE_BASH.test(shellBehind(shell));
}

/** Whether `$RANDOM` is a number there; elsewhere it is empty. Busybox has it, too. */
export function knowsRandom(shell: string): boolean {
  return isLikeBash(shell) || /^(?:busybox|ash)$/.test(shellBehind(shell));
}

/** What only bash understands; found in quotes of one kind, it means nothing to the shell that reads the line. */
const BASH_WORDS: readonly (readonly [form: RegExp, isAlsoIn: 'double quotes' | 'no quotes'])[] = [
  [/\$\{\w+(?:\[|\^|,|\/|:\d)[^}]*\}/, 'double quotes'],
  [/(?<![\w$])\(\(/, 'no quotes'],
  [/<<<|[<>]\(|\|&/, 'no quotes'],
  [/\{\w+\.\.\w+\}|\{[\w./-]*,[\w./,-]*\}/, 'no quotes'],
  [/(?<!\S)\w+=\(/, 'no quotes'],
  [/\[\[/, 'no quotes'],
  [/(?<!\S)(?:pushd|popd|declare|typeset|let|shopt|mapfile|readarray|source|function)(?=\s)/, 'no quotes'],
  [/\bset\s+-\w*o\s+pipefail\b/, 'no quotes'],
  [/(?<![\w.])trap\s.*\sERR\b/, 'double quotes'],
];

/** The first such word of a command; null: there is none. */
export function findBashWord(text: string): string | null {
  const inDouble = text.replaceAll(/\\.|'[^']*'/gs, '');
  const unquoted = inDouble.replaceAll(/"[^"]*"/gs, '');
  for (const [form, place] of BASH_WORDS) {
    const [word] = form.exec(place === 'no quotes' ? unquoted : inDouble) ?? [];
    if (word !== undefined) return word;
  }
  return null;
}

/** Whether a quote, `$(` or backtick of a command has no end. */
export function isLeftOpen(text: string): boolean {
  let quote: string | null = null;
  let depth = 0;
  let backticks = 0;
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index] as string;
    if (character === '\\' && quote !== "'") index += 1;
    else if (quote === "'") quote = character === "'" ? null : quote;
    else if (character === '`') backticks += 1;
    else if (text.startsWith('$(', index)) {
      depth += 1;
      index += 1;
    } else if (character === ')' && depth > 0) depth -= 1;
    else if (character === '"') quote = quote === null ? '"' : null;
    else if (character === "'" && quote === null) quote = "'";
  }
  return quote !== null || depth > 0 || backticks % 2 === 1;
}
