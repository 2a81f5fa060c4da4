import { loadSettings, loadSettingsIfRight } from '../settings/load.ts';
import { defaultSettings } from '../settings/settings.ts';
import { UsageError } from '../system/base/errors.ts';
import { type DisabledScript, findDisabled } from './disabled.ts';
import { discover } from './discover.ts';
import { openHandlers } from './handlers.ts';
import type { Discovery } from './script.ts';

/** The contents of `jobs/`, and the fault of the settings. */
interface JobsFound {
  readonly discovery: Discovery;
  readonly disabled: readonly DisabledScript[];
  /** Null: the settings are correct; otherwise the defaults were used. */
  readonly settingsProblem: string | null;
}

/** For commands that run nothing: wrong settings do not prevent finding the scripts. */
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
 * The names of jobs that have a handler in `jobs/queue/` here, even if the settings are wrong.
 *
 * @param onWrongSettings called with the fault of the settings
 */
export async function listHandlerNames(
  root: string,
  onWrongSettings?: (problem: string) => void,
): Promise<readonly string[]> {
  return (await openHandlers(root, await loadSettingsIfRight(root, onWrongSettings))).names();
}
