import { loadSettings, loadSettingsIfRight } from '../settings/load.ts';
import { defaultSettings } from '../settings/settings.ts';
import { UsageError } from '../system/base/errors.ts';
import { type DisabledScript, findDisabled } from './disabled.ts';
import { discover } from './discover.ts';
import { openHandlers } from './handlers.ts';
import type { Discovery } from './script.ts';

/** What is in `jobs/`, and what is wrong with the settings. */
interface JobsFound {
  readonly discovery: Discovery;
  readonly disabled: readonly DisabledScript[];
  /** Null: nothing; else the defaults were taken in their place. */
  readonly settingsProblem: string | null;
}

/** For what does not run anything: wrong settings don't keep it from finding the scripts. */
export async function lookIntoJobs(root: string): Promise<JobsFound> {
  const disabled = findDisabled(root);
  try {
    return { discovery: await discoverScripts(root), disabled, settingsProblem: null };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { discovery: await discover(root, defaultSettings), disabled, settingsProblem: error.message };
  }
}

/** @throws {UsageError} if the settings are wrong, or there is no `jobs/` */
export async function discoverScripts(root: string): Promise<Discovery> {
  return await discover(root, await loadSettings(root));
}

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
