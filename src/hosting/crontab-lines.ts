import { UsageError } from '../config/usage-error.ts';
import type { CronCall } from './cron-calls.ts';
import { type CronPeriod, stepSeconds } from './cron-period.ts';
import { crontabWord, escapePercent } from './crontab-word.ts';
import { seededNumber, spreadMinutes } from './spread-minutes.ts';

export interface CrontabRequest {
  /** Absolute: cron has no PATH worth the name, and `#!/usr/bin/env node` finds nothing in it. */
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

function commandOf(
  { nodePath, commandPath, root }: CrontabRequest,
  words: readonly string[],
): string {
  return [nodePath, commandPath, '--root', root, ...words].map(crontabWord).join(' ');
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
