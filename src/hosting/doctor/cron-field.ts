/** One of the five fields of a crontab line's time. */
export interface CronField {
  readonly name: string;
  readonly first: number;
  readonly last: number;
  /** What may stand for the numbers from the first one on. */
  readonly words: readonly string[];
}

const form = /^(?:(\*)|(\d+|[a-z]+)(?:-(\d+|[a-z]+))?)(?:\/(\d+))?$/i;

/** The numbers that stand in a field, such as `5,35` or `mon-fri`; null if cron does not know it. */
export function parseCronField(text: string, field: CronField): ReadonlySet<number> | null {
  const parts = text.split(',').map((part) => parsePart(part, field));
  return parts.every((numbers) => numbers !== null) ? new Set(parts.flat()) : null;
}

function parsePart(text: string, field: CronField): number[] | null {
  const [found, star, start, end, every] = form.exec(text) ?? [];
  if (found === undefined) return null;
  const from = star ? field.first : toNumber(start, field);
  const to = star ? field.last : toNumber(end ?? start, field);
  const isRange = star !== undefined || end !== undefined;
  const step = every === undefined ? 1 : Number(every);
  // A step beside a single number is refused by most crons, and means nothing to the others.
  if (every !== undefined && !isRange) return null;
  // Not a number is in no range.
  if (!(field.first <= from && from <= to && to <= field.last && step > 0)) return null;
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, nth) => from + nth * step);
}

function toNumber(word = '', { first, words }: CronField): number {
  const place = words.indexOf(word.toLowerCase());
  return place === -1 ? Number(word) : first + place;
}
