import type { SettingsInput } from './settings.ts';

/**
 * Gives the settings in `runner.config.ts` their types; it returns them unchanged. A script's own tags win over
 * `scripts`, `scripts` over `tiers`, `tiers` over `defaults`.
 *
 * @example
 * ```ts
 * import { defineConfig } from 'folder-runner';
 *
 * export default defineConfig({
 *   tiers: { daily: { timeout: '30m' } },
 *   scripts: { 'hourly/import-*': { retries: 3, retryDelay: '5m' } },
 * });
 * ```
 */
export function defineConfig(settings: SettingsInput): SettingsInput {
  return settings;
}
