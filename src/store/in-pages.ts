/** Far fewer than one statement of SQLite takes values (32,766), however many columns a row has. */
const PAGE = 500;

/** In their order, so many at a time as one statement may name. */
export function* inPages<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let start = 0; start < all.length; start += PAGE) yield all.slice(start, start + PAGE);
}
