import { loadSettings } from '../config/load-settings.ts';
import { defaultSettings } from '../config/settings.ts';
import { UsageError } from '../config/usage-error.ts';
import { openHandlers } from '../discovery/handlers.ts';

/** The names of jobs that there are handlers for in `jobs/queue/` here, whatever the settings say. */
export async function listHandlerNames(root: string): Promise<readonly string[]> {
  return (await openHandlers(root, await readSettings(root))).names();
}

async function readSettings(root: string) {
  try {
    return await loadSettings(root);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return defaultSettings;
  }
}
