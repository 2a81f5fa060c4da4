export type { JobContext } from './child/job-context.ts';
export {
  defineConfig,
  type RetentionInput,
  type ScriptOptionsInput,
  type SettingsInput,
  type TierSettingsInput,
} from './config/define-config.ts';
