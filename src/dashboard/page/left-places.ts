/** How a page looked when it was left. */
interface LeftPlace {
  scrollY: number;
  /** The address of the link by which it was left. */
  link: string | null;
  /** How many pages of each list were loaded. */
  readonly counts: Map<string, number>;
}

/** By the entry of the browser's history. */
const places = new Map<string, LeftPlace>();

let entry = '';

/** The viewer's place on this page when they left it before; null: they have not come back to it. */
let wanted: Pick<LeftPlace, 'scrollY' | 'link'> | null = null;

/** Finds out whether the viewer has come back to an entry of the history. */
export function enterPlace(): void {
  const known = (history.state as { readonly entry?: string } | null)?.entry;
  const left = known === undefined ? undefined : places.get(known);
  // Rows that are still to come make the page short, and the browser scrolls it.
  wanted = left === undefined ? null : { ...left };
  entry = known ?? `${performance.timeOrigin} ${places.size}`;
  if (known === undefined) history.replaceState({ entry }, '');
  if (left === undefined) places.set(entry, { scrollY: 0, link: null, counts: new Map() });
}

/** The page that is shown now. */
export function leftPlace(): LeftPlace {
  return places.get(entry) as LeftPlace;
}

history.scrollRestoration = 'manual';
enterPlace();
addEventListener('scroll', () => {
  leftPlace().scrollY = scrollY;
});
addEventListener('click', ({ target }) => {
  const link = target instanceof Element ? target.closest('main a') : null;
  leftPlace().link = link?.getAttribute('href') ?? null;
});

/** Longest wait for the rows of that place, in milliseconds. */
const LONGEST_WAIT_MS = 3_000;

/** Shows a page as the viewer has left it, once its rows are there. False: they have not come back to it. */
export function returnToPlace(): boolean {
  if (wanted === null) return false;
  const { scrollY: top, link } = wanted;
  const begin = performance.now();
  const place = entry;
  const look = (): void => {
    if (place !== entry) return;
    const isThere = document.documentElement.scrollHeight >= top + innerHeight;
    if (!isThere && performance.now() - begin < LONGEST_WAIT_MS) {
      requestAnimationFrame(look);
      return;
    }
    scrollTo(0, top);
    const links = [...document.querySelectorAll<HTMLElement>('main a')];
    links.find((each) => each.getAttribute('href') === link)?.focus({ preventScroll: true });
  };
  requestAnimationFrame(look);
  return true;
}
