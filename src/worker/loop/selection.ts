import type { Handlers } from '../../discovery/handlers.ts';
import { type QueueSelection, selectionOf } from '../../queue/claim/claim.ts';
import { pausedPatterns } from '../../queue/pauses.ts';
import type { Pause } from '../../store/contract/housekeeping.ts';
import type { StoreSession } from '../../store/contract/store.ts';
import { matchAny } from '../../system/base/glob.ts';
import type { WorkRequest } from './queue-limits.ts';

/** Which jobs a worker takes, as it is now. */
export interface Selector {
  /**
   * To be asked before each claim.
   *
   * @param session that of the claim's transaction: what was paused while it waited for the log's lock counts
   */
  select(at: number, session: StoreSession): Promise<QueueSelection>;
}

interface Selecting {
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
  readonly selection: QueueSelection;
}

/** Pauses count at once: they are read anew whenever anybody has changed the log. */
export function createSelector({ handlers, request, groupLimit, version }: Selecting): Selector {
  let known: Known | null = null;
  const isAsked = (name: string): boolean => request.patterns.length === 0 || matchAny(request.patterns, name);
  const build = (pauses: readonly Pause[]): QueueSelection => {
    const { failFast } = pausedPatterns(pauses);
    const isHandled = (name: string): boolean =>
      request.failsUnknown || handlers.find(name) !== null || matchAny(failFast, name);
    const isWanted = (name: string): boolean => isAsked(name) && isHandled(name);
    return selectionOf({ names: null, isWanted }, pauses, groupLimit);
  };
  return {
    select: async (at, session) => {
      const seen = version();
      if (known?.version !== seen || at < known.from || at >= known.until) {
        const pauses = await session.pauses.inForce(at);
        const ends = pauses.flatMap(({ until }) => until ?? []);
        const until = Math.min(...ends, Number.POSITIVE_INFINITY);
        known = { version: seen, from: at, until, selection: build(pauses) };
      }
      return known.selection;
    },
  };
}
