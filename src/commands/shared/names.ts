import { openHandlers } from '../../discovery/handlers.ts';
import { withoutParameters } from '../../discovery/script.ts';
import { loadSettingsIfRight } from '../../settings/load.ts';
import { matchGlob } from '../../system/base/glob.ts';
import { nearestPath } from '../../system/base/suggest.ts';
import { printableLine } from '../../system/base/text.ts';
import type { CommandContext } from './context.ts';

/** More would drown what was asked for. */
const MOST_NOTES = 10;

/** Tells of names that nothing here is for: another machine may have their handlers, or it is a slip. */
export async function noteUnhandled(context: CommandContext, root: string, names: readonly string[]): Promise<void> {
  const handlers = await namesOfHandlers(root);
  const unhandled = names.filter((name) => !isHandled(name, handlers)).map(withoutParameters);
  for (const name of [...new Set(unhandled)].slice(0, MOST_NOTES))
    context.stderr.write(`${describeUnhandled(name, handlers)}\n`);
}

/** Tells of patterns that a worker here finds no handler for: it takes no job because of them. */
export async function noteUnfitting(context: CommandContext, root: string, patterns: readonly string[]): Promise<void> {
  const handlers = await namesOfHandlers(root);
  const fits = (pattern: string) => handlers.some((handler) => matchGlob(pattern, handler));
  for (const pattern of patterns.slice(0, MOST_NOTES)) {
    if (fits(pattern) || fits(withoutParameters(pattern))) continue;
    const what = `no handler that matches ${printableLine(pattern)} here`;
    context.stderr.write(
      `Note: jobs/queue/ has ${what}, so no such job is claimed. Check the name, or add the handler.\n`,
    );
  }
}

/** Wrong settings do not keep a job from being added. */
async function namesOfHandlers(root: string): Promise<readonly string[]> {
  return (await openHandlers(root, await loadSettingsIfRight(root))).names();
}

function isHandled(name: string, handlers: readonly string[]): boolean {
  return handlers.includes(name) || handlers.includes(withoutParameters(name));
}

export function describeUnhandled(name: string, handlers: readonly string[]): string {
  const nearest = nearestPath(withoutParameters(name), handlers);
  const guess = nearest === null ? '.' : `; did you mean ${printableLine(nearest)}?`;
  return `Note: jobs/queue/ has no handler for ${printableLine(name)} here, so it waits for one${guess}`;
}
