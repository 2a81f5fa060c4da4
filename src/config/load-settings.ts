import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type ConfigFile, readConfigFile } from './config-file.ts';
import { describeDistrust, orAllowOutside } from './describe-distrust.ts';
import { judgePath, judgeRoot, OVERRIDE_VARIABLE } from './file-trust.ts';
import { describeProblem, type Problem } from './problem.ts';
import { findSettingLine } from './setting-line.ts';
import { defaultSettings, type Settings } from './settings.ts';
import type { SettingIssue } from './settings-schema.ts';
import { UsageError } from './usage-error.ts';

const fileNames = [
  'runner.config.ts',
  'runner.config.js',
  'runner.config.mjs',
  'runner.config.json',
] as const;

/**
 * The settings of the root's `runner.config.*`, or the defaults if it has none. `RUNNER_ALLOW_UNSAFE`
 * in the environment counts as `allowUnsafe`.
 *
 * @throws {UsageError} if others could have written the file, if it cannot be loaded, or with one line
 *   for each wrong setting
 */
export async function loadSettings(
  root: string,
  environment: NodeJS.ProcessEnv = process.env,
): Promise<Settings> {
  const allowUnsafe = environment[OVERRIDE_VARIABLE] === '1';
  const settings = await loadFile(root, allowUnsafe);
  return allowUnsafe ? { ...settings, allowUnsafe } : settings;
}

/**
 * The same, for what goes on without them: the defaults where they are wrong.
 *
 * @param onWrong is told what is wrong with them, unless somebody else tells of it
 */
export async function loadSettingsIfRight(
  root: string,
  onWrong: (problem: string) => void = () => {},
): Promise<Settings> {
  try {
    return await loadSettings(root);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    onWrong(error.message);
    return defaultSettings;
  }
}

async function loadFile(root: string, allowUnsafe: boolean): Promise<Settings> {
  const [name, other] = fileNames.filter((file) => existsSync(join(root, file)));
  if (name === undefined) return defaultSettings;
  if (other !== undefined) throw new UsageError(describeRivals(root, name, other));
  if (!allowUnsafe) refuseUnsafeFile(root, name);
  return checkConfigFile(await readConfigFile(root, name));
}

/** Its code runs at once, so what it says itself cannot allow it. */
function refuseUnsafeFile(root: string, name: string): void {
  const ofRoot = judgeRoot(root);
  const distrusted = [...(ofRoot === null ? [] : [ofRoot]), ...judgePath(root, join(root, name))];
  if (distrusted.length === 0) return;
  const reasons = distrusted.map((each) => describeDistrust(root, each, orAllowOutside));
  throw new UsageError(`${root}/${name} is not loaded: ${reasons.join('\n')}`);
}

function describeRivals(root: string, name: string, other: string): string {
  return `${root} has both ${name} and ${other}, and only one can hold the settings; remove one of them.`;
}

/** The schema is loaded only here: most roots have no settings, and zod costs every start. */
async function checkConfigFile(file: ConfigFile): Promise<Settings> {
  const { checkSettings } = await import('./settings-schema.ts');
  const checked = checkSettings(file.content);
  if ('settings' in checked) return checked.settings;
  throw new UsageError(problemsOf(file, checked.issues).map(describeProblem).join('\n'));
}

function problemsOf(file: ConfigFile, issues: readonly SettingIssue[]): readonly Problem[] {
  const problems = issues.map(({ path, expected, found }) => ({
    file: file.name,
    line: findSettingLine(file.source, path),
    setting: path.join('.') || 'the default export',
    expected,
    found,
    // Cron would mail it.
    isSecret: path[0] === 'env' && found !== path[1],
  }));
  const lineOf = ({ line }: Problem) => line ?? Number.MAX_SAFE_INTEGER;
  return problems.toSorted((one, other) => lineOf(one) - lineOf(other));
}
