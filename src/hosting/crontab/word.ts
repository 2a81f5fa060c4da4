import { UsageError } from '../../system/base/errors.ts';

const NEEDS_NO_QUOTES = /^[\w@:,./+=-]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const CONTROL_CHARACTER = /[\u0000-\u001f\u007f]/;

/** One word of a crontab line, quoted for the shell and then for cron itself, to which a bare `%` is a newline. */
export function crontabWord(word: string): string {
  refuseUnwritable(word);
  const quoted = NEEDS_NO_QUOTES.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  return quoted.replaceAll('%', '\\%');
}

/** What `crontabWord` writes, as the source of a pattern. */
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
