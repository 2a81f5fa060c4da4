import { join } from 'node:path';
import { UsageError } from '../../system/base/errors.ts';
import { chooseMinutes, seededNumber } from './minutes.ts';
import { type CronPeriod, stepSeconds } from './period.ts';

/** What a crontab line calls, and how often. */
export interface CronCall {
  readonly words: readonly [name: string, ...args: string[]];
  readonly period: CronPeriod;
}

export interface CrontabRequest {
  /** Absolute: cron's PATH is only `/usr/bin:/bin`, where `#!/usr/bin/env node` finds nothing. */
  readonly nodePath: string;
  readonly commandPath: string;
  readonly root: string;
  /** In the order of their lines. */
  readonly calls: readonly CronCall[];
  /** The lines of this root that are installed: what they call keeps its minute. */
  readonly installed?: readonly string[];
  /** As `Date.prototype.getTimezoneOffset()`: minutes that local time is behind UTC. */
  readonly zoneOffsetMinutes: number;
}

/** Vixie cron refuses or cuts a longer command. */
const MAX_COMMAND_BYTES = 990;

/** After the hours that a clock change skips or repeats (Eastern Europe: 3 to 4), before work. */
const QUIET_HOURS = [4, 5];

interface Moment {
  readonly minute: number;
  readonly hour: number;
  readonly weekday: number;
  readonly day: number;
  readonly month: number;
}

/** One crontab line for each call. */
export function crontabLines(request: CrontabRequest): string[] {
  const { root, calls } = request;
  const timed = calls.map(({ words: [name], period }) => ({ name, period }));
  const minutes = chooseMinutes(root, timed, keptMinutes(request));
  return calls.map((call, index) => crontabLine(request, call, minutes[index] ?? 0));
}

/** Of installed lines whose times would be the same but for the minute. */
function keptMinutes({ root, calls, installed = [] }: CrontabRequest): Map<string, number> {
  const kept = new Map<string, number>();
  for (const line of installed) {
    const name = callsOfLines(root, [line])[0]?.[0];
    const call = calls.find(({ words }) => words[0] === name);
    const [fields, minute] = /^(\d+)\S*(?: \S+){4}/.exec(line) ?? [];
    if (call === undefined || minute === undefined) continue;
    const moment = momentOf(`${root}\0${name}`, Number(minute), call.period);
    if (timeFields(call.period, moment) === fields) kept.set(call.words[0], moment.minute);
  }
  return kept;
}

function crontabLine(request: CrontabRequest, { words, period }: CronCall, minute: number): string {
  const [name] = words;
  const moment = momentOf(`${request.root}\0${name}`, minute, period);
  const start = sieve(request, period, moment);
  const command = commandOf(request, words);
  const guarded = `${start}${guard(request, name, period)}${command}`;
  // Of a path so long the shell says itself that it is missing, each time.
  const whole = isTooLong(guarded) ? `${start}${command}` : guarded;
  if (!isTooLong(whole)) return `${timeFields(period, moment)} ${whole}`;
  throw new UsageError(
    `The crontab line for ${name} would be longer than the ${MAX_COMMAND_BYTES} bytes that ` +
      'cron takes, because the path of the root, of Node or of the command is too long; move it to a shorter one.',
  );
}

function isTooLong(command: string): boolean {
  return Buffer.byteLength(command) > MAX_COMMAND_BYTES;
}

/**
 * Ends the line where Node, the command or the root is missing, as during `npm ci`, or for good: quietly, as cron
 * mails what is printed, and some hosts switch failing lines off. Only the first firing after midnight says so. By
 * `date -R`, which knows no locale and needs no `%`: crons and panels differ in what they make of that. Each path
 * stands once more than in the call, as lines should be short: cron cuts them, and panels do so earlier.
 */
function guard({ nodePath, commandPath, root }: CrontabRequest, name: string, period: CronPeriod): string {
  const paths = [nodePath, commandPath, join(root, 'jobs')].map(crontabWord).join(' ');
  const sentence = `echo "folder-runner: ${name} is not run, as $p is missing. ${CURE}"`;
  const times = firstTimes(Math.ceil((stepSeconds(period) * period.nth) / 60));
  const tell = times === null ? sentence : `case $(date -R) in ${times}) ${sentence};; esac`;
  return `for p in ${paths}; do [ -e "$p" ] || { ${tell}; exit; }; done; `;
}

/** The shell's pattern for the first minutes of a day; null: they are all of it. */
function firstTimes(minutes: number): string | null {
  if (minutes >= 24 * 60) return null;
  const [start, count] = minutes < 60 ? [' 00:', minutes] : [' ', Math.ceil(minutes / 60)];
  return numbersBelow(count)
    .map((number) => `*"${start}"${number}:*`)
    .join('|');
}

/** Of two digits: `[0-1]?` and `2[0-4]` are those below 25. */
function numbersBelow(count: number): string[] {
  const below = (digit: number): string => (digit === 1 ? '0' : `[0-${digit - 1}]`);
  const [tens, ones] = [Math.floor(count / 10), count % 10];
  return [...(tens > 0 ? [`${below(tens)}?`] : []), ...(ones > 0 ? [`${tens}${below(ones)}`] : [])];
}

/** Without a character that means something to the shell within double quotes. */
const CURE = 'Put it back, or remove this line with crontab -e.';

function commandOf({ nodePath, commandPath, root }: CrontabRequest, words: readonly string[]): string {
  return `${[nodePath, commandPath].map(crontabWord).join(' ')}${callStart(root)}${words.map(crontabWord).join(' ')}`;
}

/** What stands in each line of a root before the words of its call. */
function callStart(root: string): string {
  return ` --root ${crontabWord(root)} `;
}

/** The words that each of these lines calls the command with; only of lines that were written here. */
export function callsOfLines(root: string, lines: readonly string[]): string[][] {
  return lines.flatMap((line) => {
    const words = line.split(callStart(root))[1]?.match(/'[^']*'|\S+/g);
    return words ? [words.map((word) => word.replaceAll("'", ''))] : [];
  });
}

/** `57 * * * *  runner hourly`: such a line without its paths and its test. */
export function shortLine(root: string, line: string): string {
  const [times = ''] = /^\S+(?: \S+){4}/.exec(line) ?? [];
  return [times, 'runner', ...callsOfLines(root, [line]).flat()].join(' ').replace(' runner', '  runner');
}

function momentOf(seed: string, minute: number, period: CronPeriod): Moment {
  const number = seededNumber(seed);
  return {
    minute,
    hour: period.unit === 'hour' ? number % period.step : (QUIET_HOURS[number % 2] ?? 4),
    weekday: Math.floor(number / 2) % 7,
    // Every month has a 28th.
    day: 1 + (Math.floor(number / 2) % 28),
    month: 1 + (Math.floor(number / 97) % 12),
  };
}

function timeFields(period: CronPeriod, at: Moment): string {
  switch (period.unit) {
    case 'minute':
      return `${stepField(period.step, at.minute, 59)} * * * *`;
    case 'hour':
      return `${at.minute} ${stepField(period.step, at.hour, 23)} * * *`;
    case 'day':
      return `${at.minute} ${at.hour} * * *`;
    case 'week':
      return `${at.minute} ${at.hour} * * ${at.weekday}`;
    case 'month':
      return `${at.minute} ${at.hour} ${at.day} * *`;
    case 'year':
      return `${at.minute} ${at.hour} ${at.day} ${at.month} *`;
  }
}

function stepField(step: number, from: number, last: number): string {
  return step === 1 ? '*' : `${from}-${last}/${step}`;
}

/**
 * A shell test that lets each nth firing through, by counting them since 1970 by local time: `7min`, `5hours`
 * and `3days` are more than cron's own fields can say. Exits 0 where it lets nothing through, as
 * some hosts switch failing lines off.
 */
function sieve(request: CrontabRequest, period: CronPeriod, moment: Moment): string {
  if (period.nth === 1) return '';
  const seconds = stepSeconds(period);
  const shift = shiftToMiddle(request, period, moment);
  const now = `$(date +%s) ${shift < 0 ? '-' : '+'} ${Math.abs(shift)}`;
  const test = `$(( (${now}) / ${seconds} % ${period.nth} ))`;
  return `[ ${escapePercent(test)} -ne 0 ] && exit; `;
}

/** From UTC to the middle of its step by local time: a late cron or a clock change alters nothing. */
function shiftToMiddle(request: CrontabRequest, period: CronPeriod, at: Moment): number {
  const seconds = stepSeconds(period);
  const hours = period.unit === 'minute' ? 0 : at.hour;
  return seconds / 2 - (hours * 60 + at.minute + request.zoneOffsetMinutes) * 60;
}

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
function escapePercent(text: string): string {
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

/**
 * A crontab holds one marked block for each root. Everything outside it belongs to somebody else and
 * is kept byte for byte, whatever its encoding: therefore buffers, and Latin-1 inside, where each byte
 * is one character.
 */
export function installBlock(crontab: Buffer, root: string, lines: readonly string[]): Buffer {
  // Without it the first marker would become the end of somebody's command.
  const text = endWithNewline(crontab).toString('latin1');
  const block = toLatin1(crontabBlock(root, lines));
  const [first, ...others] = findBlocks(text, root);
  if (first === undefined) return bytesOf(`${text}${block}`);
  return bytesOf(replaceRange(removeRanges(text, others), first, block));
}

/** The crontab without this root's block; the same bytes where there is none. */
export function removeBlock(crontab: Buffer, root: string): Buffer {
  const text = crontab.toString('latin1');
  return bytesOf(removeRanges(text, findBlocks(text, root)));
}

/** The lines between the markers of this root, comments apart; none where there is no block. */
export function readBlock(crontab: Buffer, root: string): string[] {
  const text = crontab.toString('latin1');
  const [block] = findBlocks(text, root);
  if (block === undefined) return [];
  const lines = bytesOf(text.slice(block.start, block.end)).toString().split('\n');
  return lines.filter((line) => line !== '' && !line.startsWith('#'));
}

/** Shells that read the lines that are written here. */
export const LIKE_SH = /\/(?:ba|da|a|k|mk|z)?sh$/;

/** cPanel's, which is a shell within a wrapper. */
const WRAPPED_SH = /\/jailshell$/;

/** What the crontab sets `SHELL` to where the lines of this root stand, or will; null: a shell that reads them. */
export function foreignShell(crontab: Buffer, root: string): string | null {
  const shell = variableAtBlock(crontab, root, 'SHELL');
  return shell === undefined || LIKE_SH.test(shell) || WRAPPED_SH.test(shell) ? null : shell;
}

/** What the crontab sets a variable to where the lines of this root stand, or will; undefined: nothing. */
export function variableAtBlock(crontab: Buffer, root: string, name: string): string | undefined {
  const [above = ''] = crontab.toString().split(`${beginLine(root)}\n`, 1);
  const settings = above.matchAll(new RegExp(`^[ \\t]*${name}[ \\t]*=[ \\t]*(["']?)(.*?)\\1[ \\t\\r]*$`, 'gm'));
  return [...settings].at(-1)?.[2];
}

/** The roots that have a block. */
export function rootsOfBlocks(crontab: Buffer): string[] {
  const begins = crontab.toString().matchAll(/^# BEGIN folder-runner (.+?)\r?$/gm);
  return [...new Set([...begins].map(([, root]) => root as string))];
}

/** Whether there is a block of this root, however empty. */
export function hasBlock(crontab: Buffer, root: string): boolean {
  return findBlocks(crontab.toString('latin1'), root).length > 0;
}

/** The block itself, as it can be pasted into a crontab. */
export function crontabBlock(root: string, lines: readonly string[]): string {
  return [
    beginLine(root),
    '# Written by `npx folder-runner cron --install`, which replaces it; `npx folder-runner cron --remove` takes it out.',
    ...lines,
    endLine(root),
    '',
  ].join('\n');
}

interface Range {
  readonly start: number;
  readonly end: number;
}

function beginLine(root: string): string {
  return `# BEGIN folder-runner ${root}`;
}

function endLine(root: string): string {
  return `# END folder-runner ${root}`;
}

function toLatin1(text: string): string {
  return Buffer.from(text).toString('latin1');
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}

/** Debian's `crontab` refuses another end, and many crons ignore a last line without one. */
export function endWithNewline(crontab: Buffer): Buffer {
  return crontab.length === 0 || crontab.at(-1) === NEWLINE ? crontab : Buffer.concat([crontab, Buffer.of(NEWLINE)]);
}

const NEWLINE = 0x0a;

function findBlocks(text: string, root: string): Range[] {
  const [begin, end] = [toLatin1(beginLine(root)), toLatin1(endLine(root))];
  const blocks: Range[] = [];
  let start: number | null = null;
  for (const line of text.matchAll(/[^\n]*\n|[^\n]+$/g)) {
    const content = line[0].replace(/\r?\n$/, '');
    if (content === begin || content === end) {
      if ((content === begin) !== (start === null)) throw damagedBlock(root);
      if (start !== null) blocks.push({ start, end: line.index + line[0].length });
      start = start === null ? line.index : null;
    }
  }
  if (start !== null) throw damagedBlock(root);
  return blocks;
}

/** Guessing where the block ends could take out somebody's lines. */
function damagedBlock(root: string): UsageError {
  return new UsageError(
    `The crontab holds only one of the two lines "${beginLine(root)}" and "${endLine(root)}", ` +
      'so nothing was changed: delete what is left of that block with `crontab -e`, then try again.',
  );
}

/** From the last to the first, so that the earlier positions stay valid. */
function removeRanges(text: string, ranges: readonly Range[]): string {
  return ranges.reduceRight((rest, range) => replaceRange(rest, range, ''), text);
}

function replaceRange(text: string, { start, end }: Range, replacement: string): string {
  return text.slice(0, start) + replacement + text.slice(end);
}
