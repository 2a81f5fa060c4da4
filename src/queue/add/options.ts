import type { NewJobRow } from '../../store/statements/jobs.ts';
import { childFailurePolicies, missedPolicies } from '../../store/words.ts';
import type { DuplicatePolicy, NewJob } from '../api.ts';
import { readId, readKey, readLeaseMs, readPriority, readWord, requireJobName, writeJson } from './values.ts';

/** An option of a new job. */
interface JobOption {
  /** The columns that it sets. */
  readonly columns: readonly (keyof NewJobRow)[];
  /** Converts a given value to that of its one column; absent: other options count as well. */
  readonly read?: (value: unknown) => string | number;
  /** The column without the option; absent: the option must be given, or others count as well. */
  readonly initial?: string | number | null;
  /** Whether an unfinished job with the same unique key can take it. */
  readonly isTakeable: boolean;
}

type OptionName = keyof NewJob<unknown>;

/** The options of a new job, in the order in which errors and answers list them. */
export const jobOptions = {
  name: { columns: ['name'], read: requireJobName, isTakeable: false },
  data: { columns: ['data'], read: (data) => writeJson('data', data), initial: '{}', isTakeable: true },
  runAt: { columns: ['run_at'], isTakeable: true },
  repeat: { columns: ['repeat', 'run_at', 'scheduled_for'], isTakeable: true },
  priority: { columns: ['priority'], read: readPriority, initial: 500, isTakeable: true },
  retries: { columns: ['retry'], isTakeable: true },
  retryDelay: { columns: ['retry'], isTakeable: true },
  missed: {
    columns: ['missed_policy'],
    read: (missed) => readWord('missed', 'The policy for missed times', missed, missedPolicies),
    ...{ initial: 'all' as const, isTakeable: true },
  },
  onChildFailure: {
    columns: ['on_child_failure'],
    read: (policy) => readWord('onChildFailure', 'The policy for failed children', policy, childFailurePolicies),
    ...{ initial: null, isTakeable: true },
  },
  group: {
    columns: ['concurrency_key'],
    read: (group) => readKey('group', 'A group', group),
    ...{ initial: null, isTakeable: true },
  },
  lease: { columns: ['lease_ms'], read: readLeaseMs, initial: null, isTakeable: true },
  uniqueKey: {
    columns: ['unique_key'],
    read: (key) => readKey('uniqueKey', 'A unique key', key),
    ...{ initial: null, isTakeable: false },
  },
  onDuplicate: { columns: [], isTakeable: false },
  parent: {
    columns: ['parent_id'],
    read: (parent) => readId('The parent', "a job's number", parent, 'parent'),
    ...{ initial: null, isTakeable: false },
  },
} as const satisfies Readonly<Record<OptionName, JobOption>>;

export const optionNames = Object.keys(jobOptions) as OptionName[];

/** The options that an unfinished job with the same unique key can take. */
export const takeable = optionNames.filter((name) => jobOptions[name].isTakeable);

/** The options that such a job takes by each policy. */
export const duplicatePolicies: Readonly<Record<DuplicatePolicy, readonly OptionName[]>> = {
  keep: [],
  replace: ['data'],
  merge: ['data'],
  'replace-all': takeable,
};

/** @throws {QueueError} */
export function readDuplicatePolicy(policy: unknown): DuplicatePolicy {
  const words = Object.keys(duplicatePolicies) as DuplicatePolicy[];
  return readWord('onDuplicate', 'The policy for duplicates', policy, words);
}
