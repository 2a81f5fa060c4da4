import { variablesOf } from './channels.ts';
import { nearestSetting, scriptTable } from './script-settings.ts';
import { defaultSettings, type Settings } from './settings.ts';
import { settingsTable } from './site-settings.ts';
import { readTable, type SettingIssue } from './table.ts';

/** Every issue is reported, not only the first; `statement` completes the setting's name, as in `Problem`. */
export function validateSettings(found: unknown) {
  const issues: SettingIssue[] = [];
  const settings = readTable(settingsTable, found, issues, defaultSettings);
  if (issues.length === 0) return { settings: withSecrets(settings) };
  return { issues: issues.map((issue) => ({ ...issue, statement: statementOf(issue) })) };
}

function withSecrets(settings: Settings): Settings {
  return { ...settings, secrets: [...new Set([...settings.secrets, ...variablesOf(settings.alerts.channels)])] };
}

function statementOf({ path, known }: SettingIssue): string | undefined {
  return known && `is not a known setting; ${hintFor(path.at(-1) ?? '', known, path.length === 1)}`;
}

function hintFor(key: string, known: readonly string[], isOnTop: boolean): string {
  if (key === 'ping') return 'put it under tiers.<tier> or scripts, as each needs a URL of its own';
  if (isOnTop && Object.hasOwn(scriptTable, key)) return 'put it under defaults, tiers.<tier> or scripts';
  const nearest = nearestSetting(key, known);
  return nearest === null ? `known are ${known.join(', ')}` : `did you mean ${nearest}?`;
}
