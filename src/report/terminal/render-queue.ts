import { countOf, formatCount } from '../format.ts';
import { printableLine } from '../printable.ts';
import {
  isQueueQuiet,
  type QueueCounts,
  type QueueStatus,
  type UnhandledName,
} from '../queue-status.ts';
import type { Screen } from './screen.ts';
import { entry } from './status-entry.ts';

/** How the queue stands; nothing where there is nothing to tell. */
export function renderQueue(status: QueueStatus, screen: Screen): string[] {
  if (isQueueQuiet(status)) return [];
  const { counts, workers, withoutHandler } = status;
  const { palette } = screen;
  const work = workers === 0 ? 'no worker' : countOf(workers, 'worker');
  return [
    palette.bold('queue'),
    ...entry([...describeCounts(counts), work], screen, same),
    ...renderWithoutHandler(withoutHandler, screen),
  ];
}

function describeCounts(counts: QueueCounts): string[] {
  const said = Object.entries(counts).filter(([, count]) => count > 0);
  return said.map(([state, count]) => `${formatCount(count)} ${state}`);
}

/** More would drown the rest. */
const MOST_NAMES = 10;

function renderWithoutHandler(names: readonly UnhandledName[], screen: Screen): string[] {
  const shown = names.slice(0, MOST_NAMES).map(describe);
  const rest = names.length - shown.length;
  const more = rest === 0 ? [] : [`${countOf(rest, 'more name')} without a handler here`];
  return [...shown, ...more].flatMap((text) => entry([text], screen, screen.palette.warning));
}

function describe({ name, jobs, nearest }: UnhandledName): string {
  const guess = nearest === null ? '' : `; did you mean ${printableLine(nearest)}?`;
  return `${printableLine(name)}: ${countOf(jobs, 'job')} without a handler here${guess}`;
}

const same = (text: string): string => text;
