import { Command } from 'commander';
import type { AddedJob, DuplicatePolicy, Job } from '../../queue/api.ts';
import { UsageError } from '../../system/base/errors.ts';
import type { ExactJson } from '../../system/base/exact-json.ts';
import { countOf } from '../../system/base/format.ts';
import type { CommandContext, CommonOptions } from '../shared/context.ts';
import {
  type AddWords,
  nameLine,
  readCount,
  readJobLines,
  readJobOptions,
  readJsonArgument,
  readStdin,
} from '../shared/options.ts';
import { withQueue } from '../shared/with-queue.ts';

interface AddOptions extends AddWords, CommonOptions {
  readonly many?: true;
}

const ADD_HELP = `
Examples:
  runner add mail/welcome '{"to":"a@example.org"}'     a job for jobs/queue/mail/welcome.*
  runner add mail/welcome - < mail.json                large or secret data, from stdin
  runner add export --at '+10 minutes' --priority 750  later, and before others
  runner add export --at '2026-12-24 18:00'            local time of this machine
  runner add export --unique export:7                  only if no unfinished job has that key
  runner add cleanup --repeat 'SCHEDULED, +1 HOUR'     again and again
  runner add --many < jobs.jsonl                       one job per line, all or none:
                                                       {"name":"export"}

Higher priorities run first; 500 is the default. The keys of a line are the options of the
TypeScript API: runAt, priority, retries, retryDelay, uniqueKey, repeat … docs/queue.md has them all.

Exit codes: 0 added, 1 not possible in the present state, 2 usage error.`;

/** `runner add`: a job for the queue. */
export function addCommand(context: CommandContext): Command {
  const command = new Command('add');
  return command
    .description('add a job to the queue')
    .argument('[name]', 'name of its handler: mail/welcome for jobs/queue/mail/welcome.ts')
    .argument('[data]', 'JSON for the handler; - reads it from stdin (default: {})')
    .option('--at <when>', 'not before: "+10 minutes", "tomorrow 07:00", "2026-12-24 18:00" (default: now)')
    .option('--priority <n>', 'higher ones run first (default: 500)')
    .option('--retries <n>', 'how often it is retried (default: as its handler says)')
    .option('--retry-delay <delay>', 'delay before each retry: 5m, "exponential 30s 6h"')
    .option('--unique <key>', 'at most one unfinished job has this key')
    .option(
      '--on-duplicate <what>',
      'if a job has that key: keep it, replace or merge its data, or replace-all that is given (default: keep)',
    )
    .option('--repeat <rule>', 'rule for running again after each finish: "daily at 10:00", "SCHEDULED, +1 HOUR"')
    .option('--missed <what>', 'what to do about missed times: all, once or skip (default: all)')
    .option('--parent <id>', 'the job that waits for this one')
    .option('--on-child-failure <what>', 'what to do when a child job fails: resume or fail (default: resume)')
    .option('--group <name>', 'jobs of one group share a limit on how many run at once')
    .option('--lease <duration>', 'how long a claim is valid (default: as the settings say)')
    .option('--many', 'read jobs from stdin, one JSON object per line')
    .option('--json', 'print the number, and whether it was added, as JSON')
    .addHelpText('after', ADD_HELP)
    .action((name: string | undefined, data: string | undefined) =>
      add(context, { name, data }, command.optsWithGlobals<AddOptions>()),
    );
}

interface AddArguments {
  readonly name: string | undefined;
  readonly data: string | undefined;
}

async function add(context: CommandContext, { name, data }: AddArguments, options: AddOptions): Promise<void> {
  if (options.many === true) {
    if (name !== undefined) throw new UsageError('`npx folder-runner add --many` reads the names from stdin.');

    return await addMany(context, options);
  }
  if (name === undefined) {
    throw new UsageError('runner add needs the name of a job, such as mail/welcome.');
  }
  await refusePast(context.now(), options);
  await addOne(context, name, data === undefined ? data : await readJsonArgument(data, 'The data'), options);
}

/** `--at 18:05`, a moment later, is now. */
const PAST_MS = 60_000;

/**
 * A time that has passed is more likely a slip than another word for now. With a rule it is what its times are counted
 * from.
 */
async function refusePast(nowMs: number, { at, repeat }: AddOptions): Promise<void> {
  if (at === undefined || repeat !== undefined) return;
  const { readWhen } = await import('../../queue/add/values.ts');
  const atMs = readWhen(at, nowMs);
  if (nowMs - atMs < PAST_MS) return;
  const { createClock } = await import('../../report/text/clock.ts');
  const clock = createClock(nowMs);
  const past = `${clock.dateTime(atMs)} (${clock.zone})`;
  throw new UsageError(
    `--at must be a time to come, found ${JSON.stringify(at)}, which is ${past}; leave it out for now.`,
  );
}

async function addOne(
  context: CommandContext,
  name: string,
  data: ExactJson | null | undefined,
  options: AddOptions,
): Promise<void> {
  await withQueue(context, options.root, async (queue, root) => {
    const added = await queue.addUnique(name, data, readJobOptions(options));
    // Of a unique key that is taken, it is another job, perhaps of another name.
    const job = options.json && added.added ? null : await queue.get(added.id);
    if (options.json) context.stdout.write(`${JSON.stringify(added)}\n`);
    else context.stdout.write(`${await describe(context, job, added, options)}\n`);
    const { noteUnhandled } = await import('../shared/names.ts');
    await noteUnhandled(context, root, [job?.name ?? name]);
  });
}

async function describe(
  context: CommandContext,
  job: Job | null,
  { id, added, changed, ignored }: AddedJob,
  { onDuplicate = 'keep' }: AddOptions,
): Promise<string> {
  const { describeAdded, describeKept } = await import('../../report/text/words.ts');
  const { createClock } = await import('../../report/text/clock.ts');
  const nowMs = context.now();
  // Somebody has deleted it meanwhile.
  if (job === null) return added ? `Added job ${id}.` : `Job ${id} had that unique key already.`;
  if (added) return describeAdded(job, createClock(nowMs), nowMs);
  return describeKept(job, onDuplicate as DuplicatePolicy, changed, ignored.map(nameGiven));
}

/** As somebody gave it on the command line. */
function nameGiven(option: string): string {
  if (option === 'name' || option === 'data') return `the ${option}`;
  return option === 'runAt' ? '--at' : `--${option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** They are added in one transaction, and held in memory till then. */
const LONGEST_LIST_MIB = 64;

/** Adds the jobs that stand on stdin, in their order, all or none. */
async function addMany(context: CommandContext, options: CommonOptions): Promise<void> {
  assertAlone(options);
  const lines = readJobLines(await readStdin('The jobs', LONGEST_LIST_MIB));
  await withQueue(context, options.root, async (queue, root) => {
    const jobs = lines.map(({ job }) => job);
    const added = await queue.addManyUnique(jobs).catch((error: unknown) => {
      throw nameLine(error, lines);
    });
    context.stdout.write(`${options.json ? toJson(added) : describeManyAdded(added)}\n`);
    const { noteUnhandled } = await import('../shared/names.ts');
    await noteUnhandled(context, root, [...new Set(lines.map(({ job }) => job.name))]);
  });
}

/** Options of one job would count for none of them, or for all: whichever was meant, it is not so. */
function assertAlone(options: object): void {
  const others = Object.keys(options).filter((key) => !['many', 'json', 'root'].includes(key));
  if (others.length === 0) return;
  throw new UsageError('With --many each line has its own options, such as {"name":"mail/welcome","priority":750}.');
}

function toJson(all: readonly AddedJob[]): string {
  const kept = all.filter(({ added }) => !added);
  return JSON.stringify({
    ids: all.map(({ id }) => id),
    kept: kept.map(({ id }) => id),
    changed: kept.filter(({ changed }) => changed).map(({ id }) => id),
    ignored: kept.filter(({ ignored }) => ignored.length > 0).map(({ id, ignored }) => ({ id, options: ignored })),
  });
}

function describeManyAdded(all: readonly AddedJob[]): string {
  if (all.length === 0) return 'Added no job: stdin was empty.';
  const ids = all.filter(({ added }) => added).map(({ id }) => id);
  const kept = all.length - ids.length;
  const changed = all.filter((each) => each.changed).length;
  const taken = changed === 0 ? '' : `, and ${changed} of these jobs took what the line gave`;
  const rest = kept === 0 ? '' : ` ${countOf(kept, 'line')} added none: the unique key was taken${taken}.`;
  return `${describeAdded(ids)}${rest}`;
}

function describeAdded(ids: readonly number[]): string {
  const [first, last] = [ids.at(0), ids.at(-1)];
  if (first === undefined) return 'Added no job.';
  const which = ids.length === 1 ? String(first) : `${first} to ${last}`;
  return `Added ${countOf(ids.length, 'job')}: ${which}.`;
}

interface KickOptions extends CommonOptions {
  readonly count?: string;
}

const KICK_HELP = `
Failed and buried jobs are queued again with their tries reset, the earliest failures first. Only if
there are none with a matching name, delayed jobs become due at once.

Examples:
  runner kick 'mail/*'              all matching jobs that have failed
  runner kick mail/welcome --count 10
  runner kick '*' --json            {"kicked":3}

\`npx folder-runner job <id> kick\` kicks one job.`;

/** `runner kick`: queues failed jobs again. */
export function kickCommand(context: CommandContext): Command {
  const command = new Command('kick');
  return command
    .description('queue failed jobs with these names again')
    .argument('<pattern...>', 'names: mail/welcome, or a pattern such as "mail/*"')
    .option('--count <n>', 'maximum number of jobs (default: all)')
    .option('--json', 'as JSON')
    .addHelpText('after', KICK_HELP)
    .action((patterns: string[]) => kick(context, patterns, command.optsWithGlobals<KickOptions>()));
}

async function kick(context: CommandContext, patterns: readonly string[], options: KickOptions): Promise<void> {
  const count = options.count === undefined ? Number.MAX_SAFE_INTEGER : readCount('--count', options.count);
  const kicked = await withQueue(context, options.root, (queue) => queue.kickMany(patterns, count));
  const told = options.json
    ? JSON.stringify({ kicked })
    : `Kicked ${countOf(kicked, 'job')}${kicked === 0 ? hintFor(patterns) : '.'}`;
  context.stdout.write(`${told}\n`);
}

/** All other verbs take numbers. */
function hintFor(patterns: readonly string[]): string {
  const id = patterns.find((pattern) => /^\d+$/.test(pattern));
  return id === undefined ? '.' : `; \`npx folder-runner job ${id} kick\` kicks the job of that number.`;
}
