import type { NewJobRow } from '../../store/statements/jobs.ts';
import { childFailurePolicies, missedPolicies } from '../../store/words.ts';
import { type ExactJson, memberOf } from '../../system/base/exact-json.ts';
import type { DuplicatePolicy, NewJob } from '../api.ts';
import { readId, readKey, readLeaseMs, readPriority, readWord, requireJobName, writeJson } from './values.ts';

/**
 * The kind of value that an option takes. It decides how a word of the command line is read, and which schema the API's
 * bodies have. A list names the allowed words.
 */
export type OptionKind =
  | 'json'
  | 'name'
  | 'when'
  | 'duration'
  | 'delay'
  | 'rule'
  | 'priority'
  | 'retries'
  | 'id'
  | 'key'
  | 'reason'
  | 'yes'
  | readonly [string, ...string[]];

/** An option of a new job or of a verb, for all surfaces. Its key is its name in TypeScript and in the API. */
export interface QueueOption {
  readonly takes: OptionKind;
  /** The command line's name: `--at`; absent: the command takes it as an argument. */
  readonly flag?: string;
  /** The flag that sets the option to null. */
  readonly off?: string;
  /** The description in the API's document. */
  readonly note?: string;
}

/** An option of a new job. */
interface JobOption extends QueueOption {
  /** The columns that it sets. */
  readonly columns: readonly (keyof NewJobRow)[];
  /** Converts a given value to that of its one column; absent: other options count as well. */
  readonly read?: (value: unknown) => string | number;
  /** The column without the option; absent: the option must be given, or others count as well. */
  readonly initial?: string | number | null;
  /** Whether an unfinished job with the same unique key can take it. */
  readonly isTakeable: boolean;
}

export type JobOptionName = keyof NewJob<unknown>;

const duplicatePolicies = ['keep', 'replace', 'merge', 'replace-all'] as const satisfies readonly DuplicatePolicy[];

/** The options of a new job, in the order in which errors and answers list them. */
export const jobOptions = {
  name: { takes: 'name', columns: ['name'], read: requireJobName, isTakeable: false },
  data: { takes: 'json', columns: ['data'], read: (data) => writeJson('data', data), initial: '{}', isTakeable: true },
  runAt: { takes: 'when', flag: '--at', columns: ['run_at'], isTakeable: true },
  priority: {
    takes: 'priority',
    flag: '--priority',
    columns: ['priority'],
    read: readPriority,
    initial: 500,
    isTakeable: true,
  },
  retries: { takes: 'retries', flag: '--retries', columns: ['retry'], isTakeable: true },
  retryDelay: { takes: 'delay', flag: '--retry-delay', columns: ['retry'], isTakeable: true },
  uniqueKey: {
    ...{ takes: 'key', flag: '--unique' },
    note: 'At most one unfinished job has it',
    columns: ['unique_key'],
    read: (key) => readKey('uniqueKey', 'A unique key', key),
    ...{ initial: null, isTakeable: false },
  },
  onDuplicate: { takes: duplicatePolicies, flag: '--on-duplicate', columns: [], isTakeable: false },
  repeat: { takes: 'rule', flag: '--repeat', columns: ['repeat', 'run_at', 'scheduled_for'], isTakeable: true },
  missed: {
    ...{ takes: missedPolicies, flag: '--missed' },
    columns: ['missed_policy'],
    read: (missed) => readWord('missed', 'The policy for missed times', missed, missedPolicies),
    ...{ initial: 'all' as const, isTakeable: true },
  },
  parent: {
    ...{ takes: 'id', flag: '--parent' },
    columns: ['parent_id'],
    read: (parent) => readId('The parent', "a job's number", parent, 'parent'),
    ...{ initial: null, isTakeable: false },
  },
  onChildFailure: {
    ...{ takes: childFailurePolicies, flag: '--on-child-failure' },
    columns: ['on_child_failure'],
    read: (policy) => readWord('onChildFailure', 'The policy for failed children', policy, childFailurePolicies),
    ...{ initial: null, isTakeable: true },
  },
  group: {
    ...{ takes: 'key', flag: '--group' },
    columns: ['concurrency_key'],
    read: (group) => readKey('group', 'A group', group),
    ...{ initial: null, isTakeable: true },
  },
  lease: {
    takes: 'duration',
    flag: '--lease',
    columns: ['lease_ms'],
    read: readLeaseMs,
    initial: null,
    isTakeable: true,
  },
} as const satisfies Readonly<Record<JobOptionName, JobOption>>;

export const jobOptionNames = Object.keys(jobOptions) as JobOptionName[];

/** The options that an unfinished job with the same unique key can take. */
export const takeable = jobOptionNames.filter((name) => jobOptions[name].isTakeable);

/** The options that such a job takes by each policy. */
export const takenBy: Readonly<Record<DuplicatePolicy, readonly JobOptionName[]>> = {
  keep: [],
  replace: ['data'],
  merge: ['data'],
  'replace-all': takeable,
};

/** The token of a claim, with which a verb works only while that claim is valid. */
export const tokenOption = { takes: 'key', flag: '--token' } as const;

/** The options of the verbs of a job. */
export const verbOptions = {
  result: { takes: 'json', flag: '--result' },
  data: { takes: 'json', flag: '--data' },
  delay: { takes: 'duration', flag: '--delay' },
  runAt: { takes: 'when', flag: '--at' },
  priority: { takes: 'priority', flag: '--priority' },
  name: { takes: 'name', flag: '--name' },
  reason: { takes: 'reason', flag: '--reason' },
  repeat: {
    ...{ takes: 'rule', flag: '--repeat' },
    ...{ off: '--no-repeat', note: 'Null: it stops repeating' },
  },
  ignoreRepeat: { takes: 'yes', flag: '--ignore-repeat' },
  lease: { takes: 'duration', flag: '--lease' },
  mayRetry: { takes: 'yes', flag: '--may-retry' },
  forgetTry: { takes: 'yes', flag: '--forget-try' },
} as const satisfies Readonly<Record<string, QueueOption>>;

export type VerbOptionName = keyof typeof verbOptions;

/**
 * Options of an object in JSON: data as it is written, and null only where it has a meaning. Programs in other
 * languages write null for what they leave out.
 */
export function givenOptions(
  options: Readonly<Record<string, QueueOption>>,
  found: Readonly<Record<string, unknown>>,
  json: ExactJson,
): Readonly<Record<string, unknown>> {
  const given = Object.entries(found).flatMap(([name, value]) => {
    const { takes, off } = options[name] ?? {};
    if (value === undefined || (value === null && takes !== 'json' && off === undefined)) return [];
    return [[name, takes === 'json' ? memberOf(json, name) : value] as const];
  });
  return Object.fromEntries(given);
}
