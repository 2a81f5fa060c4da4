import { UsageError } from '../../base/errors.ts';
import { nearestName } from '../../base/suggest.ts';
import { printableLine } from '../../base/text.ts';
import type { Job, JobRef, JsonValue, Queue } from '../../queue/api.ts';
import { formatJson, jobToJson } from '../../report/json.ts';
import { createClock } from '../../report/text/format.ts';
import { describeJob } from '../../report/text/words.ts';
import type { CommandContext } from '../shared/context.ts';
import { numberIn, readJsonArgument, STDIN, withoutUndefined } from '../shared/options.ts';

/** What each verb takes besides `--json`. */
const verbs = {
  finish: ['result', 'data', 'token'],
  retry: ['delay', 'at', 'priority', 'name', 'data', 'reason', 'ignoreRepeat', 'token'],
  fail: ['reason', 'data', 'mayRetry', 'token'],
  bury: ['reason', 'priority', 'token'],
  kick: [],
  cancel: [],
  touch: ['lease', 'token'],
  delete: ['token'],
  update: ['data', 'priority', 'at', 'repeat', 'token'],
  requeue: ['name', 'forgetTry'],
} as const satisfies Readonly<Record<string, readonly (keyof JobWords)[]>>;

export type JobSubcommand = keyof typeof verbs;

export const jobVerbs = Object.keys(verbs) as readonly JobSubcommand[];

/** The options of `runner job`, as they were typed. */
export interface JobWords {
  readonly token?: string;
  readonly result?: string;
  readonly data?: string;
  readonly delay?: string;
  readonly at?: string;
  readonly priority?: string;
  readonly name?: string;
  readonly reason?: string;
  /** False: `--no-repeat`. */
  readonly repeat?: string | false;
  readonly ignoreRepeat?: true;
  readonly lease?: string;
  readonly forgetTry?: true;
  readonly mayRetry?: true;
}

const flags: Readonly<Record<keyof JobWords, string>> = {
  token: '--token',
  result: '--result',
  data: '--data',
  delay: '--delay',
  at: '--at',
  priority: '--priority',
  name: '--name',
  reason: '--reason',
  repeat: '--repeat',
  ignoreRepeat: '--ignore-repeat',
  lease: '--lease',
  forgetTry: '--forget-try',
  mayRetry: '--may-retry',
};

/** @throws {UsageError} that names the nearest verb */
export function readVerb(word: string): JobSubcommand {
  if (Object.hasOwn(verbs, word)) return word as JobSubcommand;
  const nearest = nearestName(word, jobVerbs);
  throw new UsageError(
    `runner job <id> expects one of ${jobVerbs.join(', ')}, ` +
      `found ${JSON.stringify(printableLine(word))}${nearest === null ? '.' : `; did you mean ${nearest}?`}`,
  );
}

/**
 * Null: no verb, the job is shown.
 *
 * @throws {UsageError} if an option is given that the verb does not take
 */
export function assertOptions(verb: JobSubcommand | null, given: object): void {
  const taken: readonly string[] = verb === null ? [] : verbs[verb];
  const options = Object.keys(flags) as (keyof JobWords)[];
  const wrong = options.find((option) => Object.hasOwn(given, option) && !taken.includes(option));
  if (wrong === undefined) return;
  const flag = flags[wrong];
  throw new UsageError(verb === null ? withoutVerb(flag, wrong) : withVerb(flag, verb));
}

function withVerb(flag: string, verb: JobSubcommand): string {
  const taken = [...verbs[verb].map((option) => flags[option]), '--json'];
  return `\`runner job <id> ${verb}\` takes no ${flag}; it takes ${taken.join(', ')}.`;
}

function withoutVerb(flag: string, option: keyof JobWords): string {
  const having = jobVerbs.filter((name) => (verbs[name] as readonly string[]).includes(option));
  return `${flag} goes with a verb: \`runner job <id> ${having.join('|')} ${flag} …\`.`;
}

type Change = (queue: Queue, job: Exclude<JobRef, number>, words: Words) => Promise<unknown>;

/** Words with their JSON read. */
type Words = Omit<JobWords, 'data' | 'result'> & {
  readonly data: JsonValue | undefined;
  readonly result: JsonValue | undefined;
};

const changes: Readonly<Record<JobSubcommand, Change>> = {
  finish: (queue, job, { result, data }) => queue.finish(job, withoutUndefined({ result, data })),
  retry: (queue, job, words) => queue.retry(job, readRetry(words)),
  fail: (queue, job, { reason, data, mayRetry }) =>
    queue.fail(job, withoutUndefined({ reason, data, mayRetry })),
  bury: (queue, job, { reason, priority }) =>
    queue.bury(job, withoutUndefined({ reason, priority: numberIn(priority) })),
  kick: (queue, { id }) => queue.kick(id),
  cancel: (queue, { id }) => queue.cancel(id),
  touch: (queue, job, { lease }) => queue.touch(job, withoutUndefined({ lease })),
  delete: (queue, job) => queue.delete(job),
  update: (queue, job, words) => queue.update(job, readUpdate(words)),
  requeue: (queue, { id }, { name, forgetTry }) =>
    queue.requeue([id], withoutUndefined({ name, forgetTry })),
};

/** Does to a job what the verb says. */
export async function changeJob(
  queue: Queue,
  id: number,
  verb: JobSubcommand,
  words: Words,
): Promise<void> {
  const job = words.token === undefined ? { id } : { id, token: words.token };
  await changes[verb](queue, job, words);
}

/** @throws {UsageError} if what is to be JSON is none */
export async function readJobWords({ data, result, ...words }: JobWords): Promise<Words> {
  if (data === STDIN && result === STDIN) {
    throw new UsageError('Either --data or --result can be read from stdin, not both.');
  }
  return {
    ...words,
    data: data === undefined ? undefined : await readJsonArgument(data, '--data'),
    result: result === undefined ? undefined : await readJsonArgument(result, '--result'),
  };
}

function readRetry({ delay, at, priority, name, data, reason, ignoreRepeat }: Words): object {
  const numbers = { priority: numberIn(priority) };
  return withoutUndefined({ delay, runAt: at, ...numbers, name, data, reason, ignoreRepeat });
}

function readUpdate({ data, priority, at, repeat }: Words): object {
  const rule = repeat === false ? null : repeat;
  const changed = withoutUndefined({ data, priority: numberIn(priority), runAt: at, repeat: rule });
  if (Object.keys(changed).length > 0) return changed;
  throw new UsageError(
    '`runner job <id> update` expects --data, --priority, --at, --repeat or --no-repeat.',
  );
}

interface Changed {
  readonly id: number;
  readonly verb: JobSubcommand;
  readonly json?: true;
}

/** How a job stands after a verb; null: it is gone, deleted or kept no longer. */
export function describeChanged(
  context: CommandContext,
  job: Job | null,
  { id, verb, json }: Changed,
): string {
  if (json) return formatJson(job === null ? { id } : jobToJson(job));
  if (job !== null) {
    const nowMs = context.now();
    return `${describeJob(job, createClock(nowMs), nowMs)}\n`;
  }
  if (verb === 'delete') return `Job ${id} is deleted.\n`;
  return `Job ${id} has ended and was removed, as the settings say.\n`;
}
