import type { Job, JobRef, Queue } from '../../queue/api.ts';
import { noSuchJob, QueueError } from '../../queue/errors.ts';
import { formatJson } from '../../report/json.ts';
import { jobRecord, jobStoryToJson, readStory } from '../../report/model/jobs.ts';
import { renderJob } from '../../report/terminal/jobs.ts';
import { createScreen } from '../../report/terminal/screen.ts';
import { createClock } from '../../report/text/clock.ts';
import { describeJob } from '../../report/text/words.ts';
import { UsageError } from '../../system/base/errors.ts';
import type { ExactJson } from '../../system/base/exact-json.ts';
import { nearestName } from '../../system/base/suggest.ts';
import { printableLine } from '../../system/base/text.ts';
import { printableName } from '../../system/base/values.ts';
import type { CommandContext } from '../shared/context.ts';
import { print, withLog } from '../shared/open.ts';
import { numberIn, readJsonArgument, STDIN, withoutUndefined } from '../shared/options.ts';
import { withQueue } from '../shared/with-queue.ts';
import type { Given } from '../table.ts';

type JobOptions = Given<'job'>;

/** `runner job`: shows one job of the queue, or does something to it. */
export async function job(context: CommandContext, options: JobOptions): Promise<void> {
  const [ids, verbWord] = readJobNumbers(options.id);
  const verb = verbWord === undefined ? null : readVerb(verbWord);
  assertOptions(verb, options);
  const [id, ...others] = ids;
  if (verb === null) await showJob(context, id, options);
  else if (others.length === 0) await changeOne(context, { id, verb, options });
  else await changeEach(context, { ids, verb, options });
}

interface Request {
  readonly verb: JobSubcommand;
  readonly options: JobOptions;
}

async function changeOne(context: CommandContext, { id, verb, options }: Request & { id: number }): Promise<void> {
  const words = await readJobWords(options);
  const text = await withQueue(context, options.root, async (queue) => {
    await changeJob(queue, id, verb, words);
    const job = await queue.get(id);
    return options.json ? formatJson(changedToJson(id, job)) : describeChanged(context, job, { id, verb });
  });
  context.stdout.write(text);
}

/** Each in a transaction of its own: one that is refused keeps none of the others back. */
async function changeEach(
  context: CommandContext,
  { ids, verb, options }: Request & { ids: readonly number[] },
): Promise<void> {
  if (options.token !== undefined) throw new UsageError('A --token is that of one claim: give one number with it.');
  const words = await readJobWords(options);
  const jobs: object[] = [];
  const refused = new Map<number, QueueError>();
  await withQueue(context, options.root, async (queue) => {
    for (const id of ids) {
      try {
        await changeJob(queue, id, verb, words);
      } catch (error) {
        if (!(error instanceof QueueError)) throw error;
        refused.set(id, error);
        continue;
      }
      const job = await queue.get(id);
      if (options.json) jobs.push(changedToJson(id, job));
      else context.stdout.write(describeChanged(context, job, { id, verb }));
    }
  });
  if (options.json) context.stdout.write(formatJson({ jobs, refused: [...refused].map(refusalToJson) }));
  tellRefused(context, [...refused.values()]);
}

function refusalToJson([id, { message: reason }]: readonly [number, QueueError]): object {
  return { id, reason };
}

/** What is wrong with an option is so for each job, and is said once. */
function tellRefused({ stderr, setExitCode }: CommandContext, refused: readonly QueueError[]): void {
  for (const message of new Set(refused.map(({ message }) => message))) {
    stderr.write(`runner: ${printableName(message)}\n`);
  }
  if (refused.length > 0) setExitCode(refused.some(({ code }) => code === 'invalid') ? 2 : 1);
}

/** The numbers, in their order, and the word behind them, if there is one. */
function readJobNumbers(words: readonly string[]): readonly [readonly [number, ...number[]], string | undefined] {
  const end = words.findIndex((word) => !isJobNumber(word));
  const [id, ...others] = [...new Set((end === -1 ? words : words.slice(0, end)).map(Number))];
  const [verb, ...more] = end === -1 ? [] : words.slice(end);
  if (id === undefined) throw noNumber(words);
  if (more.length > 0) {
    const found = printableLine([verb, ...more].join(' '));
    throw new UsageError(
      `npx folder-runner job needs numbers, then one verb; found ${JSON.stringify(found)} behind ${id}.`,
    );
  }
  if (verb === undefined && others.length > 0) {
    throw new UsageError(
      `npx folder-runner job shows one job; for several, say what to do: \`npx folder-runner job ${id} ${others[0]} kick\`.`,
    );
  }
  return [[id, ...others], verb];
}

function noNumber([word = '', next = '']: readonly string[]): UsageError {
  const verb = isJobNumber(next) ? nearestName(word, jobVerbs) : null;
  const cure =
    verb === null ? '`npx folder-runner jobs` lists them.' : `did you mean \`npx folder-runner job ${next} ${verb}\`?`;
  return new UsageError(
    `npx folder-runner job needs the number of a job, found ${JSON.stringify(printableLine(word))}; ${cure}`,
  );
}

function isJobNumber(word: string): boolean {
  return /^[1-9]\d{0,14}$/.test(word);
}

/** `runner job <id>`: everything about one job of the queue. */
async function showJob(context: CommandContext, id: number, options: JobOptions): Promise<void> {
  const text = await withLog(context, options.root, async (site) => {
    const story = await readStory(site, id);
    return options.json ? formatJson(jobStoryToJson(story)) : renderJob(story, createScreen(context));
  });
  await print(context, text);
}

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

/** The options of verbs. */
type JobWords = Omit<JobOptions, 'id' | 'json' | 'root' | 'asRoot'>;

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
    `npx folder-runner job <id> needs one of ${jobVerbs.join(', ')}, ` +
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
  return `\`npx folder-runner job <id> ${verb}\` takes no ${flag}; it takes ${taken.join(', ')}.`;
}

function withoutVerb(flag: string, option: keyof JobWords): string {
  const having = jobVerbs.filter((name) => (verbs[name] as readonly string[]).includes(option));
  return `${flag} goes with a verb: \`npx folder-runner job <id> ${having.join('|')} ${flag} …\`.`;
}

type Change = (queue: Queue, job: Exclude<JobRef, number>, words: Words) => Promise<unknown>;

/** Words with their JSON read. */
type Words = Omit<JobWords, 'data' | 'result'> & {
  readonly data: ExactJson | null | undefined;
  readonly result: ExactJson | null | undefined;
};

const changes: Readonly<Record<JobSubcommand, Change>> = {
  finish: (queue, job, { result, data }) => queue.finish(job, withoutUndefined({ result, data })),
  retry: (queue, job, words) => queue.retry(job, readRetry(words)),
  fail: (queue, job, { reason, data, mayRetry }) => queue.fail(job, withoutUndefined({ reason, data, mayRetry })),
  bury: (queue, job, { reason, priority }) =>
    queue.bury(job, withoutUndefined({ reason, priority: numberIn(priority) })),
  kick: (queue, { id }) => queue.kick(id),
  cancel: (queue, { id }) => queue.cancel(id),
  touch: (queue, job, { lease }) => queue.touch(job, withoutUndefined({ lease })),
  delete: (queue, job) => queue.delete(job),
  update: (queue, job, words) => queue.update(job, readUpdate(words)),
  requeue: async (queue, { id }, { name, forgetTry }) => {
    const count = await queue.requeue([id], withoutUndefined({ name, forgetTry }));
    if (count === 0) throw noSuchJob(id);
  },
};

/** Does to a job what the verb says. */
async function changeJob(queue: Queue, id: number, verb: JobSubcommand, words: Words): Promise<void> {
  const job = words.token === undefined ? { id } : { id, token: words.token };
  await changes[verb](queue, job, words);
}

/** @throws {UsageError} if what is to be JSON is none */
async function readJobWords({ data, result, ...words }: JobWords): Promise<Words> {
  if (data === STDIN && result === STDIN) {
    throw new UsageError('Only one of --data and --result can be read from stdin: give the other one as JSON.');
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
  throw new UsageError('`npx folder-runner job <id> update` needs --data, --priority, --at, --repeat or --no-repeat.');
}

interface Changed {
  readonly id: number;
  readonly verb: JobSubcommand;
}

/** How a job stands after a verb; null: it is gone, deleted or kept no longer. */
function describeChanged(context: CommandContext, job: Job | null, { id, verb }: Changed): string {
  if (job !== null) {
    const nowMs = context.now();
    return `${describeJob(job, createClock(nowMs), nowMs)}\n`;
  }
  if (verb === 'delete') return `Job ${id} is deleted.\n`;
  return `Job ${id} has ended and was removed, as the settings say.\n`;
}

function changedToJson(id: number, job: Job | null): object {
  return job === null ? { id } : jobRecord.toJson(job);
}
