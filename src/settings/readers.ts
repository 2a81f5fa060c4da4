import bytes from 'bytes';
import ms from 'ms';
import { matchesNothing } from '../system/base/glob.ts';
import { longestTimerMs } from '../system/base/values.ts';
import { isZone, nearestZone } from '../system/base/zone.ts';

/** A parsed value, or a description of what was expected. */
export type ParseResult<T> = { readonly value: T } | { readonly expected: string };

/** Reads a value as it was written, in a tag or in the settings. */
export interface Reader<T, Written = unknown> {
  (found: unknown): ParseResult<T>;
  /** For the type of the settings alone: in which form TypeScript takes it. */
  readonly written?: Written;
}

type Words = string | readonly string[];

export const readText: Reader<string, string> = (found) =>
  typeof found === 'string' ? { value: found } : { expected: 'a text' };

export const readBoolean: Reader<boolean, boolean> = (found) =>
  typeof found === 'boolean' ? { value: found } : { expected: 'true or false' };

/** A tag without a value means true. */
export const readFlag: Reader<boolean, boolean | string> = (found) => {
  if (found === true || found === '' || found === 'true') return { value: true };
  return found === false || found === 'false' ? { value: false } : { expected: 'true or false' };
};

/** One of a few words. */
export function readChoice<Word extends string>(...words: readonly Word[]): Reader<Word, Word> {
  return (found) => {
    const text = typeof found === 'string' ? found.trim() : found;
    const word = words.find((each) => each === text);
    return word === undefined ? { expected: listChoices(words) } : { value: word };
  };
}

/** "retry, skip or fail" */
function listChoices(words: readonly string[]): string {
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

/** Reads a duration of any length; a refusal names these examples. */
export function durationReader(examples?: string): Reader<number, string> {
  return (found) => {
    const durationMs = typeof found === 'string' ? parseDurationMs(found.trim()) : null;
    return durationMs === null ? { expected: expectedDuration(found, examples) } : { value: durationMs };
  };
}

/** A duration of any length. */
export const readDurationMs = durationReader();

/** A time to wait, which may be zero: `0s`. */
export const readDelayMs: Reader<number, string> = (found) => {
  const delayMs = typeof found === 'string' ? parseDelayMs(found.trim()) : null;
  return delayMs === null ? { expected: expectedDuration(found) } : { value: delayMs };
};

/** A duration that a timer can wait for. */
export const readTimerMs: Reader<number, string> = (found) => {
  const reading = readDurationMs(found);
  if ('expected' in reading || reading.value <= longestTimerMs) return reading;
  return { expected: 'a duration of at most 24 days' };
};

export function readByteSize(smallest: string): Reader<number, string> {
  const smallestBytes = parseByteSize(smallest) ?? 0;
  return (found) => {
    const size = typeof found === 'string' ? parseByteSize(found.trim()) : null;
    if (size === null) return { expected: 'a size such as 64mb, 512mb or 1gb' };
    return size >= smallestBytes ? { value: size } : { expected: `a size of at least ${smallest}` };
  };
}

/** A number, or its digits: the value of a tag is always text. */
export function readWholeNumber(least: number, most: number): Reader<number, number | string> {
  return (found) => {
    const isDigits = typeof found === 'string' && /^\d{1,9}$/.test(found.trim());
    const number = isDigits ? Number(found) : found;
    const isWithin = Number.isInteger(number) && Number(number) >= least && Number(number) <= most;
    return isWithin ? { value: Number(number) } : { expected: `a whole number from ${least} to ${most}` };
  };
}

/** A number such as 1.5, or its digits. */
export function readPositiveNumber(most: number): Reader<number, number | string> {
  return (found) => {
    const isDigits = typeof found === 'string' && /^\d{1,9}(?:\.\d{1,9})?$/.test(found.trim());
    const number = isDigits ? Number(found) : found;
    const isWithin = typeof number === 'number' && number > 0 && number <= most;
    return isWithin ? { value: number } : { expected: `a number above 0, up to ${most}` };
  };
}

/** A list of words, or a text of words separated by spaces or commas. */
export function readWords(form: RegExp, expected: string): Reader<readonly string[], Words> {
  return (found) => {
    const words = typeof found === 'string' ? splitWords(found) : found;
    const isList = Array.isArray(words) && words.length > 0;
    const isRight = isList && words.every((word) => typeof word === 'string' && form.test(word));
    return isRight ? { value: [...new Set<string>(words)] } : { expected };
  };
}

function splitWords(text: string): readonly string[] {
  return text.split(/[\s,]+/).filter((word) => word !== '');
}

/** How long a failed job waits before its next try. */
export interface RetryDelay {
  /** The delay before the second try. */
  readonly firstMs: number;
  /** The factor by which the delay grows with each further try; 1: it stays the same. */
  readonly factor: number;
  /** The delay never grows beyond this. */
  readonly longestMs: number;
}

const oneMinuteMs = 60_000;
const oneHourMs = 60 * oneMinuteMs;

const expected = 'a duration such as 5m, or exponential with a first and a longest one, such as exponential 1m 1h';

/** `5m`, `exponential`, `exponential 30s`, `exponential 30s 6h`. */
export const readRetryDelay: Reader<RetryDelay, string> = (found) => {
  const delay = typeof found === 'string' ? parseRetryDelay(found.trim()) : null;
  return delay === null ? { expected } : { value: delay };
};

function parseRetryDelay(text: string): RetryDelay | null {
  const [, rest] = /^exponential\b\s*(.*)$/.exec(text) ?? [];
  if (rest !== undefined) return parseExponential(rest);
  const delayMs = parseWaitMs(text);
  return delayMs === null ? null : { firstMs: delayMs, factor: 1, longestMs: delayMs };
}

/** A unit may be separated from its number, so words alone do not separate the two durations. */
function parseExponential(text: string): RetryDelay | null {
  const [first, longest, ...others] = text.match(/\d[\d.]*\s*[a-z]+/g) ?? [];
  if (others.length > 0 || text.replace(/\d[\d.]*\s*[a-z]+/g, '').trim() !== '') return null;
  const firstMs = first === undefined ? oneMinuteMs : parseWaitMs(first);
  if (firstMs === null) return null;
  const longestMs = longest === undefined ? Math.max(firstMs, oneHourMs) : parseWaitMs(longest);
  return longestMs === null || longestMs < firstMs ? null : { firstMs, factor: 2, longestMs };
}

function parseWaitMs(text: string): number | null {
  const waitMs = parseDurationMs(text);
  return waitMs !== null && waitMs <= longestTimerMs ? waitMs : null;
}

const LONGEST_DAYS = 100_000;

/** The longest duration that a setting can have: added to or subtracted from now, it still gives a valid date. */
export const longestDurationMs = LONGEST_DAYS * 24 * 60 * 60 * 1000;

const durationForm =
  /^\d+(?:\.\d+)? ?(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)$/;

/** Milliseconds of `30s`, `10m`, `1.5 hours`; null unless the text is a positive number with a unit. */
export function parseDurationMs(text: string): number | null {
  const durationMs = toMs(text);
  return durationMs > 0 && durationMs <= longestDurationMs ? durationMs : null;
}

/** Like `parseDurationMs`, for a wait, which may be zero: `0s`, `0`. */
export function parseDelayMs(text: string): number | null {
  const isNone = text === '0' || (durationForm.test(text) && toMs(text) === 0);
  return isNone ? 0 : parseDurationMs(text);
}

/** The expectation to name in place of a wrong duration: an example, or the longest one. */
export function expectedDuration(found: unknown, examples = '30s, 10m or 2h'): string {
  const isTooLong = typeof found === 'string' && toMs(found.trim()) > longestDurationMs;
  return isTooLong ? `a duration of at most ${LONGEST_DAYS}d` : `a duration such as ${examples}`;
}

function toMs(text: string): number {
  return durationForm.test(text) ? Math.round(ms(text as ms.StringValue)) : 0;
}

const sizeForm = /^(\d+(?:\.\d+)?) ?(?:b|([kmgt])(?:i?b)?)$/i;

/**
 * Bytes of `64kb`, `256M`, `1.5 GB`, `1GiB` (1 kb is 1024 bytes); null unless the text is a positive number with a
 * unit.
 */
export function parseByteSize(text: string): number | null {
  const [, number, unit = ''] = sizeForm.exec(text) ?? [];
  if (number === undefined) return null;
  const size = bytes.parse(`${number}${unit}b`);
  return size !== null && Number.isSafeInteger(size) && size > 0 ? size : null;
}

export const variableName = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Variables that make a program load or run further code. They must not reach scripts from the environment in which the
 * runner happened to be started; the settings, a file that is checked, may still set them.
 */
const codeLoaders = new RegExp(
  `^(?:${[
    // the system's loader, its character sets, OpenSSL
    'LD_(?:PRELOAD|LIBRARY_PATH|AUDIT)|GCONV_PATH|OPENSSL_(?:CONF|ENGINES|MODULES)',
    // shells and make
    'ENV|BASH_ENV|BASH_LOADABLES_PATH|BASHOPTS|SHELLOPTS|PS4|IFS|CDPATH|FPATH|ZDOTDIR|MAKEFILES|MAKEFLAGS',
    // interpreters
    'NODE_(?:OPTIONS|PATH|CHANNEL_FD|UNIQUE_ID|REPL_EXTERNAL_MODULE)',
    'PERL(?:5OPT|5LIB|LIB|5DB)|PHPRC|PHP_INI_SCAN_DIR',
    'PYTHON(?:PATH|HOME|STARTUP|USERBASE|PLATLIBDIR|PYCACHEPREFIX|BREAKPOINT|WARNINGS)',
    'RUBY(?:OPT|LIB|PATH|GEMS_GEMDEPS)|GEM_(?:HOME|PATH)|BUNDLE_GEMFILE',
    'CLASSPATH|JAVA_TOOL_OPTIONS|JDK_JAVA_OPTIONS|_JAVA_OPTIONS',
    'LUA_(?:C?PATH|INIT)(?:_\\d_\\d)?|TCL_LIBRARY|TCLLIBPATH|AWK(?:LIB)?PATH',
    // Git
    'GIT_(?:SSH|SSH_COMMAND|PROXY_COMMAND|ASKPASS|EDITOR|SEQUENCE_EDITOR|PAGER|EXTERNAL_DIFF)',
    'GIT_(?:CONFIG_(?:COUNT|PARAMETERS|GLOBAL|SYSTEM)|DIR|COMMON_DIR|EXEC_PATH|TEMPLATE_DIR)',
  ].join('|')})$`,
);

/** `$SLACK_URL`: this variable of the runner's environment holds the value. */
export const variableReference = /^\$[A-Za-z_][A-Za-z0-9_]*$/;

/** A password in the URL would be stored in a file. */
export const readUrl: Reader<string, string> = (found) => {
  const text = typeof found === 'string' ? found.trim() : '';
  if (variableReference.test(text)) return { value: text };
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) return { expected: 'a URL (https://…), or $NAME' };
  return url.username + url.password === '' ? { value: text } : { expected: describeSecret('a URL without password') };
};

/** A public address under which others stand: without a slash at its end. Its messages go to many, so it has no login. */
export const readPublicAddress: Reader<string, string> = (found) => {
  const url = typeof found === 'string' && /^https?:\/\//i.test(found) ? URL.parse(found) : null;
  const isPlain = url !== null && url.username + url.password + url.search + url.hash === '';
  if (isPlain) return { value: url.href.replace(/\/+$/, '') };
  return { expected: 'an address such as https://example.org/runner, without a password, ? or #' };
};

/** The expectation to name if a secret was written into a file. */
export function describeSecret(otherwise?: string): string {
  const name = 'the name of a variable that holds it, such as $NAME';
  return otherwise === undefined ? name : `${otherwise}, or ${name}`;
}

const readVariables = readWords(variableName, 'names of environment variables such as API_KEY');

/** Whether `@env` refuses the variable: programs load its value as code, or load code from it. */
export function loadsCode(name: string): boolean {
  return codeLoaders.test(name);
}

export const readPassedVariables: Reader<readonly string[], Words> = (found) => {
  const reading = readVariables(found);
  const loader = 'value' in reading ? reading.value.find(loadsCode) : undefined;
  if (loader === undefined) return reading;
  return {
    expected: `variables that load no code into programs, as ${loader} does (env in runner.config.* may set it)`,
  };
};

export const readTagWords = readWords(/^[^\s,\p{Cc}]+$/u, 'one or more words');

export const readNamesOfScripts = readWords(
  /^[^\s,\p{Cc}]+$/u,
  'names of scripts such as hourly/fetch-orders, or globs over them such as hourly/fetch-*',
);

/** A name without a dot or a slash is a word of a rule, such as `sunday`. */
export const readDateFiles = readWords(
  /^[^\s,\p{Cc}]*[./][^\s,\p{Cc}]*$/u,
  'files of dates such as holidays.txt, from the root',
);

const expectedRule = 'a time or a rule such as daily at 02:30, weekly on monday at 07:00 or 0 7 * * 1';

/** The code that reads such rules is large, and loaded only on demand. */
export const readRuleText: Reader<string, string> = (found) => {
  const text = typeof found === 'string' ? found.trim() : null;
  if (text === null) return { expected: expectedRule };
  // A comment of the form `/* … */` ends within `*/15 * * * *`, so nothing of it is left.
  return text === ''
    ? { expected: `${expectedRule} (in a /* comment, */15 ends it: write every 15min)` }
    : { value: text };
};

/** The same of a window of the day. */
export const readWindowText: Reader<string, string> = (found) =>
  typeof found === 'string' && found.trim() !== ''
    ? { value: found.trim().replace(/^between /i, '') }
    : { expected: 'two times of the day such as 22:00 and 05:00' };

export const readZoneName: Reader<string, string> = (found) =>
  typeof found === 'string' && /^[\w+/-]+$/.test(found.trim())
    ? { value: found.trim() }
    : { expected: 'one time zone such as Europe/Berlin or UTC' };

/** The zone must also suit `TZ`, which knows only names: there `+02:00` means the opposite. */
export const readSiteZone: Reader<string, string> = (found) => {
  const reading = readZoneName(found);
  if ('expected' in reading || (/^[a-z]/i.test(reading.value) && isZone(reading.value))) return reading;
  const nearest = nearestZone(reading.value);
  return { expected: `one time zone such as ${nearest ?? 'Europe/Berlin'} or UTC` };
};

export const readHostPatterns: Reader<readonly string[], Words> = (found) => {
  const reading = readHostWords(found);
  const isClosed = 'expected' in reading || !reading.value.some(matchesNothing);
  return isClosed ? reading : { expected: expectedHosts };
};

const expectedHosts = 'names of machines such as web-1, or globs over them such as web-*';
const readHostWords = readWords(/^[\w.*?[\]^!-]+$/, expectedHosts);

/** In `failOn`: any line by which programs usually say that something failed. */
export const KNOWN_SIGNS = '';

interface RegularExpression {
  readonly source: string;
  readonly ignoresCase: boolean;
}

/** The parts of `/^ERROR\b/i`; null: the pattern is plain text. */
export function readRegularExpression(pattern: string): RegularExpression | null {
  const [, source, flags] = /^\/(.+)\/([a-z]*)$/.exec(pattern) ?? [];
  return source === undefined ? null : { source, ignoresCase: flags === 'i' };
}

/** Constructs whose time is not proportional to the length of a line. */
const unbounded = /\(\?<?[=!]|\\[1-9]|\\k</;

function describeWrongPattern(pattern: string): string | null {
  const [, source, flags = ''] = /^\/(.+)\/([a-z]*)$/.exec(pattern) ?? [];
  if (source === undefined) return null;
  if (!['', 'i'].includes(flags)) return 'a regular expression with no flag but i';
  if (unbounded.test(source)) return 'a regular expression without look-around and back-references';
  try {
    new RegExp(source);
    return null;
  } catch (error) {
    return `a regular expression (${(error as Error).message.split(': ').at(-1)?.toLowerCase()})`;
  }
}

/** Removes quotes: a user who writes `"no rows"` does not search for them. */
function withoutQuotes(text: string): string {
  return /^(["'])(.*)\1$/.exec(text)?.[2]?.trim() ?? text;
}

const expectedPattern = 'a text such as done, or /a regular expression/';

/** Reads one or more patterns. If the known signs are allowed, true and false, as in `readFlag`, refer to them. */
export function readPatternList<Allows extends boolean>(
  allowsSigns: Allows,
): Reader<readonly string[], Words | (Allows extends true ? boolean : never)> {
  return (found) => {
    const flag = allowsSigns ? readFlag(found) : { expected: expectedPattern };
    if ('value' in flag) return { value: flag.value ? [KNOWN_SIGNS] : [] };
    const patterns: readonly unknown[] = Array.isArray(found) ? found : [found];
    const texts = patterns.flatMap((each) => (typeof each === 'string' ? withoutQuotes(each.trim()) || [] : []));
    if (texts.length === 0 || texts.length < patterns.length) return { expected: expectedPattern };
    const wrong = texts.map(describeWrongPattern).find((each) => each !== null);
    return wrong === undefined ? { value: [...new Set(texts)] } : { expected: wrong };
  };
}

const shellName = /^(?:\/\S*\/)?(?:ba|da|a|k|mk|z|ya)?sh$/;
const shellFlag = /^(?:[-+](?!.*[csi])[a-zA-Z]+|--[a-z][a-z-]*|[a-z]+)$/;

/** `bash -euo pipefail`; the script's path is appended. */
export const readShell: Reader<readonly [string, ...string[]], string> = (found) => {
  const [shell = '', ...flags] = typeof found === 'string' ? found.trim().split(/\s+/) : [];
  const isRight = shellName.test(shell) && flags.every((flag) => shellFlag.test(flag));
  return isRight ? { value: [shell, ...flags] } : { expected: 'a shell with its flags such as bash -euo pipefail' };
};

/** A text, because JSON has no octal numbers. A mask that takes rights from the owner would exclude the runner, too. */
export const readUmask: Reader<number, string> = (found) => {
  const isMask = typeof found === 'string' && /^0{0,2}[0-7]{2}$/.test(found);
  return isMask ? { value: Number.parseInt(found, 8) } : { expected: "a text such as '022' or '077'" };
};

export const readPath: Reader<string, string> = (found) => {
  const isPath = typeof found === 'string' && found.trim() !== '' && !/\p{Cc}/u.test(found);
  return isPath ? { value: found } : { expected: 'a file such as ../public_html/status/index.html' };
};

/** A file, or a list of files, which may be empty. */
export const readFileList: Reader<readonly string[], string | readonly string[]> = (found) => {
  const files: readonly unknown[] = Array.isArray(found) ? found : [found];
  const paths = files.flatMap((file) => ('value' in readPath(file) ? [file as string] : []));
  return paths.length === files.length ? { value: paths } : { expected: "a file such as '.env', or a list of files" };
};

/** "22:00-07:00", in minutes of the local day. */
export const readQuiet: Reader<{ readonly from: number; readonly until: number }, string> = (found) => {
  const form = /^([01]?\d|2[0-3]):([0-5]\d) ?[-–] ?([01]?\d|2[0-3]):([0-5]\d)$/;
  const [from = 0, fromMinute = 0, until = 0, untilMinute = 0] =
    (typeof found === 'string' ? form.exec(found.trim()) : null)?.slice(1).map(Number) ?? [];
  const quiet = { from: from * 60 + fromMinute, until: until * 60 + untilMinute };
  return quiet.from === quiet.until ? { expected: 'two times of the day such as 22:00-07:00' } : { value: quiet };
};
