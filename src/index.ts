export {
  defineHandler,
  type Handler,
  type HandlerChild,
  type HandlerChildren,
  type HandlerContext,
  type RetryRequest,
} from './child/handler-context.ts';
export type { JobContext } from './child/job-context.ts';
export type {
  AddedJob,
  BuryOptions,
  ChildJob,
  ClaimedJob,
  ClaimOptions,
  DuplicatePolicy,
  EndedChildren,
  FailOptions,
  FinishOptions,
  Job,
  JobCount,
  JobCounters,
  JobOptions,
  JobRef,
  JsonValue,
  ListOptions,
  NewJob,
  PauseOptions,
  Queue,
  RequeueOptions,
  RetryOptions,
  UpdateOptions,
  When,
} from './queue/api.ts';
export { QueueError, type QueueErrorCode } from './queue/errors.ts';
export { openQueue } from './queue/open.ts';
export type { OpenQueueOptions } from './queue/queue.ts';
export {
  defineConfig,
  type RetentionInput,
  type ScriptOptionsInput,
  type SettingsInput,
  type TierSettingsInput,
} from './settings/define-config.ts';
export { type StoreFailureKind, StoreUnavailable } from './store/failures.ts';
export type { ChildFailurePolicy, JobState, MissedPolicy } from './store/schema.ts';
