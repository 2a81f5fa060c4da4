import { Option } from 'commander';
import { openHandlers } from '../../discovery/handlers.ts';
import { withoutParameters } from '../../discovery/script.ts';
import { givenOptions, jobOptionNames, jobOptions, type QueueOption } from '../../queue/add/options.ts';
import type { NewJob } from '../../queue/api.ts';
import { QueueError } from '../../queue/errors.ts';
import { buildQueue, type VerbQueue } from '../../queue/queue.ts';
import { loadSettingsIfRight } from '../../settings/load.ts';
import { commandClock } from '../../system/base/clock.ts';
import { UsageError } from '../../system/base/errors.ts';
import { type ExactJson, parseExactly } from '../../system/base/exact-json.ts';
import { nearestName, nearestPath } from '../../system/base/suggest.ts';
import { printableLine } from '../../system/base/text.ts';
import { describeFound } from '../../system/base/values.ts';
import { numberIn } from './command.ts';
import type { CommandContext } from './context.ts';
import { rootOf } from './open.ts';

/** Opens the queue of a root, makes its log where there is none yet, and closes it whatever happens. */
export async function withQueue<T>(
  context: CommandContext,
  rootOption: string | undefined,
  use: (queue: VerbQueue, root: string) => Promise<T>,
): Promise<T> {
  const { env, cwd, now } = context;
  const root = rootOf(context, rootOption);
  // Data is only passed on here: to whoever claims a job, or looks at it.
  const queue = await buildQueue({ root, env, cwd, now }, parseExactly, commandClock);
  try {
    return await use(queue, root);
  } finally {
    await queue.close();
  }
}

/** The key of an option among those that were typed: `at`. */
export const typedKey = ({ flag = '' }: QueueOption): string => new Option(flag).attributeName();

/**
 * Reads what was typed as the queue takes it; whether it is right is for the queue to say.
 *
 * @throws {UsageError} if what is to be JSON is none
 */
export async function readQueueOptions(
  options: Readonly<Record<string, QueueOption>>,
  typed: object,
): Promise<Readonly<Record<string, unknown>>> {
  const words = new Map<string, unknown>(Object.entries(typed));
  const read: Record<string, unknown> = {};
  for (const [name, option] of Object.entries(options)) {
    const word = option.flag === undefined ? undefined : words.get(typedKey(option));
    if (word === undefined) continue;
    read[name] = typeof word === 'string' ? await readWord(option, word) : word || null;
  }
  return read;
}

async function readWord(option: QueueOption, word: string): Promise<unknown> {
  if (option.takes === 'json') return await readJsonArgument(word, option.flag ?? '');
  return ['priority', 'retries', 'id'].includes(String(option.takes)) ? numberIn(word) : word;
}

/** The value of an option that stands for stdin: secret or large values do not belong among arguments. */
export const STDIN = '-';

/**
 * The value of an argument that is JSON, or names stdin; as text, which is only passed on.
 *
 * @throws {UsageError} that never shows the value: it may be secret
 */
export async function readJsonArgument(word: string, what: string): Promise<ExactJson | null> {
  return parseJson(word === STDIN ? await readStdin(what, LONGEST_JSON_MIB) : word, what);
}

/** Room for the 1 MiB that the queue takes, however it is indented or escaped. */
const LONGEST_JSON_MIB = 8;

/** @throws {UsageError} as soon as there is more of it: it may have no end */
export async function readStdin(what: string, mostMib: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > mostMib * 1024 * 1024) throw new UsageError(`${what} on stdin: expected at most ${mostMib} MiB.`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

const shellExample = `'{"to":"a@example.org"}' in single quotes`;

export function parseJson(json: string, what: string, such = shellExample): ExactJson | null {
  try {
    return parseExactly(json);
  } catch (error) {
    throw new UsageError(`${what} is not valid JSON (${describeFault(json, error)}); expected JSON such as ${such}.`);
  }
}

function describeFault(json: string, error: unknown): string {
  if (json.trim() === '') return 'it is empty';
  const [, position] = /at position (\d+)/.exec(String(error)) ?? [];
  if (position !== undefined) return `error at character ${Number(position) + 1}`;
  return /end of JSON/.test(String(error)) ? 'it ends too early' : 'not a JSON value';
}

/** A job of a list, and where it stands in it. */
interface JobLine {
  readonly line: number;
  readonly job: NewJob<unknown>;
}

/**
 * The jobs of a text with one JSON object a line; empty lines count as lines only.
 *
 * @throws {UsageError} that names the first wrong line
 */
export function readJobLines(text: string): JobLine[] {
  return text
    .split('\n')
    .map((content, index) => ({ content: content.trim(), line: index + 1 }))
    .filter(({ content }) => content !== '')
    .map(({ content, line }) => ({ line, job: readJob(content, line) }));
}

function readJob(content: string, line: number): NewJob<unknown> {
  const json = parseJson(content, `Line ${line}`, '{"name":"mail/welcome","data":{}}');
  if (json === null || !json.text.startsWith('{')) {
    throw new UsageError(`Line ${line} must be an object such as {"name":"mail/welcome","data":{}}.`);
  }
  const job = JSON.parse(content) as NewJob<unknown>;
  for (const key of Object.keys(job)) if (!Object.hasOwn(jobOptions, key)) throw unknownKey(key, line);
  return { ...givenOptions(jobOptions, { ...job }, json), name: job.name };
}

function unknownKey(key: string, line: number): UsageError {
  const nearest = nearestName(key, jobOptionNames);
  const hint = nearest === null ? `a job has ${jobOptionNames.join(', ')}.` : `did you mean ${nearest}?`;
  return new UsageError(`Line ${line}: ${JSON.stringify(printableLine(key))} is not a key of a job; ${hint}`);
}

/** The queue counts jobs, who wrote them counts lines. */
export function nameLine(error: unknown, lines: readonly JobLine[]): unknown {
  if (!(error instanceof QueueError)) return error;
  const { code, index, cause } = error;
  const found = lines[lines.length === 1 ? 0 : (index ?? lines.length)];
  if (found === undefined) return error;
  const which = index === null ? '' : ` (${describeFound(found.job.name)})`;
  const alone = cause instanceof QueueError ? cause : error;
  return new QueueError(code, `Line ${found.line}${which}: ${alone.message}`);
}

/** More would drown what was asked for. */
const MOST_NOTES = 10;

/** Tells of names that nothing here is for: another machine may have their handlers, or it is a slip. */
export async function noteUnhandled(context: CommandContext, root: string, names: readonly string[]): Promise<void> {
  // Wrong settings do not keep a job from being added.
  const handlers = (await openHandlers(root, await loadSettingsIfRight(root))).names();
  const unhandled = names.filter((name) => !isHandled(name, handlers)).map(withoutParameters);
  for (const name of [...new Set(unhandled)].slice(0, MOST_NOTES))
    context.stderr.write(`${describeUnhandled(name, handlers)}\n`);
}

function isHandled(name: string, handlers: readonly string[]): boolean {
  return handlers.includes(name) || handlers.includes(withoutParameters(name));
}

export function describeUnhandled(name: string, handlers: readonly string[]): string {
  const nearest = nearestPath(withoutParameters(name), handlers);
  const guess = nearest === null ? '.' : `; did you mean ${printableLine(nearest)}?`;
  return `Note: jobs/queue/ has no handler for ${printableLine(name)} here, so it waits for one${guess}`;
}
