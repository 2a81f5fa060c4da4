import { text } from 'node:stream/consumers';
import { UsageError } from '../config/usage-error.ts';
import type { AddedJob } from '../queue/queue.ts';
import { countOf } from '../report/format.ts';
import type { CommandContext } from './command-context.ts';
import { nameLine, readJobLines } from './job-lines.ts';
import { noteUnhandled } from './note-unhandled.ts';
import { withQueue } from './with-queue.ts';

interface ManyOptions {
  readonly json?: true;
  readonly root?: string;
}

/** Adds the jobs that stand on stdin, in their order, all or none. */
export async function addMany(context: CommandContext, options: ManyOptions): Promise<void> {
  assertAlone(options);
  const lines = readJobLines(await text(process.stdin));
  await withQueue(context, options.root, async (queue, root) => {
    const jobs = lines.map(({ job }) => job);
    const added = await queue.addManyUnique(jobs).catch((error: unknown) => {
      throw nameLine(error, lines);
    });
    context.stdout.write(`${options.json ? toJson(added) : describe(added)}\n`);
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

function describe(all: readonly AddedJob[]): string {
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
