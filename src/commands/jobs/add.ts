import { text } from 'node:stream/consumers';
import { Command, Option } from 'commander';
import { UsageError } from '../../base/errors.ts';
import type { AddedJob, Job, JsonValue } from '../../queue/api.ts';
import { countOf } from '../../report/text/format.ts';
import type { CommandContext } from '../shared/context.ts';
import { noteUnhandled } from '../shared/names.ts';
import { type AddWords, nameLine, readJobLines, readJobOptions } from '../shared/options.ts';
import { withQueue } from '../shared/with-queue.ts';

interface AddOptions extends AddWords {
  readonly stdin?: true;
  readonly many?: true;
  readonly json?: true;
  readonly root?: string;
}

const EXAMPLES = `
Examples:
  runner add mail/welcome '{"to":"a@example.org"}'     a job for jobs/queue/mail/welcome.*
  runner add mail/welcome - < mail.json                large or secret data, from stdin
  runner add export --at '+10 minutes' --priority 750  later, and before others
  runner add export --at '2026-12-24 18:00'            local time of this machine
  runner add export --unique export:7                  only if no unfinished job has that key
  runner add cleanup --repeat 'SCHEDULED, +1 HOUR'     again and again
  runner add --many < jobs.jsonl                       one job per line, all or none:
                                                       {"name":"mail/welcome","data":{"to":"…"}}

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
    .option('--at <when>', 'not before: "+10 minutes", "2026-12-24 18:00" (default: now)')
    .option('--priority <n>', 'higher ones run first (default: 500)')
    .option('--retries <n>', 'how often it is retried (default: as its handler says)')
    .option('--retry-delay <delay>', 'delay before each retry: 5m, "exponential 30s 6h"')
    .option('--unique <key>', 'at most one unfinished job has this key')
    .option(
      '--on-duplicate <what>',
      'if a job has that key: keep, replace or merge its data (default: keep)',
    )
    .option('--repeat <rule>', 'rule for running again after each finish: "SCHEDULED, +1 HOUR"')
    .option('--missed <what>', 'what to do about missed times: all, once or skip (default: all)')
    .option('--parent <id>', 'the job that waits for this one')
    .option(
      '--on-child-failure <what>',
      'what to do when a child job fails: resume or fail (default: resume)',
    )
    .option('--group <name>', 'jobs of one group share a limit of how many run at once')
    .option('--lease <duration>', 'how long a claim is valid (default: as the settings say)')
    .option('--stdin', 'read the data from stdin')
    .addOption(
      new Option('--many', 'read jobs from stdin, one JSON object per line').conflicts('stdin'),
    )
    .option('--json', 'print the number, and whether it was added, as JSON')
    .addHelpText('after', EXAMPLES)
    .action((name: string | undefined, data: string | undefined) =>
      add(context, { name, data }, command.optsWithGlobals<AddOptions>()),
    );
}

interface AddArguments {
  readonly name: string | undefined;
  readonly data: string | undefined;
}

async function add(
  context: CommandContext,
  { name, data }: AddArguments,
  options: AddOptions,
): Promise<void> {
  if (options.many === true) {
    if (name !== undefined) throw new UsageError('`runner add --many` reads the names from stdin.');

    return await addMany(context, options);
  }
  if (name === undefined) {
    throw new UsageError('runner add expects the name of a job, such as mail/welcome.');
  }
  await addOne(context, name, await readData(data, options), options);
}

async function readData(
  word: string | undefined,
  { stdin }: AddOptions,
): Promise<JsonValue | undefined> {
  if (stdin === true && word !== undefined && word !== '-') {
    throw new UsageError(
      'Give the data either as an argument or, with --stdin, on stdin; not both.',
    );
  }
  const source = stdin === true ? '-' : word;
  if (source === undefined) return undefined;
  const { readJsonArgument } = await import('../shared/options.ts');
  return await readJsonArgument(source, 'The data');
}

async function addOne(
  context: CommandContext,
  name: string,
  data: JsonValue | undefined,
  options: AddOptions,
): Promise<void> {
  await withQueue(context, options.root, async (queue, root) => {
    const { id, added } = await queue.addUnique(name, data, readJobOptions(options));
    // Of a unique key that is taken, it is another job, perhaps of another name.
    const job = options.json && added ? null : await queue.get(id);
    if (options.json) context.stdout.write(`${JSON.stringify({ id, added })}\n`);
    else context.stdout.write(`${await describe(context, job, { id, added }, options)}\n`);
    const { noteUnhandled } = await import('../shared/names.ts');
    await noteUnhandled(context, root, [job?.name ?? name]);
  });
}

async function describe(
  context: CommandContext,
  job: Job | null,
  { id, added }: AddedJob,
  { onDuplicate = 'keep' }: AddOptions,
): Promise<string> {
  const { describeAdded, describeKept } = await import('../../report/text/words.ts');
  const { createClock } = await import('../../report/text/format.ts');
  const nowMs = context.now();
  // Somebody has deleted it meanwhile.
  if (job === null) return added ? `Added job ${id}.` : `Job ${id} had that unique key already.`;
  return added ? describeAdded(job, createClock(nowMs), nowMs) : describeKept(job, onDuplicate);
}

interface ManyOptions {
  readonly json?: true;
  readonly root?: string;
}

/** Adds the jobs that stand on stdin, in their order, all or none. */
async function addMany(context: CommandContext, options: ManyOptions): Promise<void> {
  assertAlone(options);
  const lines = readJobLines(await text(process.stdin));
  await withQueue(context, options.root, async (queue, root) => {
    const jobs = lines.map(({ job }) => job);
    const added = await queue.addManyUnique(jobs).catch((error: unknown) => {
      throw nameLine(error, lines);
    });
    context.stdout.write(`${options.json ? toJson(added) : describeManyAdded(added)}\n`);
    await noteUnhandled(context, root, [...new Set(lines.map(({ job }) => job.name))]);
  });
}

/** Options of one job would count for none of them, or for all: whichever was meant, it is not so. */
function assertAlone(options: object): void {
  const others = Object.keys(options).filter((key) => !['many', 'json', 'root'].includes(key));
  if (others.length === 0) return;
  throw new UsageError(
    'With --many each line has its own options, such as {"name":"mail/welcome","priority":750}.',
  );
}

function toJson(all: readonly AddedJob[]): string {
  const kept = all.filter(({ added }) => !added);
  return JSON.stringify({ ids: all.map(({ id }) => id), kept: kept.map(({ id }) => id) });
}

function describeManyAdded(all: readonly AddedJob[]): string {
  if (all.length === 0) return 'Added no job: stdin was empty.';
  const ids = all.filter(({ added }) => added).map(({ id }) => id);
  const kept = all.length - ids.length;
  const rest = kept === 0 ? '' : ` ${countOf(kept, 'line')} added none: the unique key was taken.`;
  return `${describeAdded(ids)}${rest}`;
}

function describeAdded(ids: readonly number[]): string {
  const [first, last] = [ids.at(0), ids.at(-1)];
  if (first === undefined) return 'Added no job.';
  const which = ids.length === 1 ? String(first) : `${first} to ${last}`;
  return `Added ${countOf(ids.length, 'job')}: ${which}.`;
}
