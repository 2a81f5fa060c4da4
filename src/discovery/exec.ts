import { scriptSettings } from '../settings/script-settings.ts';
import type { ScriptOptions, Settings } from '../settings/settings.ts';
import { isOnServer } from '../store/shared/which-log.ts';
import { EXEC, firstName } from '../system/base/exec-name.ts';
import { mergeOptions } from './build-script.ts';
import { createPatternMatcher } from './jobs-folder.ts';
import type { CallersPlace, Script } from './script.ts';

/**
 * The options of a command: of its call, then of `scripts` and `tiers.exec` in the settings. `defaults` are for files: a
 * crontab line must not run longer, shorter or more often because it is wrapped.
 */
export async function optionsOfExec(
  settings: Settings,
  name: string,
  given: ScriptOptions = {},
): Promise<ScriptOptions> {
  const matches = await createPatternMatcher(Object.keys(settings.scripts));
  const merged = Object.entries(mergeOptions({ ...settings, defaults: {} }, EXEC, [firstName(name)], given, matches));
  const names = scriptSettings.filter(({ ofExec }) => ofExec !== undefined).map((each) => each.name);
  return Object.fromEntries(merged.filter(([key]) => names.includes(key)));
}

interface ExecCall {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  readonly asCaller: CallersPlace;
  readonly options: ScriptOptions;
  /** Root of the site whose log has its runs. */
  readonly root: string;
}

/** The command of a call, as a script that is the only one of its tier. */
export function scriptOfExec({ name, command, asCaller, options, root }: ExecCall): Script {
  return {
    name,
    tier: name,
    // It has no file of its own, which could be removed.
    path: root,
    launch: { kind: 'program', command, asCaller },
    // A call belongs to its machine, whether the database can be reached or not.
    options: { ...options, offline: 'run', ...(isOnServer() && { everyHost: true }) },
    contentHash: null,
    refusals: [],
    warnings: [],
  };
}
