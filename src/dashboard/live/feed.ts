import { setTimeout as wait } from 'node:timers/promises';

/** A log that is watched. */
export interface FeedSource {
  /** Another text after each change. */
  revision(): Promise<string>;
  /** Sleeps until there may be another revision, for `ms` at most. */
  changed(since: string, ms: number, signal: AbortSignal): Promise<void>;
  /** Whether something goes on that may end without a word: a process that is killed. */
  isBusy(): Promise<boolean>;
}

/** One look at the log for all viewers. */
export interface ChangeFeed {
  /** A version of all that is shown: another one after each change, and once it has grown old. */
  look(): Promise<string>;
  /**
   * Tells of each new version from now on, at most once a second. Nothing is looked at while nobody follows.
   *
   * @returns what ends it
   */
  follow(tell: (version: string) => void): () => void;
  /** How many follow. */
  readonly followers: number;
  /** Given once the feed is over. */
  readonly over: AbortSignal;
  close(): void;
}

/** All in milliseconds. */
interface FeedPace {
  /** Shortest time between two versions that followers get. */
  readonly restMs: number;
  /** A version is as old as this at most, while something goes on. */
  readonly busyTickMs: number;
  /** The same otherwise: by time alone tiers become due. */
  readonly idleTickMs: number;
}

const usualPace: FeedPace = { restMs: 1000, busyTickMs: 3000, idleTickMs: 30_000 };

export function createFeed(source: FeedSource, pace: FeedPace = usualPace): ChangeFeed {
  const over = new AbortController();
  const followers = new Set<(version: string) => void>();
  const seer = createSeer(source, pace);
  let stop: AbortController | null = null;
  const tellAll = (version: string): void => {
    for (const tell of followers) tell(version);
  };
  const run = async (signal: AbortSignal): Promise<void> => {
    let told = '';
    while (!signal.aborted) {
      const version = await seer.look();
      if (signal.aborted) return;
      if (version !== told) tellAll(version);
      told = version;
      await wait(pace.restMs, undefined, { signal });
      await seer.wait(signal);
    }
  };
  const begin = (): void => {
    stop = new AbortController();
    const { signal } = stop;
    run(signal).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  };
  const end = (): void => stop?.abort();
  return {
    look: seer.look,
    follow: (tell) => {
      if (over.signal.aborted) return () => {};
      followers.add(tell);
      if (followers.size === 1) begin();
      return () => {
        if (followers.delete(tell) && followers.size === 0) end();
      };
    },
    get followers() {
      return followers.size;
    },
    over: over.signal,
    close: () => {
      followers.clear();
      end();
      over.abort();
    },
  };
}

/** Sees versions where the source has revisions and grows old. */
function createSeer(source: FeedSource, { busyTickMs, idleTickMs }: FeedPace) {
  // Viewers that come back after this server was started anew must not take its first version for an old one.
  const start = Date.now().toString(36);
  let count = 0;
  let revision = '';
  let freshUntilMs = 0;
  let looking: Promise<string> | null = null;
  const see = async (): Promise<string> => {
    const found = await toldAsText(source.revision());
    if (found !== revision || performance.now() >= freshUntilMs) {
      count += 1;
      revision = found;
      // A log that cannot be read now is looked at again anyway.
      const isBusy = await source.isBusy().catch(() => true);
      freshUntilMs = performance.now() + (isBusy ? busyTickMs : idleTickMs);
    }
    return `${start}.${count}`;
  };
  return {
    look: (): Promise<string> => {
      looking ??= see().finally(() => {
        looking = null;
      });
      return looking;
    },
    wait: async (signal: AbortSignal): Promise<void> => {
      const waiting = source.changed(revision, Math.max(0, freshUntilMs - performance.now()), signal);
      await toldAsText(waiting);
    },
  };
}

/** A log that fails is news as well: what asks for it then tells why. */
async function toldAsText<T>(asked: Promise<T>): Promise<T | string> {
  try {
    return await asked;
  } catch (error) {
    return `failed: ${error}`;
  }
}
