import { type QueueOption, tokenOption, verbOptions } from '../../queue/add/options.ts';
import type { Job } from '../../queue/api.ts';
import { QueueError } from '../../queue/errors.ts';
import { type VerbName, verbNames, verbOf } from '../../queue/settle/verbs.ts';
import { formatJson } from '../../report/json.ts';
import { jobRecord, jobStoryRecord, readStory } from '../../report/model/jobs.ts';
import { renderJob } from '../../report/terminal/jobs.ts';
import { createScreen } from '../../report/terminal/screen.ts';
import { createClock } from '../../report/text/clock.ts';
import { describeJob } from '../../report/text/words.ts';
import { UsageError } from '../../system/base/errors.ts';
import { nearestName } from '../../system/base/suggest.ts';
import { printableLine } from '../../system/base/text.ts';
import { isRowNumber, printableName } from '../../system/base/values.ts';
import type { CommandContext } from '../shared/context.ts';
import { print, withLog } from '../shared/open.ts';
import { readQueueOptions, STDIN, typedKey, withQueue } from '../shared/queue.ts';
import type { Given } from '../table.ts';

type JobOptions = Given<'job'>;

/** `runner job`: shows one job of the queue, or does something to it. */
export async function job(context: CommandContext, options: JobOptions): Promise<void> {
  const [ids, verbWord] = readJobNumbers(options.id);
  const verb = verbWord === undefined ? null : readVerb(verbWord);
  assertOptions(verb, options);
  if (verb === null) await showJob(context, ids[0], options);
  else await change(context, { ids, verb, options });
}

interface Request {
  readonly ids: readonly number[];
  readonly verb: VerbName;
  readonly options: JobOptions;
}

/** Each of several jobs has its own transaction, so that the others are changed if one is refused. */
async function change(context: CommandContext, { ids, verb, options }: Request): Promise<void> {
  const { token, json, root } = options;
  const isOne = ids.length === 1;
  if (token !== undefined && !isOne) {
    throw new UsageError('A --token is that of one claim: give one number with it.');
  }
  const given = await readOptions(verb, options);
  const jobs: object[] = [];
  const refused = new Map<number, QueueError>();
  await withQueue(context, root, async (queue) => {
    for (const id of ids) {
      try {
        await queue.apply(verb, token === undefined ? id : { id, token }, given);
      } catch (error) {
        if (isOne || !(error instanceof QueueError)) throw error;
        refused.set(id, error);
        continue;
      }
      const job = await queue.get(id);
      if (json) jobs.push(changedToJson(id, job));
      else context.stdout.write(describeChanged(context, job, { id, verb }));
    }
  });
  if (json) {
    const reasons = [...refused].map(([id, { message: reason }]) => ({ id, reason }));
    context.stdout.write(formatJson(isOne ? jobs[0] : { jobs, refused: reasons }));
  }
  tellRefused(context, [...refused.values()]);
}

/** A wrong option is wrong for every job, so each message is printed once. */
function tellRefused({ stderr, setExitCode }: CommandContext, refused: readonly QueueError[]): void {
  for (const message of new Set(refused.map(({ message }) => message))) {
    stderr.write(`runner: ${printableName(message)}\n`);
  }
  if (refused.length > 0) setExitCode(refused.some(({ code }) => code === 'invalid') ? 2 : 1);
}

/** The numbers, in their order, and the word behind them, if there is one. */
function readJobNumbers(words: readonly string[]): readonly [readonly [number, ...number[]], string | undefined] {
  const end = words.findIndex((word) => !isRowNumber(word));
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
  const verb = isRowNumber(next) ? nearestName(word, verbNames) : null;
  const cure =
    verb === null ? '`npx folder-runner jobs` lists them.' : `did you mean \`npx folder-runner job ${next} ${verb}\`?`;
  return new UsageError(
    `npx folder-runner job needs the number of a job, found ${JSON.stringify(printableLine(word))}; ${cure}`,
  );
}

/** `runner job <id>`: everything about one job of the queue. */
async function showJob(context: CommandContext, id: number, options: JobOptions): Promise<void> {
  const text = await withLog(context, options.root, async (site) => {
    const story = await readStory(site, id);
    return options.json
      ? formatJson(jobStoryRecord.toJson({ ...story.job, ...story }))
      : renderJob(story, createScreen(context));
  });
  await print(context, text);
}

/** All that verbs take. */
const typedOptions: Readonly<Record<string, QueueOption>> = { token: tokenOption, ...verbOptions };

/** The options that a verb takes. */
function optionsOf(verb: VerbName): readonly QueueOption[] {
  const { options, takesToken = false } = verbOf(verb);
  return [...options, ...(takesToken ? ['token'] : [])].flatMap((name) => typedOptions[name] ?? []);
}

/** @throws {UsageError} that names the nearest verb */
function readVerb(word: string): VerbName {
  const verb = verbNames.find((name) => name === word);
  if (verb !== undefined) return verb;
  const nearest = nearestName(word, verbNames);
  throw new UsageError(
    `npx folder-runner job <id> needs one of ${verbNames.join(', ')}, ` +
      `found ${JSON.stringify(printableLine(word))}${nearest === null ? '.' : `; did you mean ${nearest}?`}`,
  );
}

/**
 * Null: no verb, the job is shown.
 *
 * @throws {UsageError} if an option is given that the verb does not take
 */
function assertOptions(verb: VerbName | null, given: object): void {
  const taken = verb === null ? [] : optionsOf(verb);
  const isGiven = (option: QueueOption): boolean => Object.hasOwn(given, typedKey(option));
  const wrong = Object.values(typedOptions).find((option) => isGiven(option) && !taken.includes(option));
  if (wrong === undefined) return;
  const { flag } = wrong;
  if (verb === null) {
    const having = verbNames.filter((name) => optionsOf(name).includes(wrong)).join('|');
    throw new UsageError(`${flag} goes with a verb: \`npx folder-runner job <id> ${having} ${flag} …\`.`);
  }
  const flags = [...taken.map(({ flag }) => flag), '--json'].join(', ');
  throw new UsageError(`\`npx folder-runner job <id> ${verb}\` takes no ${flag}; it takes ${flags}.`);
}

/** @throws {UsageError} if what is to be JSON is none, or the verb needs an option */
async function readOptions(verb: VerbName, typed: JobOptions): Promise<object> {
  if (typed.data === STDIN && typed.result === STDIN) {
    throw new UsageError('Only one of --data and --result can be read from stdin: give the other one as JSON.');
  }
  const given = await readQueueOptions(verbOptions, typed);
  if (Object.keys(given).length > 0 || !verbOf(verb).needsOption) return given;
  const flags = verbOf(verb).options.flatMap((name) => {
    const { flag = '', off }: QueueOption = verbOptions[name];
    return off === undefined ? [flag] : [flag, off];
  });
  const needed = `${flags.slice(0, -1).join(', ')} or ${flags.at(-1)}`;
  throw new UsageError(`\`npx folder-runner job <id> ${verb}\` needs ${needed}.`);
}

interface Changed {
  readonly id: number;
  readonly verb: VerbName;
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
