/** A resource that is opened once for all its users. */
interface Openable<T> {
  /** Names the resource that is there now: another text once it was replaced. */
  identity(): string;
  open(): Promise<T>;
  /** Whether the next one who asks gets it, too: it is what it should be. */
  isGood?(opened: T): boolean;
  /** Lets those who only wait for something come to an end, as nobody else will begin to use it. */
  retire?(opened: T): void;
  close(opened: T): Promise<unknown>;
}

export interface KeptOpen<T> {
  use<R>(work: (opened: T) => Promise<R>): Promise<R>;
  /** Closes the resource after its last user. */
  close(): Promise<void>;
}

interface Kept<T> {
  readonly identity: string;
  readonly opened: Promise<T>;
  users: number;
  isRetired: boolean;
}

/**
 * Keeps something open between those who use it, and opens it anew once something else is in its place, or it could not
 * be opened.
 */
export function keepOpen<T>({ identity, open, isGood, retire, close }: Openable<T>): KeptOpen<T> {
  let current: Kept<T> | null = null;
  const closing = new Set<Promise<unknown>>();
  // A failure to close concerns nobody; a failure to open has reached the caller already.
  const closeIfUnused = ({ opened, users, isRetired }: Kept<T>): void => {
    if (users > 0 || !isRetired) return;
    const closed: Promise<unknown> = opened
      .then(close)
      .catch(() => {})
      .finally(() => closing.delete(closed));
    closing.add(closed);
  };
  const forget = (kept: Kept<T>): void => {
    if (kept.isRetired) return;
    kept.isRetired = true;
    if (current === kept) current = null;
    kept.opened.then(retire).catch(() => {});
    closeIfUnused(kept);
  };
  // The identity is read before opening: a change meanwhile opens it once too often, never too seldom.
  const find = (): Kept<T> => {
    const wanted = identity();
    if (current !== null && current.identity !== wanted) forget(current);
    current ??= { identity: wanted, opened: open(), users: 0, isRetired: false };
    return current;
  };
  const enter = async (kept: Kept<T>): Promise<T> => {
    try {
      const opened = await kept.opened;
      if (isGood?.(opened) === false) forget(kept);
      return opened;
    } catch (error) {
      forget(kept);
      throw error;
    }
  };
  return {
    use: async (work) => {
      const kept = find();
      kept.users += 1;
      try {
        return await work(await enter(kept));
      } finally {
        kept.users -= 1;
        closeIfUnused(kept);
      }
    },
    close: async () => {
      if (current !== null) forget(current);
      await Promise.all(closing);
    },
  };
}
