import type { Handlers } from '../../discovery/handlers.ts';
import { type QueueSelection, selectionOf } from '../../queue/claim/claim.ts';
import { pausedPatterns } from '../../queue/pauses.ts';
import type { Pause } from '../../store/statements/pauses.ts';
import type { StoreSession } from '../../store/store.ts';
import { matchAny } from '../../system/base/glob.ts';
import type { WorkRequest } from './queue-limits.ts';

/** Selects the jobs that a worker takes, by the present pauses and handlers. */
export interface Selector {
  /**
   * Call it before each claim.
   *
   * @param session the session of the claim's transaction, so that pauses set during the wait for the log's lock count
   */
  select(at: number, session: StoreSession): Promise<QueueSelection>;
}

interface Selecting {
  readonly handlers: Handlers;
  readonly request: Pick<WorkRequest, 'patterns' | 'failsUnknown'>;
  readonly groupLimit: number | null;
  /** Changes with every change of the log by others. */
  readonly version: () => number;
}

/** The pauses as they were read, and how long they are valid. */
interface Known {
  readonly version: number;
  /** Outside of this time the pauses differ: the clock was set back, or a pause has ended by itself. */
  readonly from: number;
  readonly until: number;
  readonly selection: QueueSelection;
}

/** A pause takes effect at once: pauses are read again whenever anybody has changed the log. */
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
