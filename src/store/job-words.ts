/** Where a job is in its life; the diagram is in docs/architecture.md. */
export type JobState =
  | 'queued'
  | 'running'
  | 'finished'
  | 'retrying'
  | 'failed'
  | 'paused'
  | 'cancelled';

/** What becomes of a repeating job's times that have passed meanwhile. */
export type MissedPolicy = 'all' | 'once' | 'skip';

/** What becomes of a parent one of whose children has failed. */
export type ChildFailurePolicy = 'resume' | 'fail';
