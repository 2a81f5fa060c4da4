/** The time that a text means. Start and end differ only for a day or a night. */
export interface MeantTime {
  readonly startMs: number;
  readonly endMs: number;
}

/** Whether an open day lies in the past or the future: `monday` and `07:00` mean the last or the next ones. */
export type Direction = 'past' | 'future';

const form =
  /^(?:(?<date>\d{4}-\d\d-\d\d)|(?<word>[a-z]+))?(?:(?:^| |(?<=\d)t)(?<time>\d?\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(?<zone>z|[+-]\d\d:?\d\d)?)?$/i;

/**
 * Reads a time as people write it, on the clocks of this host: `2026-11-23`, `2026-11-23 07:00`, `yesterday`, `tomorrow
 * 07:00`, `monday`, `07:00`, `now`; of the past, also `last night`. A time after a date may end in a zone, `Z` or `+01:00`.
 *
 * @returns null if the text is not a time, as with 30 February
 */
export function readLocalTime(text: string, nowMs: number, direction: Direction): MeantTime | null {
  if (direction === 'past' && /^last +night$/i.test(text.trim())) return lastNight(nowMs);
  const groups = form.exec(text.trim())?.groups;
  if (groups === undefined) return null;
  const { date, word, time, zone } = groups;
  if (word?.toLowerCase() === 'now') return time === undefined ? instant(nowMs) : null;
  const clock = time === undefined ? null : readClock(time);
  if (time !== undefined && clock === null) return null;
  if (date !== undefined && zone !== undefined) return readZoned(date, time as string, zone);
  if (zone !== undefined) return null;
  const at = (day: Day): MeantTime => (clock === null ? wholeDay(day) : instant(localTime(day, clock)));
  if (date !== undefined) {
    const day = readDate(date);
    return day && at(day);
  }
  if (word === undefined) return clock && nearest(at, nowMs, direction, () => true);
  const days = relativeDays.get(word.toLowerCase());
  if (days !== undefined) return at(dayOf(nowMs, days));
  const weekday = findWeekday(word.toLowerCase());
  return weekday === null ? null : nearest(at, nowMs, direction, (day) => new Date(...day).getDay() === weekday);
}

/** The words for a day. */
export const dayWords = 'yesterday today tomorrow monday tuesday wednesday thursday friday saturday sunday'.split(' ');

const relativeDays: ReadonlyMap<string, number> = new Map([
  ['yesterday', -1],
  ['today', 0],
  ['tomorrow', 1],
]);

/** 0 is Sunday, as with `Date`; the first three letters of a name are enough. */
function findWeekday(word: string): number | null {
  const index = word.length < 3 ? -1 : dayWords.slice(relativeDays.size).findIndex((name) => name.startsWith(word));
  return index === -1 ? null : (index + 1) % 7;
}

type Day = readonly [year: number, month: number, day: number];
type ClockTime = readonly [hour: number, minute: number, second: number, ms: number];

/** The last such day that has begun, or the next one that has not. A week and a day always contain one. */
function nearest(
  at: (day: Day) => MeantTime,
  nowMs: number,
  direction: Direction,
  is: (day: Day) => boolean,
): MeantTime | null {
  const step = direction === 'past' ? -1 : 1;
  for (let days = 0; Math.abs(days) <= 8; days += step) {
    const day = dayOf(nowMs, days);
    const span = at(day);
    const hasBegun = span.startMs <= nowMs;
    if (is(day) && hasBegun === (direction === 'past')) return span;
  }
  return null;
}

function dayOf(nowMs: number, daysLater: number): Day {
  const now = new Date(nowMs);
  const date = new Date(now.getFullYear(), now.getMonth(), now.getDate() + daysLater);
  return [date.getFullYear(), date.getMonth(), date.getDate()];
}

function readDate(text: string): Day | null {
  const date = new Date(`${text}T00:00Z`);
  // `Date` reads 30 February as 2 March.
  if (Number.isNaN(date.getTime()) || !date.toISOString().startsWith(text)) return null;
  return [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()];
}

function readClock(text: string): ClockTime | null {
  const [hour = 0, minute = 0, seconds = 0] = text.split(':').map(Number);
  const second = Math.floor(seconds);
  return hour < 24 && minute < 60 && second < 60 ? [hour, minute, second, Math.round((seconds - second) * 1000)] : null;
}

function readZoned(date: string, time: string, zone: string): MeantTime | null {
  const atMs = readDate(date) === null ? Number.NaN : Date.parse(`${date}T${time}${zone.toUpperCase()}`);
  return Number.isNaN(atMs) ? null : instant(atMs);
}

/** From the evening, when offices close, to the morning, when somebody looks. */
function lastNight(nowMs: number): MeantTime {
  return { startMs: localTime(dayOf(nowMs, -1), [18, 0, 0, 0]), endMs: localTime(dayOf(nowMs, 0), [8, 0, 0, 0]) };
}

function localTime(day: Day, clock: ClockTime): number {
  return new Date(...day, ...clock).getTime();
}

/** A day is not always 24 hours: when the clocks change it has 23 or 25. */
function wholeDay([year, month, day]: Day): MeantTime {
  return { startMs: new Date(year, month, day).getTime(), endMs: new Date(year, month, day + 1).getTime() };
}

function instant(atMs: number): MeantTime {
  return { startMs: atMs, endMs: atMs };
}
