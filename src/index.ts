export {
  defineHandler,
  type Handler,
  type HandlerChild,
  type HandlerChildren,
  type HandlerContext,
  type RetryRequest,
} from './child/handler-context.ts';
export type { JobContext } from './child/job-context.ts';
export {
  defineConfig,
  type RetentionInput,
  type ScriptOptionsInput,
  type SettingsInput,
  type TierSettingsInput,
} from './config/define-config.ts';
export { type OpenQueueOptions, openQueue } from './queue/open-queue.ts';
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
} from './queue/queue.ts';
export { QueueError, type QueueErrorCode } from './queue/queue-error.ts';
export type { ChildFailurePolicy, JobState, MissedPolicy } from './store/job-words.ts';
export { type StoreFailureKind, StoreUnavailable } from './store/store-unavailable.ts';
