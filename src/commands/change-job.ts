import { UsageError } from '../config/usage-error.ts';
import type { JobRef, JsonValue, Queue } from '../queue/queue.ts';
import type { JobVerb, JobWords } from './job-verbs.ts';
import { numberIn, withoutUndefined } from './read-job-options.ts';
import { readJsonArgument, STDIN } from './read-json.ts';

type Change = (queue: Queue, job: Exclude<JobRef, number>, words: Words) => Promise<unknown>;

/** Words with their JSON read. */
export type Words = Omit<JobWords, 'data' | 'result'> & {
  readonly data: JsonValue | undefined;
  readonly result: JsonValue | undefined;
};

const changes: Readonly<Record<JobVerb, Change>> = {
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
  verb: JobVerb,
  words: Words,
): Promise<void> {
  const job = words.token === undefined ? { id } : { id, token: words.token };
  await changes[verb](queue, job, words);
}

/** @throws {UsageError} if what is to be JSON is none */
export async function readWords({ data, result, ...words }: JobWords): Promise<Words> {
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
