import { useState } from 'preact/hooks';

/** Rows that are chosen, by their numbers. */
export interface JobSelection {
  readonly ids: ReadonlySet<number>;
  /** One row; with shift, all between it and the one chosen before. */
  toggle(id: number, isRange: boolean): void;
  /** All rows that are shown, or none of them. */
  toggleAll(): void;
  clear(): void;
}

/** What is no longer shown is not chosen any more: nobody acts on what they do not see. */
export function useSelection(shown: readonly number[]): JobSelection {
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const [anchor, setAnchor] = useState<number | null>(null);
  const ids = new Set(shown.filter((id) => chosen.has(id)));
  const toggle = (id: number, isRange: boolean): void => {
    const isOn = !ids.has(id);
    const next = new Set(ids);
    const from = anchor === null ? -1 : shown.indexOf(anchor);
    const to = shown.indexOf(id);
    const range = isRange && from >= 0 ? shown.slice(Math.min(from, to), Math.max(from, to) + 1) : [id];
    for (const each of range) {
      if (isOn) next.add(each);
      else next.delete(each);
    }
    setChosen(next);
    setAnchor(id);
  };
  return {
    ids,
    toggle,
    toggleAll: () => setChosen(ids.size === shown.length ? new Set() : new Set(shown)),
    clear: () => setChosen(new Set()),
  };
}
