import type { Script } from '../../discovery/script.ts';
import { describeUnset, findUnset } from '../../discovery/variables.ts';
import { givenTo, type Settings } from '../../settings/settings.ts';
import type { Fault } from '../../system/base/errors.ts';
import type { CrontabReading } from './crontab-calls.ts';

interface ScriptFault extends Fault {
  readonly script: Script;
}

/**
 * The variables that scripts read, and do not get if cron calls them: "reads SHOP, which nothing sets".
 *
 * @param readCalls called only if a script may lack one, unless the crontab is already read
 */
export async function findVariableFaults(
  scripts: readonly Script[],
  settings: Settings,
  readCalls: () => Promise<Pick<CrontabReading, 'calls'>>,
): Promise<readonly ScriptFault[]> {
  if (scripts.every((script) => findUnset(script, sourcesOf(script, settings, null)).length === 0)) return [];
  const { calls } = await readCalls();
  const ofCron = calls.length === 0 ? null : new Set(calls.flatMap(({ command }) => Object.keys(command?.env ?? {})));
  return scripts.flatMap((script) => {
    const unset = findUnset(script, sourcesOf(script, settings, ofCron));
    return describeUnset(unset, 'the crontab').map((fault) => ({ ...fault, script }));
  });
}

/** @param ofCron the variables that cron's calls have; null: unknown, so each `@env` may get its own */
function sourcesOf({ tier, options }: Script, { env, given }: Settings, ofCron: ReadonlySet<string> | null) {
  const passed = (options.env ?? []).filter((name) => ofCron?.has(name) !== false);
  const names = [...Object.keys(env), ...Object.keys(givenTo(given, tier)), ...passed];
  return { given: new Set(names), held: ofCron ?? new Set<string>() };
}
