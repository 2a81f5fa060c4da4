import { jobOptionNames, jobOptions, type QueueOption } from '../../queue/add/options.ts';
import { readWhen } from '../../queue/add/values.ts';
import type { AddedJob, DuplicatePolicy, Job } from '../../queue/api.ts';
import { createClock } from '../../report/text/clock.ts';
import { describeAdded as describeAddedJob, describeKept } from '../../report/text/words.ts';
import { UsageError } from '../../system/base/errors.ts';
import type { ExactJson } from '../../system/base/exact-json.ts';
import { countOf } from '../../system/base/format.ts';
import type { CommandContext } from '../shared/context.ts';
import {
  nameLine,
  noteUnhandled,
  readJobLines,
  readJsonArgument,
  readQueueOptions,
  readStdin,
  withQueue,
} from '../shared/queue.ts';
import type { Given } from '../table.ts';

type AddOptions = Given<'add'>;

/** `runner add`: a job for the queue. */
export async function add(context: CommandContext, { name, data, ...options }: AddOptions): Promise<void> {
  if (options.many === true) {
    if (name !== undefined) throw new UsageError('`npx folder-runner add --many` reads the names from stdin.');

    return await addMany(context, options);
  }
  if (name === undefined) {
    throw new UsageError('runner add needs the name of a job, such as mail/welcome.');
  }
  refusePast(context.now(), options);
  await addOne(context, name, data === undefined ? data : await readJsonArgument(data, 'The data'), options);
}

/** `--at 18:05`, a moment later, is now. */
const PAST_MS = 60_000;

/**
 * A time that has passed is more likely a slip than another word for now. With a rule it is what its times are counted
 * from.
 */
function refusePast(nowMs: number, { at, repeat }: AddOptions): void {
  if (at === undefined || repeat !== undefined) return;
  const atMs = readWhen(at, nowMs);
  if (nowMs - atMs < PAST_MS) return;
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
    const added = await queue.addUnique(name, data, await readQueueOptions(jobOptions, options));
    // If the unique key is taken, this is the job that has it, perhaps of another name.
    const job = options.json && added.added ? null : await queue.get(added.id);
    if (options.json) context.stdout.write(`${JSON.stringify(added)}\n`);
    else context.stdout.write(`${describe(context, job, added, options)}\n`);
    await noteUnhandled(context, root, [job?.name ?? name]);
  });
}

function describe(
  context: CommandContext,
  job: Job | null,
  { id, added, changed, ignored }: AddedJob,
  { onDuplicate = 'keep' }: AddOptions,
): string {
  const nowMs = context.now();
  // Somebody has deleted it meanwhile.
  if (job === null) return added ? `Added job ${id}.` : `Job ${id} had that unique key already.`;
  if (added) return describeAddedJob(job, createClock(nowMs), nowMs);
  return describeKept(job, onDuplicate as DuplicatePolicy, changed, ignored.map(nameGiven));
}

/** The option of another job as it was typed: `--at`; its name and data are arguments. */
function nameGiven(option: string): string {
  const { flag = `the ${option}` }: QueueOption = jobOptions[jobOptionNames.find((name) => name === option) ?? 'name'];
  return flag;
}

/** They are added in one transaction, and held in memory till then. */
const LONGEST_LIST_MIB = 64;

/** Adds the jobs that stand on stdin, in their order, all or none. */
async function addMany(context: CommandContext, options: AddOptions): Promise<void> {
  assertAlone(options);
  const lines = readJobLines(await readStdin('The jobs', LONGEST_LIST_MIB));
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
