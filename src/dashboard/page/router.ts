import { signal } from '@preact/signals';
import { enterPlace } from './left-places.ts';

/** Pages, by the first part of the address after `#`. */
export type PagePath =
  | '/'
  | '/scripts'
  | '/runs'
  | '/queue'
  | '/jobs'
  | '/workers'
  | '/activity'
  | '/metrics'
  | '/incidents'
  | '/next'
  | '/settings';

/** The address that the viewer is at: `#/scripts/hourly/clean-tmp?since=24h`. */
interface Place {
  /** `/scripts`. */
  readonly path: string;
  /** The item shown: `hourly/clean-tmp`, `17`; null: all. */
  readonly item: string | null;
  readonly query: Readonly<Record<string, string>>;
}

export const place = signal<Place>(readPlace(location.hash));

/** How often the viewer went somewhere else: only then the focus moves. */
export const moves = signal(0);

/** Whether the address chooses a part of what its page shows. */
export function isFiltered(): boolean {
  return Object.values(place.value.query).some(Boolean);
}

addEventListener('hashchange', () => {
  const next = readPlace(location.hash);
  const { path, item } = place.peek();
  const isElsewhere = next.path !== path || next.item !== item;
  enterPlace();
  place.value = next;
  if (isElsewhere) moves.value += 1;
});

/** Addresses that somebody has typed may be anything. */
function readPlace(hash: string): Place {
  const [address = '', search = ''] = hash.replace(/^#/, '').split('?', 2);
  const [first = '', ...rest] = address.replace(/^\//, '').split('/');
  const item = rest.map(decodeOrKeep).join('/');
  return {
    path: `/${first}`,
    item: item === '' ? null : item,
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

function decodeOrKeep(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * The address of a page, for `href`; values that are null or empty are left out.
 *
 * @example hrefOf('/scripts', 'hourly/clean-tmp') // '#/scripts/hourly/clean-tmp'
 */
export function hrefOf(
  path: PagePath,
  item: string | number | null = null,
  query: Readonly<Record<string, string | null>> = {},
): string {
  const name = item === null ? '' : `/${String(item).split('/').map(encodeURIComponent).join('/')}`;
  const set = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const search = new URLSearchParams(set).toString();
  return `#${path === '/' && name !== '' ? '' : path}${name}${search === '' ? '' : `?${search}`}`;
}

/** The same page with other filters: the order of its rows stays. */
export function filteredHref(path: PagePath, query: Readonly<Record<string, string | null>> = {}): string {
  return hrefOf(path, null, { ...query, sort: place.value.query.sort ?? null });
}

/**
 * Changes filters in the address, so that it can be shared and the browser's Back leads to where the viewer came
 * from. The focus stays where it is.
 */
export function setQuery(changed: Readonly<Record<string, string | null>>): void {
  const { path, item, query } = place.peek();
  const href = hrefOf(path as PagePath, item, { ...query, ...changed });
  history.replaceState(history.state, '', href);
  place.value = readPlace(href);
}
