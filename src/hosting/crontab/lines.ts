import { createHash } from 'node:crypto';
import { UsageError } from '../../system/base/errors.ts';
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
  /** In the order of their lines; the minutes of each depend on those before it. */
  readonly calls: readonly CronCall[];
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
  const minutes = spreadMinutes(
    root,
    calls.map(({ period }) => period),
  );
  return calls.map((call, index) => crontabLine(request, call, minutes[index] ?? 0));
}

function crontabLine(request: CrontabRequest, { words, period }: CronCall, minute: number): string {
  const [name] = words;
  const moment = momentOf(`${request.root}\0${name}`, minute, period);
  const command = `${sieve(request, period, moment)}${commandOf(request, words)}`;
  if (Buffer.byteLength(command) > MAX_COMMAND_BYTES) {
    throw new UsageError(
      `The crontab line for ${name} would be longer than the ${MAX_COMMAND_BYTES} bytes that ` +
        'cron takes, because of the long path of the root, of Node or of the command.',
    );
  }
  return `${timeFields(period, moment)} ${command}`;
}

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
  return `[ ${escapePercent(test)} -ne 0 ] || `;
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

/** When everybody else's jobs on the machine start. */
const CROWDED_MINUTES = [0, 15, 30, 45];

/** Minutes between two starts that are far enough: a short pass is over by then. */
const ENOUGH_MINUTES = 3;

/**
 * The minute for each tier, given from the most to the least frequent: never one that another tier
 * has while there is a free one, and different from root to root.
 */
export function spreadMinutes(seed: string, periods: readonly CronPeriod[]): number[] {
  const taken = new Set(CROWDED_MINUTES);
  return periods.map((period, index) => {
    const minute = freestMinute(period, taken, seededNumber(`${seed}\0${index}`));
    for (const each of minutesOf(period, minute)) taken.add(each);
    return minute;
  });
}

/** A number that is always the same for one text and different for most others. */
function seededNumber(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE();
}

function freestMinute(period: CronPeriod, taken: ReadonlySet<number>, start: number): number {
  const count = period.unit === 'minute' ? period.step : 60;
  const candidates = Array.from({ length: count }, (_, index) => (start + index) % count);
  const gaps = candidates.map((minute) => gapTo(taken, minutesOf(period, minute)));
  return candidates[gaps.indexOf(Math.max(...gaps))] ?? 0;
}

function minutesOf(period: CronPeriod, minute: number): number[] {
  if (period.unit !== 'minute') return [minute];
  return Array.from({ length: 60 / period.step }, (_, index) => minute + index * period.step);
}

function gapTo(taken: ReadonlySet<number>, minutes: readonly number[]): number {
  const distances = minutes.flatMap((minute) => [...taken].map((other) => distance(minute, other)));
  return Math.min(ENOUGH_MINUTES, ...distances);
}

function distance(a: number, b: number): number {
  const apart = Math.abs(a - b);
  return Math.min(apart, 60 - apart);
}

/**
 * A crontab holds one marked block for each root. Everything outside it belongs to somebody else and
 * is kept byte for byte, whatever its encoding: therefore buffers, and Latin-1 inside, where each byte
 * is one character.
 */
export function installBlock(crontab: Buffer, root: string, lines: readonly string[]): Buffer {
  const text = crontab.toString('latin1');
  const block = toLatin1(crontabBlock(root, lines));
  const [first, ...others] = findBlocks(text, root);
  if (first === undefined) return bytesOf(`${endWithNewline(text)}${block}`);
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

/** The block itself, as it can be pasted into a crontab. */
export function crontabBlock(root: string, lines: readonly string[]): string {
  return [
    beginLine(root),
    '# Written by `runner cron --install`, which replaces it; `runner cron --remove` takes it out.',
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

/** Without it the first marker would become the end of somebody's command. */
function endWithNewline(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}

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
