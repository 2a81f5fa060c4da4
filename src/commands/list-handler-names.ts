import { loadSettingsIfRight } from '../config/load-settings.ts';
import { openHandlers } from '../discovery/handlers.ts';

/**
 * The names of jobs that there are handlers for in `jobs/queue/` here, whatever the settings say.
 *
 * @param onWrongSettings is told what is wrong with them
 */
export async function listHandlerNames(
  root: string,
  onWrongSettings?: (problem: string) => void,
): Promise<readonly string[]> {
  return (await openHandlers(root, await loadSettingsIfRight(root, onWrongSettings))).names();
}
