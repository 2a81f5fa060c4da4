import { setTimeout as sleep } from 'node:timers/promises';
import type { LoggedCall } from '../pass.ts';
import { createAdaptiveLimit } from './adaptive-limit.ts';
import type { WorkRequest } from './work-request.ts';

/** Of an adaptive worker, only as many lanes take jobs as the machine bears. */
export interface Pace {
  /** A job has ended, after so long. */
  note(durationMs: number): void;
  /** Settles when the lane of this number may take a job; false: it will not be needed any more. */
  admit(lane: number): Promise<boolean>;
  /** The lane of this number takes no more; once the first one does not, which is always admitted, none that waits is needed. */
  leave(lane: number): void;
}

const ASK_AGAIN_MS = 250;

export function createPace(
  { stop }: Pick<LoggedCall, 'stop'>,
  { isAdaptive, concurrency }: Pick<WorkRequest, 'isAdaptive' | 'concurrency'>,
): Pace {
  const adaptive = createAdaptiveLimit({
    least: isAdaptive ? 1 : concurrency,
    most: concurrency,
    now: () => performance.now(),
  });
  let isOver = false;
  return {
    note: adaptive.note,
    admit: async (lane) => {
      const hasToWait = (): boolean => lane >= adaptive.limit();
      while (hasToWait() && stop.reason === null && !isOver) {
        await sleep(ASK_AGAIN_MS, undefined, { signal: stop.noMore }).catch(() => {});
      }
      return stop.reason === null && !hasToWait();
    },
    leave: (lane) => {
      isOver ||= lane === 0;
    },
  };
}
