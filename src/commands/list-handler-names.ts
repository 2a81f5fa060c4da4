import { loadSettingsIfRight } from '../config/load-settings.ts';
import { openHandlers } from '../discovery/handlers.ts';

/** The names of jobs that there are handlers for in `jobs/queue/` here, whatever the settings say. */
export async function listHandlerNames(root: string): Promise<readonly string[]> {
  return (await openHandlers(root, await loadSettingsIfRight(root))).names();
}
