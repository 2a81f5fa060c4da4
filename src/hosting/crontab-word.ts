import { UsageError } from '../config/usage-error.ts';

const NEEDS_NO_QUOTES = /^[\w@:,./+=-]+$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const CONTROL_CHARACTER = /[\u0000-\u001f\u007f]/;

/** One word of a crontab line, quoted for the shell and then for cron itself. */
export function crontabWord(word: string): string {
  refuseUnwritable(word);
  const quoted = NEEDS_NO_QUOTES.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  return escapePercent(quoted);
}

/** To cron an unescaped `%` is a newline, also inside quotes. */
export function escapePercent(text: string): string {
  return text.replaceAll('%', '\\%');
}

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
