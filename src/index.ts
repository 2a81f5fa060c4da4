export type { JobContext } from './child/job-context.ts';
export { defineConfig, type SettingsInput } from './config/define-config.ts';
