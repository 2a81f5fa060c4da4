import { text } from 'node:stream/consumers';
import { UsageError } from '../config/usage-error.ts';
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
    const ids = await queue.addMany(lines.map(({ job }) => job)).catch((error: unknown) => {
      throw nameLine(error, lines);
    });
    context.stdout.write(`${options.json ? JSON.stringify({ ids }) : describe(ids)}\n`);
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

function describe(ids: readonly number[]): string {
  const [first, last] = [ids.at(0), ids.at(-1)];
  if (first === undefined) return 'Added no job: stdin was empty.';
  const which = ids.length === 1 ? String(first) : `${first} to ${last}`;
  return `Added ${countOf(ids.length, 'job')}: ${which}.`;
}
