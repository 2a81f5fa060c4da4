import type { Handlers } from '../../discovery/handlers.ts';
import type { QueueSelection } from '../../queue/claim/claim.ts';
import { selectNextPauseEnd } from '../../queue/claim/waiting.ts';
import { selectPausedPatterns } from '../../queue/pauses.ts';
import { matchAny } from '../../store/sqlite/queries.ts';
import type { Database } from '../../store/store.ts';
import type { WorkRequest } from './queue-limits.ts';

/** Which jobs a worker takes, as it is now. */
export interface Selector {
  /**
   * To be asked before each claim.
   *
   * @param db the claim's transaction: what was paused while it waited for the log's lock counts
   */
  select(at: number, db?: Database): Promise<QueueSelection>;
}

interface Selecting {
  readonly db: Database;
  readonly handlers: Handlers;
  readonly request: Pick<WorkRequest, 'patterns' | 'failsUnknown'>;
  readonly groupLimit: number | null;
  /** Moves with every change of the log by somebody else. */
  readonly version: () => number;
}

/** What was read of the pauses, and how long that is true. */
interface Known {
  readonly version: number;
  /** Before and from then on they are others: the clock was set back, or one has ended by itself. */
  readonly from: number;
  readonly until: number;
}

/** Pauses and fuses count at once: they are read anew whenever anybody has changed the log. */
export function createSelector({
  db: log,
  handlers,
  request,
  groupLimit,
  version,
}: Selecting): Selector {
  let known: Known | null = null;
  let paused: readonly string[] = [];
  let fused: readonly string[] = [];
  const isHandled = (name: string): boolean => request.failsUnknown || handlers.find(name) !== null;
  const isAsked = (name: string): boolean =>
    request.patterns.length === 0 || matchAny(request.patterns, name);
  const selection: QueueSelection = {
    groupLimit,
    isFused: (name) => matchAny(fused, name),
    isWanted: (name) =>
      isAsked(name) && !matchAny(paused, name) && (isHandled(name) || matchAny(fused, name)),
  };
  return {
    select: async (at, db = log) => {
      const seen = version();
      if (known?.version !== seen || at < known.from || at >= known.until) {
        ({ paused, fused } = await selectPausedPatterns(db, at));
        const until = (await selectNextPauseEnd(db, at)) ?? Number.POSITIVE_INFINITY;
        known = { version: seen, from: at, until };
      }
      return selection;
    },
  };
}
