import { nearestName } from '../config/near-miss.ts';
import { printableLine } from '../report/printable.ts';
import type { CommandContext } from './command-context.ts';
import { listHandlerNames } from './list-handler-names.ts';

/** More would drown what was asked for. */
const MOST_NOTES = 10;

/** Tells of names that nothing here is for: another machine may have their handlers, or it is a slip. */
export async function noteUnhandled(
  context: CommandContext,
  root: string,
  names: readonly string[],
): Promise<void> {
  const handlers = await listHandlerNames(root);
  const unhandled = names.filter((name) => !handlers.includes(name)).slice(0, MOST_NOTES);
  for (const name of unhandled) context.stderr.write(`${describeUnhandled(name, handlers)}\n`);
}

export function describeUnhandled(name: string, handlers: readonly string[]): string {
  const nearest = nearestName(name, handlers);
  const guess = nearest === null ? '.' : `; did you mean ${printableLine(nearest)}?`;
  return `Note: jobs/queue/ has no handler for ${printableLine(name)} here, so it waits for one${guess}`;
}
