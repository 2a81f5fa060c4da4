import { useRef, useState } from 'preact/hooks';

interface HeldRows<Row> {
  readonly rows: readonly Row[];
  /** How many rows have come that are not shown yet. */
  readonly news: number;
  /** Shows them. */
  readonly load: () => void;
}

/**
 * Keeps rows in their places while they are held, so that nobody presses on another row than they saw. Each row is as it
 * is now; further ones at the end are shown.
 *
 * @param rows newest first; null: not known yet
 */
export function useHeldRows<Row extends { readonly id: number }>(
  rows: readonly Row[] | null,
  isHeld: boolean,
): HeldRows<Row> {
  const held = useRef<readonly Row[]>([]);
  const [, redraw] = useState(0);
  if (rows === null || !isHeld || held.current.length === 0) held.current = rows ?? [];
  const current = rows ?? [];
  const now = new Map(current.map((row) => [row.id, row]));
  const known = new Set(held.current.map(({ id }) => id));
  const end = held.current.at(-1)?.id ?? 0;
  const others = current.filter(({ id }) => !known.has(id));
  return {
    rows: [...held.current.map((row) => now.get(row.id) ?? row), ...others.filter(({ id }) => id < end)],
    news: others.filter(({ id }) => id > end).length,
    load: () => {
      held.current = current;
      redraw((count) => count + 1);
    },
  };
}
