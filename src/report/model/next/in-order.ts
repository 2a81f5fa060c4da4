/** Most times that are computed together: those of a tier that is called each minute, for three days. */
const MOST_TIMES = 5_000;

interface InOrder<Thing, Time> {
  readonly timesOf: ReadonlyMap<Thing, readonly Time[]>;
  /** All times before that are among them. */
  readonly completeMs: number;
}

/**
 * The times of many things up to a time. They are computed in the order of time, so where they are cut, something that
 * comes each minute has not taken the place of what comes each day.
 *
 * @param open gives the times of one thing, ascending, perhaps without an end
 */
export function listInOrder<Thing, Time extends { readonly atMs: number }>(
  things: readonly Thing[],
  untilMs: number,
  open: (thing: Thing) => Iterator<Time, undefined>,
): InOrder<Thing, Time> {
  const series = things.map((thing) => {
    const rest = open(thing);
    return { thing, rest, next: rest.next().value, taken: [] as Time[] };
  });
  const timesOf = new Map(series.map(({ thing, taken }) => [thing, taken]));
  for (let left = MOST_TIMES; ; left -= 1) {
    let soonest: (typeof series)[number] | null = null;
    for (const each of series) {
      if (each.next !== undefined && each.next.atMs < (soonest?.next?.atMs ?? untilMs + 1)) soonest = each;
    }
    if (soonest?.next === undefined) return { timesOf, completeMs: untilMs };
    if (left === 0) return { timesOf, completeMs: soonest.next.atMs };
    soonest.taken.push(soonest.next);
    soonest.next = soonest.rest.next().value;
  }
}
