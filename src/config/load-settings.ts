import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type ConfigFile, readConfigFile } from './config-file.ts';
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
 * The settings of the root's `runner.config.*`, or the defaults if it has none.
 *
 * @throws {UsageError} if the file cannot be loaded, or with one line for each wrong setting
 */
export async function loadSettings(root: string): Promise<Settings> {
  const [name, other] = fileNames.filter((file) => existsSync(join(root, file)));
  if (name === undefined) return defaultSettings;
  if (other !== undefined) throw new UsageError(describeRivals(root, name, other));
  return checkConfigFile(await readConfigFile(root, name));
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
  }));
  const lineOf = ({ line }: Problem) => line ?? Number.MAX_SAFE_INTEGER;
  return problems.toSorted((one, other) => lineOf(one) - lineOf(other));
}
