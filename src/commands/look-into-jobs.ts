import { loadSettings } from '../config/load-settings.ts';
import { defaultSettings } from '../config/settings.ts';
import { UsageError } from '../config/usage-error.ts';
import { discover } from '../discovery/discover.ts';
import type { Discovery } from '../discovery/script.ts';

/** What is in `jobs/`, and what is wrong with the settings. */
export interface JobsFound {
  readonly discovery: Discovery;
  /** Null: nothing; else the defaults were taken in their place. */
  readonly settingsProblem: string | null;
}

/** For what does not run anything: wrong settings don't keep it from finding the scripts. */
export async function lookIntoJobs(root: string): Promise<JobsFound> {
  try {
    return { discovery: await discover(root, await loadSettings(root)), settingsProblem: null };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    const discovery = await discover(root, defaultSettings);
    return { discovery, settingsProblem: error.message };
  }
}
