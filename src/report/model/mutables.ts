import type { Site } from '../../discovery/site.ts';
import { incidentsOf } from '../../store/statements/monitor/incidents.ts';
import { UsageError } from '../../system/base/errors.ts';
import { nearestName } from '../../system/base/suggest.ts';

/** Subjects of incidents that are neither scripts nor tiers. */
const OTHER_SUBJECTS = ['queue', 'log', 'disk', 'alerts'];

/**
 * A name that nothing has is a slip. A pattern may be meant for what is to come.
 *
 * @throws {UsageError} with the nearest name
 */
export async function refuseUnknownMutes(
  { store, known: readKnown }: Pick<Site, 'store' | 'known'>,
  mutes: readonly string[],
): Promise<void> {
  const names = mutes.filter((name) => !/[*?[]/.test(name));
  const tiers = await readKnown();
  if (names.length === 0 || tiers === undefined) return;
  const open = store === null ? [] : await incidentsOf(store.statements).current();
  const scripts = tiers.flatMap((tier) => [...tier.scripts, ...(tier.disabled ?? [])]);
  const known = [
    ...tiers.map(({ tier }) => tier),
    ...scripts,
    ...scripts.filter((name) => name.startsWith('queue/')).map((name) => name.slice('queue/'.length)),
    ...open.map(({ subject }) => subject),
  ];
  const unknown = names.find((name) => ![...known, ...OTHER_SUBJECTS].includes(name) && !isFolderOf(name, known));
  if (unknown === undefined) return;
  const nearest = nearestName(unknown, known);
  const cure = nearest === null ? '`npx folder-runner list` shows all scripts.' : `did you mean ${nearest}?`;
  throw new UsageError(`There is no script, handler or tier ${JSON.stringify(unknown)}; ${cure}`);
}

/** `mail` of `mail/welcome`: a mute of a name is one of all below it. */
function isFolderOf(name: string, known: readonly string[]): boolean {
  return known.some((each) => each.startsWith(`${name}/`));
}
