import type { LogView } from '../../discovery/site.ts';
import { matchGlob } from '../../system/base/glob.ts';
import { describeEvent } from '../text/words.ts';
import { type Activity, type ActivityPlace, type ActivityQuery, selectActivity } from './activity.ts';

/** Which entries are wanted besides their time, job and worker. */
interface ActivityFilter {
  /** The name of a script or a job, as a glob; of an entry without a name its detail. */
  readonly subject?: string | undefined;
  /** The person who did it, as a glob: `*` is any person on record. */
  readonly by?: string | undefined;
  /** A text in the entry, in any case. */
  readonly search?: string | undefined;
}

type ActivityEvents = Pick<ActivityQuery, 'events'>;

/** Entries that are read at once. */
const PAGE = 500;

/**
 * Looks through the activity for what a filter chooses. It reads entry after entry, so it stops after a while.
 *
 * @returns the place at which to go on; null: there is nothing further
 */
export async function findActivity(
  log: LogView,
  { limit, ...query }: ActivityQuery & ActivityFilter,
  isLate: () => boolean,
): Promise<{ readonly items: readonly Activity[]; readonly last: ActivityPlace | null }> {
  const items: Activity[] = [];
  let last = query.after;
  do {
    const page = await selectActivity(log, { ...query, isByPeople: query.by !== undefined, after: last, limit: PAGE });
    for (const entry of page) {
      last = entry.place;
      if (isWanted(entry, query)) items.push(entry);
      if (items.length === limit) return { items, last };
    }
    if (page.length < PAGE) return { items, last: null };
  } while (!isLate());
  return { items, last: last ?? null };
}

function isWanted(entry: Activity, { events, subject, by, search }: ActivityFilter & ActivityEvents): boolean {
  const { name, actor, event, detail, warning, host } = entry;
  // The end of a run is known by its outcome alone, not by its event.
  if (events?.includes(event) === false) return false;
  if (subject !== undefined && !matchGlob(subject, name ?? detail ?? '')) return false;
  if (by !== undefined && !matchGlob(by, actor ?? '')) return false;
  if (search === undefined) return true;
  const needle = search.toLowerCase();
  return [describeEvent(event), name, detail, warning, actor, host].some((text) =>
    text?.toLowerCase().includes(needle),
  );
}
